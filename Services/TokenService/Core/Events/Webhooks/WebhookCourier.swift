package import Logging
package import Postgres
import PushModel
import ServiceLifecycle
import Synchronization

/// Wakes the courier: with time, when something was queued, and when there is room again.
package typealias WebhookPulse = RelayPulse

/// Takes what is due to the webhooks. Any number of processes may run one: each claims its own share with a lease, and what a dead one
/// had claimed is sent again under the same id when that has run out.
///
/// At most ``perWebhook`` messages of one webhook are under way in a process, one where it fails, so a slow one holds up nobody else.
package final class WebhookCourier: Service {
    static let perWebhook = 4
    private static let maximumUnderWay = 256
    private static let interval = Duration.milliseconds(500)
    private static let upkeepInterval = Duration.seconds(10)
    /// What is under way at a stop has so long to end.
    private static let farewell = Duration.seconds(2)

    private let pool: PostgresPool
    private let terms: WebhookTerms
    private let pulse: WebhookPulse
    private let clients: WebhookClients
    private let gauge: WebhookGauge
    private let metrics: TokenServiceMetrics
    private let logger: Logger
    private let underWay = Mutex<[PushID: Int]>([:])

    package init(
        pool: PostgresPool, terms: WebhookTerms, pulse: WebhookPulse, gauge: WebhookGauge, metrics: TokenServiceMetrics, logger: Logger
    ) {
        self.pool = pool
        self.terms = terms
        self.pulse = pulse
        self.gauge = gauge
        self.metrics = metrics
        self.logger = logger
        clients = WebhookClients(terms: terms, concurrency: Self.perWebhook, logger: logger)
    }

    /// Until graceful shutdown: then takes no more and waits a moment for what is under way. What has not ended by then is left to its
    /// lease, and sent again under the same id: a receiver that hangs must not hold up the stop.
    package func run() async throws {
        await withGracefulShutdownHandler {
            await withDiscardingTaskGroup { group in
                let clock = Task { while await Pause.of(Self.interval) { self.pulse.beat() } }
                var kept = ContinuousClock.now - Self.upkeepInterval
                for await _ in pulse.beats {
                    if Task.isShuttingDownGracefully { break }
                    await round(&group)
                    guard ContinuousClock.now - kept >= Self.upkeepInterval else { continue }
                    kept = .now
                    await upkeep()
                }
                clock.cancel()
                let end = ContinuousClock.now + Self.farewell
                while isBusy, ContinuousClock.now < end, await Pause.of(.milliseconds(20)) {}
                group.cancelAll()
            }
            await clients.close()
        } onGracefulShutdown: {
            self.pulse.end()
        }
    }

    private var isBusy: Bool { underWay.withLock { !$0.isEmpty } }

    private func round(_ group: inout DiscardingTaskGroup) async {
        let busy = underWay.withLock { $0 }
        let room = Self.maximumUnderWay - busy.values.reduce(0, +)
        guard room > 0 else { return }
        do {
            let lease = terms.leaseSeconds
            let claimed = try await pool.transaction { session in
                try WebhookQueue(session: session).claim(
                    underWay: busy, perWebhook: Self.perWebhook, limit: room, leaseSeconds: lease)
            }
            underWay.withLock { underWay in for message in claimed { underWay[message.webhook, default: 0] += 1 } }
            for message in claimed { group.addTask { await self.carry(message) } }
        } catch {
            logger.failed("Webhooks could not be served", error)
        }
    }

    private func carry(_ message: WebhookMessage.Claimed) async {
        let outcome = await WebhookAttempt(clients: clients, terms: terms).post(message)
        // Given up because of a stop, not by the receiver: no attempt of its.
        guard !Task.isCancelled else { return }
        do {
            try await settle(message, outcome)
        } catch {
            // Its lease runs out, and it is sent again.
            logger.failed("A webhook's answer could not be written down", error)
        }
        underWay.withLock { underWay in
            let left = (underWay[message.webhook] ?? 1) - 1
            underWay[message.webhook] = left > 0 ? left : nil
        }
        pulse.beat()
    }

    private func settle(_ message: WebhookMessage.Claimed, _ outcome: WebhookAttempt.Outcome) async throws {
        switch outcome {
        case .delivered(let status):
            metrics.webhookAttempt(.delivered)
            try await pool.transaction { session in try WebhookQueue(session: session).delivered(message, status: status) }
        case .gone:
            metrics.webhookAttempt(.gone)
            try await fail(message, status: 410, error: "status_410", isGone: true)
        case .failed(let status, let error, let retryAfter):
            metrics.webhookAttempt(.failed)
            try await fail(message, status: status, error: error, retryAfter: retryAfter)
        case .refused(let error):
            metrics.webhookAttempt(.refused)
            try await fail(message, status: nil, error: error)
        }
    }

    private func fail(
        _ message: WebhookMessage.Claimed, status: Int?, error: String, retryAfter: Duration? = nil, isGone: Bool = false
    ) async throws {
        let delay = terms.delay(after: message.attempts, retryAfter: retryAfter)
        let days = terms.disableAfterDays
        let disabled = try await pool.transaction { session in
            try WebhookQueue(session: session).failed(
                message, status: status, error: error, delay: delay, isGone: isGone, disableAfterDays: days)
        }
        if delay == nil { metrics.webhookMessageFailed() }
        if let disabled { report(message.webhook, disabled) }
    }

    private func report(_ webhook: PushID, _ reason: Webhook.DisabledReason) {
        metrics.webhookDisabled(reason)
        logger.warning(
            "A webhook was disabled", metadata: [LogKey.webhook: "\(webhook)", LogKey.reason: "\(reason.rawValue)"])
    }

    /// What need not be looked at in every round.
    private func upkeep() async {
        clients.sweep()
        do {
            let limit = terms.backlogLimit
            let (overfull, lag) = try await pool.session { session in
                let queue = WebhookQueue(session: session)
                return (try queue.disableOverfull(limit: limit), try queue.lag())
            }
            for webhook in overfull { report(webhook, .backlogFull) }
            gauge.set(lag: lag)
        } catch {
            logger.failed("Webhooks could not be looked after", error)
        }
    }
}

/// For how long the message that is due longest has waited.
package final class WebhookGauge: Sendable {
    private let seconds = Mutex(0.0)

    package init() {}

    func set(lag: Double) { seconds.withLock { $0 = lag } }
    package var lag: Double { seconds.withLock { $0 } }
}
