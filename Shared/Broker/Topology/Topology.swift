package import PushModel
package import RabbitMQ
import StrictJSON

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
    /// Whether the exchanges and queues of retries are declared or checked. They are three fifths of all objects, and a dispatcher's
    /// publisher alone uses them.
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
    /// One for each lane: RabbitMQ keeps 32 messages of a queue on the way to ``jobsExchange``, and tries again after three minutes what
    /// was refused there. In a common queue, 32 jobs of a lane that is full would hold up the other lanes' jobs.
    package func retryQueue(_ lane: Lane, _ delay: RetryDelay) -> String { "\(prefix).retry.\(lane.rawValue).\(delay.rawValue)" }
    /// The retry queues of all lanes and delays.
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

extension Topology {
    /// Declares or checks all objects, as ``ownership`` says. An object that exists with other arguments is a 406, a missing one that
    /// operators should have made a 404; both end the connection and name the object.
    /// - Parameter beforeEach: Called before each of these dozens of calls, which may take seconds each; its error ends them.
    package func establish(
        on connection: RabbitMQConnection, beforeEach: () throws(RabbitMQError) -> Void = {}
    ) throws(RabbitMQError) {
        switch ownership {
        case .services: try declare(on: connection, beforeEach: beforeEach)
        case .operators: try check(on: connection, beforeEach: beforeEach)
        }
    }

    /// Declares everything, idempotently. Dead-letter targets come before the queues that name them.
    package func declare(
        on connection: RabbitMQConnection, beforeEach: () throws(RabbitMQError) -> Void = {}
    ) throws(RabbitMQError) {
        for exchange in exchanges {
            try beforeEach()
            try connection.declareExchange(exchange.name, exchange.kind)
        }
        for queue in queues {
            try beforeEach()
            try connection.declareQueue(queue.name, arguments: queue.arguments)
        }
        for binding in bindings {
            try beforeEach()
            try connection.bind(queue: binding.queue, to: binding.exchange, routingKey: binding.routingKey)
        }
    }

    /// Checks that every exchange and queue exists. AMQP cannot ask for arguments and bindings; a missing binding shows as an unroutable
    /// publish.
    package func check(
        on connection: RabbitMQConnection, beforeEach: () throws(RabbitMQError) -> Void = {}
    ) throws(RabbitMQError) {
        for exchange in exchanges {
            try beforeEach()
            try connection.declareExchange(exchange.name, exchange.kind, passive: true)
        }
        for queue in queues {
            try beforeEach()
            try connection.declareQueue(queue.name, passive: true)
        }
    }

    /// Deletes everything with all messages.
    package func remove(on connection: RabbitMQConnection) throws(RabbitMQError) {
        // Sources first: a queue that is gone dead-letters nothing.
        for queue in queues.reversed() { try connection.deleteQueue(queue.name) }
        for exchange in exchanges.reversed() { try connection.deleteExchange(exchange.name) }
    }
}

extension Topology {
    /// Writes the topology's objects as a definitions file for `rabbitmqctl import_definitions`, for operators who forbid services to
    /// declare.
    /// - Returns: JSON text.
    package func definitions(virtualHost: String = "/") -> [UInt8] {
        var json = JSONWriter(reservingCapacity: 8192)
        json.object { json in
            json.array("exchanges") { json in
                for exchange in exchanges {
                    json.object { json in
                        json.field("name", exchange.name)
                        json.field("vhost", virtualHost)
                        json.field("type", exchange.kind.rawValue)
                        json.field("durable", true)
                        json.field("auto_delete", false)
                        json.field("internal", false)
                        json.object("arguments") { _ in }
                    }
                }
            }
            json.array("queues") { json in
                for queue in queues { write(queue, virtualHost, to: &json) }
            }
            json.array("bindings") { json in
                for binding in bindings { write(binding, virtualHost, to: &json) }
            }
        }
        return json.bytes
    }

    private func write(_ queue: DeclaredQueue, _ virtualHost: String, to json: inout JSONWriter) {
        json.object { json in
            json.field("name", queue.name)
            json.field("vhost", virtualHost)
            json.field("durable", true)
            json.field("auto_delete", false)
            json.object("arguments") { json in
                for (name, value) in queue.arguments.sorted(by: { $0.key < $1.key }) {
                    switch value {
                    case .string(let text): json.field(name, text)
                    case .integer(let number): json.field(name, number)
                    case .boolean(let truth): json.field(name, truth)
                    case .double(let number): json.field(name, number)
                    case .other: break
                    }
                }
            }
        }
    }

    private func write(_ binding: DeclaredBinding, _ virtualHost: String, to json: inout JSONWriter) {
        json.object { json in
            json.field("source", binding.exchange)
            json.field("vhost", virtualHost)
            json.field("destination", binding.queue)
            json.field("destination_type", "queue")
            json.field("routing_key", binding.routingKey)
            json.object("arguments") { _ in }
        }
    }
}

/// One queue or stream as it is declared.
struct DeclaredQueue {
    let name: String
    let arguments: [String: RabbitMQValue]
}

struct DeclaredExchange {
    let name: String
    let kind: ExchangeKind
}

struct DeclaredBinding {
    let exchange: String
    let queue: String
    let routingKey: String
}

extension Topology {
    /// When a queue holds this much, publishers get nacks, so that the broker does not run out of disk. The figure is soft: messages that
    /// publishers have in flight may be added (docs/rabbitmq.md, Queues).
    private static let maximumBytes: Int64 = 1 << 30
    /// A notification lives for 72 hours at most, and a fence must stay as long as any job that it stops; one hour is for clocks and one
    /// for the reading. Not longer: a dispatcher that starts reads all of it before it takes a job.
    private static let controlRetention = "74h"
    /// Retention drops whole segments only. With large ones, a quiet installation would replay months of fences at every start.
    private static let controlSegmentBytes: Int64 = 4 << 20

    /// The lane and the delay of each queue of retries.
    private var retries: [(lane: Lane, delay: RetryDelay)] {
        hasRetries ? Lane.allCases.flatMap { lane in RetryDelay.allCases.map { (lane, $0) } } : []
    }

    var exchanges: [DeclaredExchange] {
        [
            DeclaredExchange(name: deadExchange, kind: .fanout), DeclaredExchange(name: jobsExchange, kind: .direct),
            DeclaredExchange(name: outcomesExchange, kind: .topic), DeclaredExchange(name: waitingOutcomesExchange, kind: .fanout),
            DeclaredExchange(name: waitingDeadExchange, kind: .fanout), DeclaredExchange(name: controlCopiesExchange, kind: .fanout),
            DeclaredExchange(name: commandsExchange, kind: .fanout), DeclaredExchange(name: waitingCommandsExchange, kind: .fanout),
        ] + (hasRetries ? RetryDelay.allCases.map { DeclaredExchange(name: retryExchange($0), kind: .direct) } : [])
    }

    var queues: [DeclaredQueue] {
        [DeclaredQueue(name: deadQueue, arguments: quorum(deliveryLimit: BrokerQuirks.noDeliveryLimit))]
            + Lane.allCases.map { DeclaredQueue(name: jobQueue($0), arguments: quorum(deadLettersTo: deadExchange)) }
            + retries.map { DeclaredQueue(name: retryQueue($0, $1), arguments: delayed($1, deadLettersTo: jobsExchange)) }
            + [
                DeclaredQueue(name: waitingOutcomesQueue, arguments: delayed(.thirtySeconds, deadLettersTo: outcomesExchange)),
                DeclaredQueue(name: waitingDeadQueue, arguments: delayed(.thirtySeconds, deadLettersTo: deadExchange)),
                DeclaredQueue(name: tokenServiceOutcomesQueue, arguments: quorum(deadLettersTo: deadExchange)),
                DeclaredQueue(name: commandsQueue, arguments: quorum(deadLettersTo: deadExchange)),
                DeclaredQueue(name: waitingCommandsQueue, arguments: delayed(.oneSecond, deadLettersTo: commandsExchange)),
                // It keeps the newest heartbeat and drops the one before.
                DeclaredQueue(
                    name: heartbeatQueue, arguments: ["x-queue-type": "quorum", "x-max-length": 1, "x-overflow": "drop-head"]),
                // No length limit: it would drop the oldest fences, and with them their protection.
                DeclaredQueue(
                    name: controlStream,
                    arguments: [
                        "x-queue-type": "stream", "x-max-age": .string(Self.controlRetention),
                        "x-stream-max-segment-size-bytes": .integer(Self.controlSegmentBytes),
                    ]),
            ]
    }

    var bindings: [DeclaredBinding] {
        [DeclaredBinding(exchange: deadExchange, queue: deadQueue, routingKey: "")]
            + Lane.allCases.map { DeclaredBinding(exchange: jobsExchange, queue: jobQueue($0), routingKey: jobRoutingKey($0)) }
            + retries.map { DeclaredBinding(exchange: retryExchange($1), queue: retryQueue($0, $1), routingKey: jobRoutingKey($0)) }
            + [
                DeclaredBinding(exchange: waitingOutcomesExchange, queue: waitingOutcomesQueue, routingKey: ""),
                DeclaredBinding(exchange: waitingDeadExchange, queue: waitingDeadQueue, routingKey: ""),
                DeclaredBinding(exchange: commandsExchange, queue: commandsQueue, routingKey: ""),
                DeclaredBinding(exchange: waitingCommandsExchange, queue: waitingCommandsQueue, routingKey: ""),
            ]
            // Two words are an outcome; state changes, which the token service publishes itself, have three.
            + [DeclaredBinding(exchange: outcomesExchange, queue: tokenServiceOutcomesQueue, routingKey: "*.*")]
    }

    /// Every message waits for the same time and goes on to the exchange. If a queue there is full, it stays until there is room.
    private func delayed(_ delay: RetryDelay, deadLettersTo exchange: String) -> [String: RabbitMQValue] {
        var arguments = quorum(deadLettersTo: exchange)
        arguments["x-message-ttl"] = .integer(delay.milliseconds)
        return arguments
    }

    /// A dead letter keeps its routing key (none is set here), and leaves its queue only once the target has confirmed it:
    /// `at-least-once`, which works with `reject-publish` only and falls back silently without it (RabbitMQ: Quorum Queues).
    private func quorum(deadLettersTo exchange: String? = nil, deliveryLimit: Int64 = BrokerQuirks.deliveryLimit) -> [String: RabbitMQValue]
    {
        var arguments: [String: RabbitMQValue] = [
            "x-queue-type": "quorum", "x-delivery-limit": .integer(deliveryLimit), "x-overflow": "reject-publish",
            "x-max-length-bytes": .integer(Self.maximumBytes),
        ]
        if let exchange {
            arguments["x-dead-letter-exchange"] = .string(exchange)
            arguments["x-dead-letter-strategy"] = "at-least-once"
        }
        return arguments
    }
}

/// How long a retried job waits. Each lane has one queue per delay, because messages expire only at a queue's head: with mixed delays a
/// short one would wait behind a long one (RabbitMQ: Time-To-Live and Expiration).
package enum RetryDelay: String, CaseIterable, Sendable, Hashable, Comparable {
    case oneSecond = "1s"
    case fiveSeconds = "5s"
    case thirtySeconds = "30s"
    case twoMinutes = "2m"
    case tenMinutes = "10m"
    case fifteenMinutes = "15m"

    package var milliseconds: Int64 {
        switch self {
        case .oneSecond: 1_000
        case .fiveSeconds: 5_000
        case .thirtySeconds: 30_000
        case .twoMinutes: 120_000
        case .tenMinutes: 600_000
        case .fifteenMinutes: 900_000
        }
    }

    package var duration: Duration { .milliseconds(milliseconds) }

    /// The shortest delay that is not shorter than `wanted`; the longest if there is none: the job comes back early then and may be delayed
    /// again.
    package static func atLeast(_ wanted: Duration) -> RetryDelay {
        allCases.first { $0.duration >= wanted } ?? .fifteenMinutes
    }

    /// The longest delay that is not longer than `wanted`; the shortest if there is none.
    package static func atMost(_ wanted: Duration) -> RetryDelay {
        allCases.last { $0.duration <= wanted } ?? .oneSecond
    }

    package static func < (left: RetryDelay, right: RetryDelay) -> Bool { left.milliseconds < right.milliseconds }
}
