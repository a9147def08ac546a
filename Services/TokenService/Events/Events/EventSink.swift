package import Broker
import Postgres
import PushModel
import Synchronization
import TokenServiceApps
package import TokenServiceKit

/// The destination of events.
package enum EventSink: Sendable {
    package enum Kind: String, CaseIterable, Sendable {
        case broker, webhooks
    }

    /// The exchange of outcomes, for apps that want it.
    case broker(Publisher, Topology)
    /// The queues of the webhooks that want them.
    case webhooks(WorkSignal)

    /// Messages that wait for confirms at once: jobs share the publisher, and jobs of the lane `now` must not wait behind many events.
    private static let slice = 64
    private static let confirmTimeout = Duration.seconds(5)

    /// The apps and webhooks that want the events of a log.
    struct Interest: Sendable {
        var apps: [App.ID]
        var webhooks: [AppSlug: [Webhook.Subscription]] = [:]

        /// Messages for one app's webhooks that one round stores. One event has as many as the app has webhooks.
        static let share = 500

        /// Finds the webhooks that get this event.
        func webhooks(for event: PlatformEvent) -> [Webhook.Subscription] {
            (webhooks[event.slug] ?? []).filter { $0.wants(event.topic) }
        }

        /// Events of one app whose messages are no more than its share.
        func eventsOfShare(of app: AppSlug) -> Int { max(1, Self.share / max(1, webhooks[app]?.count ?? 0)) }

        /// How many of these events one transaction stores, the first at least.
        /// - Returns: `late`: the apps with more than their share among them, with the index of the first event over it.
        func portion(of events: [PlatformEvent]) -> (count: Int, late: [App.ID: Int]) {
            var (total, ofApp, late): (Int, [App.ID: Int], [App.ID: Int]) = (0, [:], [:])
            for (index, event) in events.enumerated() where late[event.app] == nil {
                let messages = webhooks(for: event).count
                guard total == 0 || total + messages <= WebhookQueue.insertedAtOnce else { return (index, late) }
                let before = ofApp[event.app] ?? 0
                if before > 0, before + messages > Self.share {
                    late[event.app] = index
                } else {
                    ofApp[event.app] = before + messages
                    total += messages
                }
            }
            return (events.count, late)
        }
    }

    func interest(in log: EventLog, _ session: PostgresSession) throws -> Interest {
        switch self {
        case .broker: return Interest(apps: try EventStore(session: session).streamingApps(log))
        case .webhooks:
            let topics = EventTopic.of(log)
            let webhooks = try WebhookQueue(session: session).subscriptions()
                .mapValues { ofApp in ofApp.filter { $0.wants(anyOf: topics) } }.filter { !$0.value.isEmpty }
            return Interest(apps: webhooks.values.compactMap { $0.first?.app }.sorted(), webhooks: webhooks)
        }
    }

    var isBroker: Bool { if case .broker = self { true } else { false } }

    /// False while the broker takes nothing from anybody.
    var isReady: Bool {
        guard case .broker(let publisher, _) = self else { return true }
        return publisher.state == .ready
    }

    /// Publishes events in their order. An app of which one is not confirmed gets none of its later slices.
    /// - Returns: the apps that have to get their events again later, with the index of the first one.
    func publish(_ events: [PlatformEvent]) async -> [App.ID: Int] {
        guard case .broker(let publisher, let topology) = self else { return [:] }
        var missed: [App.ID: Int] = [:]
        var rest = Array(events.indices)[...]
        while !rest.isEmpty {
            let slice = rest.prefix(Self.slice)
            let outcomes = await publisher.publish(
                slice.map { Self.message(events[$0], topology) }, deadline: Self.confirmTimeout)
            for (index, outcome) in zip(slice, outcomes) where !outcome.isConfirmed {
                missed[events[index].app] = missed[events[index].app] ?? index
            }
            rest = rest.dropFirst(Self.slice)
            if !missed.isEmpty { rest = rest.filter { missed[events[$0].app] == nil }[...] }
        }
        return missed
    }

    /// Publishes one event and does not wait: a queue that answers nothing may take its time.
    func ask(_ event: PlatformEvent) -> Question {
        let question = Question()
        guard case .broker(let publisher, let topology) = self else { return question }
        publisher.publish([Self.message(event, topology)]) { answers in
            question.outcome.withLock { $0 = answers.first?.outcome.isConfirmed ?? false }
        }
        return question
    }

    /// An event on its way to the queues that are bound to it.
    final class Question: Sendable {
        /// Whether the broker has confirmed it; nil without an answer.
        fileprivate let outcome = Mutex<Bool?>(nil)

        var isConfirmed: Bool? { outcome.withLock { $0 } }
    }

    /// An event for which no queue is bound is dropped.
    private static func message(_ event: PlatformEvent, _ topology: Topology) -> OutgoingMessage {
        OutgoingMessage(
            exchange: topology.outcomesExchange, routingKey: event.routingKey, messageID: event.id, contentType: PlatformEvent.contentType,
            body: event.encoded(), isMandatory: false)
    }

    /// Runs in the transaction that records the position in the log.
    func store(_ events: [PlatformEvent], for interest: Interest, _ session: PostgresSession) throws {
        guard case .webhooks = self else { return }
        let messages = events.flatMap { event in
            let webhooks = interest.webhooks(for: event)
            let body = webhooks.isEmpty ? [] : event.encoded()
            return webhooks.map { WebhookMessage.New(webhook: $0.id, id: event.id, topic: event.topic, body: body) }
        }
        try WebhookQueue(session: session).insert(messages)
    }

    func stored(_ number: Int) {
        if case .webhooks(let wakeUp) = self, number > 0 { wakeUp.signal() }
    }
}

extension EventLog: PostgresEncodable {}
extension EventSink.Kind: PostgresEncodable {}
