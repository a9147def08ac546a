package import Broker
import Postgres
import PushModel

/// Where events go.
package enum EventSink: Sendable {
    package enum Kind: String, CaseIterable, Sendable {
        case broker, webhooks
    }

    /// The exchange of outcomes, for apps that want it.
    case broker(Publisher, Topology)
    /// The queues of the webhooks that want them.
    case webhooks(WebhookPulse)

    /// Messages that wait for confirms at once: jobs share the publisher, and those of the lane `now` shall not stand behind many.
    private static let slice = 64
    private static let patience = Duration.seconds(5)

    /// Who wants something of a log.
    package struct Interest: Sendable {
        package var apps: [App.ID]
        package var webhooks: [Webhook.Subscription] = []
        package var isEmpty: Bool { apps.isEmpty }
    }

    func interest(in log: EventLog, _ session: PostgresSession) throws -> Interest {
        switch self {
        case .broker: return Interest(apps: try EventStore(session: session).streamingApps(log))
        case .webhooks:
            let topics = log == .notifications ? EventTopic.notifications : EventTopic.installations
            let webhooks = try WebhookStore(session: session).subscriptions().filter { webhook in
                topics.contains { webhook.wants($0) }
            }
            return Interest(apps: Array(Set(webhooks.map(\.app))).sorted(), webhooks: webhooks)
        }
    }

    /// - Returns: false where they have to be told again later.
    func publish(_ events: [PushEvent]) async throws -> Bool {
        guard case .broker(let publisher, let topology) = self else { return true }
        var rest = events[...]
        while !rest.isEmpty {
            // What no queue is bound for, nobody wants to hear.
            let messages = rest.prefix(Self.slice).map { event in
                OutgoingMessage(
                    exchange: topology.outcomesExchange, routingKey: event.routingKey, messageID: event.id,
                    contentType: PushEvent.contentType, body: event.encoded(), isMandatory: false)
            }
            let outcomes = await publisher.publish(messages, deadline: Self.patience)
            guard outcomes.allSatisfy(\.isConfirmed) else { return false }
            rest = rest.dropFirst(Self.slice)
        }
        return true
    }

    /// In the transaction that remembers how far was read.
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
        if case .webhooks(let pulse) = self, number > 0 { pulse.beat() }
    }
}
