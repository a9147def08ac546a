package import PushModel
package import RabbitMQ

/// Names one received message to the consumer that received it. Void once that connection is gone: the broker delivers the message again.
package struct Receipt: Sendable, Hashable {
    /// Which connection of the consumer.
    let generation: UInt64
    let tag: UInt64
}

/// One message from a queue. Fields are decoded only when they are read.
package struct ReceivedMessage: Sendable {
    package let receipt: Receipt
    /// As subscribed to.
    package let queue: String
    package let routingKey: String
    /// False: never delivered before. True means little (RabbitMQ: Reliability Guide).
    package let redelivered: Bool
    package let body: [UInt8]
    /// Position in a stream; nil in a queue.
    package let streamOffset: Int64?
    package let properties: RabbitMQProperties

    /// nil when the publisher gave none, or another value than a UUID.
    package var messageID: PushID? { PushID(ascii: properties.messageIDText) }
    package var contentType: String { properties.contentType }
    /// The headers whose values are text. On the path of every message, ``header(_:)`` is cheaper.
    package var headers: [String: String] { properties.headers.compactMapValues(\.string) }

    package func header(_ name: String) -> String? { properties.header(name)?.string }
}
