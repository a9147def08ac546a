import RabbitMQ

/// One queue or stream to consume from.
package struct Subscription: Sendable {
    enum Kind: Equatable {
        case queue, stream
        /// A queue of the connection's own, which ends with it.
        case copies
    }

    /// For copies: the exchange.
    package let queue: String
    /// How many messages may be unsettled at once: bounds the messages in memory. 1 to 65535.
    package let prefetch: UInt16
    let kind: Kind

    private init(_ queue: String, _ prefetch: UInt16, _ kind: Kind) {
        precondition(prefetch > 0, "a prefetch of zero would mean no limit")
        self.queue = queue
        self.prefetch = prefetch
        self.kind = kind
    }

    package init(queue: String, prefetch: UInt16) { self.init(queue, prefetch, .queue) }

    /// Reads a stream from its first message; after a lost connection it goes on behind the last message that it delivered. Messages of a
    /// stream have to be acknowledged too: that requests more.
    package static func stream(_ name: String, prefetch: UInt16) -> Subscription { Subscription(name, prefetch, .stream) }

    /// Gets what is published to an exchange while the connection lives, through a queue on its node. If it holds too many, the oldest go.
    package static func copies(of exchange: String, prefetch: UInt16) -> Subscription { Subscription(exchange, prefetch, .copies) }

    static let streamOffset = "x-stream-offset"
    /// A process that takes nothing must not fill the node's memory.
    static let copiesArguments: [String: RabbitMQValue] = ["x-max-length": 10_000, "x-overflow": "drop-head"]
}
