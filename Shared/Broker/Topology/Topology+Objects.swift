import PushModel
import RabbitMQ

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
