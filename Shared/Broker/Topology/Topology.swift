package import PushModel

/// The names of all objects in the broker. Every name begins with the prefix, so that several installations, and tests, share a virtual
/// host. `Topology+Objects.swift` describes the objects.
package struct Topology: Sendable, Hashable {
    /// The creator of the objects.
    package enum Ownership: String, Sendable, Hashable, CaseIterable {
        /// The services declare everything, idempotently, at every connect.
        case services
        /// Operators import ``definitions(virtualHost:)``; the services only check that everything is there.
        case operators
    }

    package let prefix: String
    package let ownership: Ownership
    /// Whether the exchanges and queues of retries are declared or checked. They are three fifths of all objects, and a dispatcher's publisher
    /// alone uses them.
    package let hasRetries: Bool

    package init(prefix: String = "push", ownership: Ownership = .services, hasRetries: Bool = true) {
        self.prefix = prefix
        self.ownership = ownership
        self.hasRetries = hasRetries
    }

    // MARK: Exchanges

    /// Direct; the routing key is the lane.
    package var jobsExchange: String { "\(prefix).jobs" }
    /// Direct; the routing key is the lane.
    package func retryExchange(_ delay: RetryDelay) -> String { "\(prefix).retry.lanes.\(delay.rawValue)" }
    /// Topic; the routing key is `<app>.<class>`.
    package var outcomesExchange: String { "\(prefix).outcomes" }
    /// Fanout, so that an outcome keeps its routing key and returns to ``outcomesExchange``.
    package var waitingOutcomesExchange: String { "\(prefix).outcomes.waiting" }
    /// Fanout.
    package var deadExchange: String { "\(prefix).dead" }
    /// Fanout. Dead letters that ``deadExchange`` refused wait behind it.
    package var waitingDeadExchange: String { "\(prefix).dead.waiting" }
    /// Fanout. It carries a copy of what the token service puts on ``controlStream``. Each dispatcher binds a queue of its own, so that a
    /// stream that is silent or late is noticed when the next fence comes.
    package var controlCopiesExchange: String { "\(prefix).control.copies" }

    // MARK: Queues

    package func jobQueue(_ lane: Lane) -> String { "\(prefix).jobs.\(lane.rawValue)" }
    package func jobRoutingKey(_ lane: Lane) -> String { lane.rawValue }
    /// One for each lane: RabbitMQ keeps 32 messages of a queue on the way to ``jobsExchange``, and tries again after three minutes what was
    /// refused there. In a common queue, 32 jobs of a lane that is full would hold up the other lanes' jobs.
    package func retryQueue(_ lane: Lane, _ delay: RetryDelay) -> String { "\(prefix).retry.\(lane.rawValue).\(delay.rawValue)" }
    /// Of all lanes and delays.
    package var retryQueues: [String] { Lane.allCases.flatMap { lane in RetryDelay.allCases.map { retryQueue(lane, $0) } } }
    package var deadQueue: String { "\(prefix).dead" }
    /// Dead letters that ``deadExchange`` refused. The broker moves them there again.
    package var waitingDeadQueue: String { "\(prefix).dead.waiting" }
    package var tokenServiceOutcomesQueue: String { "\(prefix).outcomes.token-service" }
    /// Outcomes that ``outcomesExchange`` refused. The broker moves them there again.
    package var waitingOutcomesQueue: String { "\(prefix).outcomes.waiting" }
    /// Requests for broadcast channels (`ChannelCommand`). The token service publishes to it through the default exchange with this routing
    /// key; dispatchers consume it.
    package var commandsQueue: String { "\(prefix).commands" }
    /// Fanout. Commands that could not be carried out yet wait behind it, and go back to ``commandsQueue`` after a second.
    package var waitingCommandsExchange: String { "\(prefix).commands.waiting" }
    package var waitingCommandsQueue: String { "\(prefix).commands.waiting" }
    /// Fanout.
    package var commandsExchange: String { "\(prefix).commands" }
    /// A stream. Publish to it through the default exchange with this routing key.
    package var controlStream: String { "\(prefix).control" }

    /// An idle dispatcher publishes to it through the default exchange, and no process reads it: the broker's confirmation shows that its
    /// node reaches most of the others.
    package var heartbeatQueue: String { "\(prefix).heartbeat" }
}
