package import Postgres
package import PushModel
import Synchronization
package import TokenServiceKit

/// The enabled webhooks, remembered for two seconds, because every batch of outcomes needs them.
package final class WebhookSubscriptions: Sendable {
    /// How long this process may not notice a change that another process made.
    private static let memory: Duration = .seconds(2)
    /// Deliveries in one message: an outcome event may have more than a receiver wants to take at once.
    private static let deliveriesPerMessage = 100

    private let pool: PostgresPool
    private let wakeUp: WorkSignal
    private let known = Mutex<(asked: ContinuousClock.Instant, subscriptions: [AppSlug: [Webhook.Subscription]])?>(nil)

    package init(pool: PostgresPool, wakeUp: WorkSignal) {
        self.pool = pool
        self.wakeUp = wakeUp
    }

    /// Forgets the subscriptions after a change made here.
    package func forget() { known.withLock { $0 = nil } }

    /// Queues outcomes for the webhooks that want them, each event once however often it comes. If an error ends it, the events may come
    /// again.
    @discardableResult
    package func queue(_ events: [OutcomeEvent]) async throws -> Bool {
        let subscriptions = try await subscriptions()
        guard !subscriptions.isEmpty else { return false }
        let messages = events.flatMap { event in Self.messages(event, subscriptions[event.app] ?? []) }
        guard !messages.isEmpty else { return false }
        for start in stride(from: 0, to: messages.count, by: WebhookQueue.insertedAtOnce) {
            let part = Array(messages[start..<min(start + WebhookQueue.insertedAtOnce, messages.count)])
            try await pool.transaction { session in try WebhookQueue(session: session).insert(part) }
        }
        wakeUp.signal()
        return true
    }

    /// - Parameter ofApp: The webhooks of the event's app.
    private static func messages(_ event: OutcomeEvent, _ ofApp: [Webhook.Subscription]) -> [WebhookMessage.New] {
        let topic = EventTopic.delivery(event.outcome)
        let webhooks = ofApp.filter { $0.wants(topic) }
        guard !webhooks.isEmpty else { return [] }
        return event.parts(of: deliveriesPerMessage).flatMap { part in
            let body = part.encoded()
            return webhooks.map { WebhookMessage.New(webhook: $0.id, id: part.id, topic: topic, body: body) }
        }
    }

    private func subscriptions() async throws -> [AppSlug: [Webhook.Subscription]] {
        let now = ContinuousClock.now
        if let known = known.withLock({ $0 }), now - known.asked < Self.memory { return known.subscriptions }
        let found = try await pool.session { session in try WebhookQueue(session: session).subscriptions() }
        known.withLock { $0 = (now, found) }
        return found
    }
}

extension OutcomeEvent {
    /// Splits it into parts of at most `size` deliveries. Each has an id of its own, the same every time; a single one keeps the event's.
    package func parts(of size: Int) -> [OutcomeEvent] {
        guard deliveries.count > size else { return [self] }
        return stride(from: 0, to: deliveries.count, by: size).map { start in
            var part = self
            part.deliveries = Array(deliveries[start..<min(start + size, deliveries.count)])
            // The first delivery's id is as unique as the event, which names each delivery once.
            part.id = PushID(high: id.high, low: id.low ^ (part.deliveries[0].id.low & 0x3fff_ffff_ffff_ffff))
            return part
        }
    }
}
