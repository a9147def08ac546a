package import Logging
import Metrics
package import Observability
package import Postgres
package import PushModel
import ServiceLifecycle
import Synchronization
package import TokenServiceKit
import TokenServiceSending

/// Sends the messages that are due to webhooks. Every process runs one, which claims messages with a lease. If a process dies, another one
/// sends its messages again under the same id when the lease has ended.
///
/// At most ``perWebhook`` messages of one webhook are under way in a process, and one where it fails, and at most ``perApp`` of one app. No
/// two webhooks share connections. So slow webhooks of one app delay no other app.
package final class WebhookDispatcher: Service {
    static let perWebhook = 4
    static let perApp = 32
    private static let maximumUnderWay = 256
    private static let interval = Duration.milliseconds(500)
    private static let maintenanceInterval = Duration.seconds(10)
    /// How long a stop waits for messages that are under way.
    private static let stopTimeout = Duration.seconds(2)

    private let pool: PostgresPool
    private let settings: WebhookSettings
    private let waiting: LowWater<PushID>
    private let wakeUp: WorkSignal
    /// The rules for addresses, used by requests that make webhooks, too.
    let addresses: WebhookAddresses
    private let clients: WebhookClients
    private let metrics: WebhookMetrics
    private let logger: Logger
    /// How many attempts are under way, by webhook.
    private let underWay = Mutex<[PushID: Int]>([:])
    private let lagSeconds = Mutex(0.0)

    package init(
        pool: PostgresPool, settings: WebhookSettings, waiting: LowWater<PushID>, wakeUp: WorkSignal, metrics: WebhookMetrics,
        logger: Logger
    ) {
        self.pool = pool
        self.settings = settings
        self.waiting = waiting
        self.wakeUp = wakeUp
        self.metrics = metrics
        self.logger = logger
        let addresses = WebhookAddresses(rules: settings.rules)
        self.addresses = addresses
        clients = WebhookClients(settings: settings, addresses: addresses, concurrency: Self.perWebhook, logger: logger)
    }

    /// How long the message that is due longest has waited, in seconds.
    var lag: Double { lagSeconds.withLock { $0 } }

    /// Runs until graceful shutdown: then it claims no more and waits a moment for messages that are under way. A process sends an
    /// unfinished message again under the same id when its lease has ended, so a receiver that hangs does not delay the stop.
    package func run() async throws {
        await withGracefulShutdownHandler {
            await withDiscardingTaskGroup { group in
                let clock = Task { while await Pause.of(Self.interval) { self.wakeUp.signal() } }
                // Beside the rounds: no message waits for it.
                group.addTask { repeat { await self.maintain() } while await Pause.of(Self.maintenanceInterval) }
                group.addTask { repeat { await self.removeDeleted() } while await Pause.of(Self.maintenanceInterval) }
                for await _ in wakeUp.signals {
                    if Task.isShuttingDownGracefully { break }
                    await round(&group)
                }
                clock.cancel()
                let end = ContinuousClock.now + Self.stopTimeout
                while isBusy, ContinuousClock.now < end, await Pause.of(.milliseconds(20)) {}
                group.cancelAll()
            }
            clients.close()
        } onGracefulShutdown: {
            self.wakeUp.end()
        }
    }

    private var isBusy: Bool { underWay.withLock { !$0.isEmpty } }

    private func round(_ group: inout DiscardingTaskGroup) async {
        let busy = underWay.withLock { $0 }
        let room = Self.maximumUnderWay - busy.values.reduce(0, +)
        guard room > 0 else { return }
        do {
            let (lease, marks) = (settings.leaseSeconds, waiting.marks)
            let claimed = try await pool.transaction { session in
                try WebhookQueue(session: session).claim(
                    underWay: busy, perWebhook: Self.perWebhook, perApp: Self.perApp, limit: room, from: marks, leaseSeconds: lease)
            }
            underWay.withLock { underWay in for message in claimed { underWay[message.webhook, default: 0] += 1 } }
            for message in claimed { group.addTask { await self.send(message) } }
        } catch {
            logger.failed("Messages for webhooks could not be claimed", error)
        }
    }

    private func send(_ message: WebhookMessage.Claimed) async {
        let outcome = await WebhookAttempt(clients: clients, settings: settings).post(message)
        // The stop ended the attempt, not the receiver.
        guard !Task.isCancelled else { return }
        do {
            try await record(outcome, of: message)
        } catch {
            // The message is sent again when its lease has ended.
            logger.failed("A webhook's answer could not be recorded", error)
        }
        underWay.withLock { underWay in
            let left = (underWay[message.webhook] ?? 1) - 1
            underWay[message.webhook] = left > 0 ? left : nil
        }
        wakeUp.signal()
    }

    private func record(_ outcome: WebhookAttempt.Outcome, of message: WebhookMessage.Claimed) async throws {
        metrics.webhookAttempt(outcome.result)
        let delay = settings.delay(after: message.attempts, retryAfter: outcome.retryAfter)
        let days = settings.disableAfterDays
        let disabled = try await pool.transaction { session in
            try WebhookQueue(session: session).record(outcome, of: message, delay: delay, disableAfterDays: days)
        }
        if outcome.result != .delivered, delay == nil { metrics.webhookMessageFailed() }
        if let disabled { report(message.webhook, disabled) }
    }

    private func report(_ webhook: PushID, _ reason: Webhook.DisabledReason) {
        metrics.webhookDisabled(reason)
        logger.warning(
            "A webhook was disabled", metadata: [LogKey.webhook: "\(webhook)", LogKey.reason: "\(reason.rawValue)"])
    }

    private func maintain() async {
        clients.removeExpired()
        do {
            let lag = try await waiting.search { [pool] from in
                let found = try await pool.session { session in try WebhookQueue(session: session).search(from: from) }
                return (found.now, found.oldest, found.lag)
            }
            lagSeconds.withLock { $0 = lag }
            try await disableOverfull()
        } catch {
            guard !Task.isCancelled else { return }
            logger.failed("What waits for webhooks could not be read", error)
        }
    }

    private func removeDeleted() async {
        do {
            try await WebhookRemoval(pool: pool).finishOthers()
        } catch {
            guard !Task.isCancelled else { return }
            logger.failed("Deleted webhooks could not be removed", error)
        }
    }

    /// One webhook at a time: if the messages of one take too long to count, or its row is locked, the others do not wait for it.
    private func disableOverfull() async throws {
        let (limit, marks) = (settings.backlogLimit, waiting.marks)
        for webhook in try await pool.session({ session in try WebhookQueue(session: session).enabled() }) {
            do {
                let isDisabled = try await pool.session { session in
                    try WebhookQueue(session: session).disableOverfull(webhook, limit: limit, from: marks[webhook])
                }
                if isDisabled { report(webhook, .backlogFull) }
            } catch {
                guard Refusal(error) != .outage else { throw error }
                logger.failed("The messages that wait for a webhook could not be counted", error, [LogKey.webhook: "\(webhook)"])
            }
        }
    }
}

/// Counts attempts of webhooks, and webhooks that were disabled.
package struct WebhookMetrics: Sendable {
    private let attempts: [WebhookAttempt.Outcome.Result: Counter]
    private let messagesFailed: Counter
    private let disabled: [Webhook.DisabledReason: Counter]
    let lag: GaugeMetric

    package init(_ registry: PrometheusMetrics) {
        attempts = registry.counters(
            "push_token_service_webhook_attempts_total", by: "result", WebhookAttempt.Outcome.Result.self,
            "Attempts; `refused`: the name leads where nothing may be sent. Result: delivered, failed, gone, refused.")
        messagesFailed = registry.counter(
            "push_token_service_webhook_messages_failed_total", "Messages that were given up after their last attempt.")
        disabled = registry.counters(
            "push_token_service_webhooks_disabled_total", by: "reason", Webhook.DisabledReason.self,
            "Webhooks that were disabled because of what their receivers did; inform their owners. Reason: gone, failing, "
                + "backlog_full.")
        lag = registry.gauge(
            "push_token_service_webhook_lag_seconds",
            "For how long the message that is due longest has waited; looked at every ten seconds; alert above a minute.")
    }

    func webhookAttempt(_ result: WebhookAttempt.Outcome.Result) { attempts[result]?.increment() }
    func webhookMessageFailed() { messagesFailed.increment() }
    func webhookDisabled(_ reason: Webhook.DisabledReason) { disabled[reason]?.increment() }
}
