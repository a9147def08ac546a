package import Configuration
package import Observability

/// How the registry of channels works with the dispatchers.
package struct ChannelSettings: Equatable, Sendable {
    package var listInterval: Duration
    package var commandTimeout: Duration

    package init(_ config: ConfigReader) throws {
        listInterval = try config.read(Self.listInterval)
        commandTimeout = try config.read(Self.commandTimeout)
    }

    package static let all: [any DocumentedSetting] = [listInterval, commandTimeout]

    private static let listInterval = Setting.seconds(
        "channels.list.interval.seconds", 3600, in: 1...86_400,
        "how often the broadcast channels of each app and environment are compared with Apple's list")
    private static let commandTimeout = Setting.milliseconds(
        "channels.command.timeout.ms", 15_000, in: 100...300_000,
        "for so long a dispatcher may begin a request about a channel, and for as long again it may wait for Apple")

    /// After a refusal that may pass.
    var retryDelay: Duration { commandTimeout * 2 }
}

extension Duration {
    var milliseconds: Int64 { Int64(self / .milliseconds(1)) }
}
