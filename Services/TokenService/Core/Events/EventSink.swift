package import Broker
import Postgres
import PushModel

/// The destination of events.
package enum EventSink: Sendable {
    package enum Kind: String, CaseIterable, Sendable {
        case broker, webhooks
    }

    /// The exchange of outcomes, for apps that want it.
    case broker(Publisher, Topology)
    /// The queues of the webhooks that want them.
    case webhooks(WakeUp)

    /// Messages that wait for confirms at once: jobs share the publisher, and jobs of the lane `now` must not wait behind many events.
    private static let slice = 64
    private static let confirmTimeout = Duration.seconds(5)

    /// The apps and webhooks that want the events of a log.
    struct Interest: Sendable {
        var apps: [App.ID]
        var webhooks: [Webhook.Subscription] = []
    }

    func interest(in log: EventLog, _ session: PostgresSession) throws -> Interest {
        switch self {
        case .broker: return Interest(apps: try EventStore(session: session).streamingApps(log))
        case .webhooks:
            let webhooks = try WebhookStore(session: session).subscriptions().filter { $0.wants(anyOf: EventTopic.of(log)) }
            return Interest(apps: Array(Set(webhooks.map(\.app))).sorted(), webhooks: webhooks)
        }
    }

    /// - Returns: false where the events have to be published again later.
    func publish(_ events: [PushEvent]) async throws -> Bool {
        guard case .broker(let publisher, let topology) = self else { return true }
        var rest = events[...]
        while !rest.isEmpty {
            // An event for which no queue is bound is dropped.
            let messages = rest.prefix(Self.slice).map { event in
                OutgoingMessage(
                    exchange: topology.outcomesExchange, routingKey: event.routingKey, messageID: event.id,
                    contentType: PushEvent.contentType, body: event.encoded(), isMandatory: false)
            }
            let outcomes = await publisher.publish(messages, deadline: Self.confirmTimeout)
            guard outcomes.allSatisfy(\.isConfirmed) else { return false }
            rest = rest.dropFirst(Self.slice)
        }
        return true
    }

    /// Runs in the transaction that records the position in the log.
    func store(_ events: [PushEvent], for interest: Interest, _ session: PostgresSession) throws {
        guard case .webhooks = self else { return }
        let messages = events.flatMap { event in
            interest.webhooks.filter { $0.app == event.app && $0.wants(event.topic) }.map { webhook in
                WebhookMessage.New(webhook: webhook.id, id: event.id, topic: event.topic, body: event.encoded())
            }
        }
        try WebhookStore(session: session).insert(messages)
    }

    func stored(_ number: Int) {
        if case .webhooks(let wakeUp) = self, number > 0 { wakeUp.signal() }
    }
}

extension EventLog: PostgresEncodable {}
extension EventSink.Kind: PostgresEncodable {}
