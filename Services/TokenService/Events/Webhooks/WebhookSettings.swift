package import Configuration
package import Logging
package import Observability

/// How webhooks are served.
package struct WebhookSettings: Sendable {
    /// The delay after each attempt but the last. A message is given up when the attempt after the last delay fails. Jitter is added.
    package var schedule: [Duration]
    /// The limit for one attempt as a whole: name, connection, TLS, request, answer.
    package var timeout: Duration
    package var disableAfterDays: Int
    package var backlogLimit: Int
    package var retentionDays: Int
    package var isInsecure: Bool
    package var authorityFile: String?

    package init(_ config: ConfigReader, logger: Logger) throws {
        schedule = try Self.schedule(config)
        timeout = try config.read(Self.timeout)
        disableAfterDays = try config.read(Self.disableAfterDays)
        backlogLimit = try config.read(Self.backlogLimit)
        retentionDays = try config.read(Self.retentionDays)
        isInsecure = try config.read(Self.isInsecure)
        authorityFile = try config.read(Self.authorityFile, logger: logger)
    }

    private static func schedule(_ config: ConfigReader) throws -> [Duration] {
        let parts = try config.read(retrySeconds).split(separator: ",", omittingEmptySubsequences: false).map { Int($0) }
        let seconds = parts.compactMap(\.self).filter { (0...86_400).contains($0) }
        guard seconds.count == parts.count, seconds.count <= 20 else { throw retrySeconds.error(expected: retrySeconds.values) }
        return seconds.map { .seconds($0) }
    }

    package static let all: [any DocumentedSetting] = [
        retrySeconds, timeout, disableAfterDays, backlogLimit, retentionDays, authorityFile, isInsecure,
    ]

    private static let retrySeconds = Setting(
        "webhook.retry.seconds", "5,300,1800,7200,18000,36000,36000",
        values: "1 to 20 numbers of seconds from 0 to 86400, separated by commas",
        "how long after each failed attempt the next one is made (up to a fifth more); after the last one a message is given up")
    private static let timeout = Setting.seconds("webhook.timeout.seconds", 15, in: 1...60, "for one attempt as a whole")
    private static let disableAfterDays = Setting(
        "webhook.disable.after.days", 5, in: 1...30, "a webhook that nothing succeeded with for so long is disabled")
    private static let backlogLimit = Setting(
        "webhook.backlog.limit", 100_000, in: 1...10_000_000, "a webhook for which more messages wait is disabled")
    private static let retentionDays = Setting(
        "webhook.retention.days", 7, in: 1...90,
        "how long messages are kept, sent or not; unread state changes of notifications a day longer")
    private static let isInsecure = Setting(
        "webhook.insecure", false,
        "for development: webhooks may be plain http and lead to this machine; no setting permits other private addresses, which are "
            + "refused when a webhook is made or changed (`address_not_allowed`) and before each connection")
    private static let authorityFile = FileSetting("webhook.ca.file", "PEM file of authorities to trust besides the system's")

    package var rules: AddressRules { AddressRules(allowsLoopback: isInsecure) }
    /// How long a process has a message for itself: longer than any attempt.
    var leaseSeconds: Double { timeout / .seconds(1) + 30 }
    package var maximumAttempts: Int { schedule.count + 1 }

    /// - Parameters:
    ///   - attempts: The attempts so far.
    ///   - retryAfter: The receiver's request: it can only lengthen the delay.
    /// - Returns: nil if none follows.
    package func delay(after attempts: Int, retryAfter: Duration? = nil) -> Duration? {
        guard attempts <= schedule.count else { return nil }
        return max(schedule[max(0, attempts - 1)], retryAfter ?? .zero) * Double.random(in: 1...1.2)
    }
}
