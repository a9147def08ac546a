package import RabbitMQ

/// One queue or stream to consume from.
package struct Subscription: Sendable {
    package let queue: String
    /// How many messages may be unsettled at once: bounds the messages in memory. 1 to 65535.
    package let prefetch: UInt16
    package let arguments: [String: RabbitMQValue]

    package init(queue: String, prefetch: UInt16, arguments: [String: RabbitMQValue] = [:]) {
        precondition(prefetch > 0, "a prefetch of zero would mean no limit")
        self.queue = queue
        self.prefetch = prefetch
        self.arguments = arguments
    }

    /// Reads a stream from its first message; after a lost connection it goes on behind the last message that it delivered. Messages of a
    /// stream have to be acknowledged too: that requests more.
    package static func stream(_ name: String, prefetch: UInt16) -> Subscription {
        Subscription(queue: name, prefetch: prefetch, arguments: [streamOffset: "first"])
    }

    static let streamOffset = "x-stream-offset"

    var isStream: Bool { arguments[Self.streamOffset] != nil }
}
