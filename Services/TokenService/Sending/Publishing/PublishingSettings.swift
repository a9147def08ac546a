package import Configuration
package import Observability

/// How work gets from the database to the broker.
package struct PublishingSettings: Sendable {
    package var backlogLimit: Int
    package var fenceTimeout: Duration
    package var relayInterval: Duration
    package var relayLease: Duration
    package var fanOutPage: Int

    package init(_ config: ConfigReader) throws {
        backlogLimit = try config.read(Self.backlogLimit)
        fenceTimeout = try config.read(Self.fenceTimeout)
        relayInterval = try config.read(Self.relayInterval)
        relayLease = try config.read(Self.relayLease)
        fanOutPage = try config.read(Self.fanOutPage)
    }

    package static let all: [any DocumentedSetting] = [backlogLimit, fenceTimeout, relayInterval, relayLease, fanOutPage]

    private static let backlogLimit = Setting(
        "backlog.limit", 100_000, in: 1...10_000_000,
        "accepted notifications of an app that may wait in a lane for the broker; the next one gets 503")
    private static let fenceTimeout = Setting.milliseconds(
        "fence.timeout.ms", 1000, in: 1...10_000, "how long a logout waits for the broker's confirm")
    private static let relayInterval = Setting.milliseconds(
        "relay.interval.ms", 1000, in: 10...60_000, "how often the relay looks for left-over work")
    private static let relayLease = Setting.seconds(
        "relay.lease.seconds", 30, in: 1...3600, "how long a process has a notification for itself")
    private static let fanOutPage = Setting(
        "fan.out.page.installations", AudienceStore.installationsOfPage, in: 100...100_000,
        "installations that a fan-out looks at before it moves its checkpoint: bounds memory, and what is published twice after a kill")
}
