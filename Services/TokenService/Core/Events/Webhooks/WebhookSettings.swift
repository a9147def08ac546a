package import Configuration
package import Logging
import Observability

/// How webhooks are served.
package struct WebhookSettings: Sendable {
    /// The delay after each attempt but the last. A message is given up when the attempt after the last delay fails. Jitter is added.
    package var schedule: [Duration]
    /// For one attempt as a whole: name, connection, TLS, request, answer.
    package var timeout: Duration
    /// A webhook without a success for that many days is disabled.
    package var disableAfterDays: Int
    /// A webhook with more waiting messages is disabled.
    package var backlogLimit: Int
    package var retentionDays: Int
    /// For development: http, and addresses of this machine.
    package var isInsecure: Bool
    /// A file of more authorities to trust, PEM.
    package var authorityFile: String?

    package init(_ config: ConfigReader, logger: Logger) throws {
        schedule = try Self.schedule(config)
        timeout = try config.seconds("webhook.timeoutSeconds", default: 15, in: 1...60)
        disableAfterDays = try config.integer("webhook.disableAfterDays", default: 5, in: 1...30)
        backlogLimit = try config.integer("webhook.backlogLimit", default: 100_000, in: 1...10_000_000)
        retentionDays = try config.integer("webhook.retentionDays", default: 7, in: 1...90)
        isInsecure = try config.flag("webhook.insecure", default: false)
        authorityFile = try config.optionalFile("webhook.caFile", logger: logger)
    }

    private static func schedule(_ config: ConfigReader) throws -> [Duration] {
        let parts = config.text("webhook.retrySeconds", default: "5,300,1800,7200,18000,36000,36000")
            .split(separator: ",", omittingEmptySubsequences: false).map { Int($0) }
        let seconds = parts.compactMap(\.self).filter { (0...86_400).contains($0) }
        guard seconds.count == parts.count, seconds.count <= 20 else {
            throw ConfigurationError("webhook.retrySeconds", expected: "1 to 20 numbers of seconds from 0 to 86400, separated by commas")
        }
        return seconds.map { .seconds($0) }
    }

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
