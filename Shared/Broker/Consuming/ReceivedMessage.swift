package import PushModel
package import RabbitMQ

/// Names one received message towards the consumer that gave it. Worthless once that connection is gone: the broker delivers the message
/// again.
package struct Receipt: Sendable, Hashable {
    /// Which connection of the consumer.
    let generation: UInt64
    let tag: UInt64
    /// Which part of a parcel; 0 where it came alone.
    var part: UInt8 = 0

    /// Both name parts of one parcel, or the very same message.
    package func isOfSameMessage(as other: Receipt) -> Bool { tag == other.tag && generation == other.generation }
}

/// What is known of the parcel that a message came in. It is settled as a whole: when one of its parts is given back, all of them come again.
package struct ParcelStanding: Sendable {
    /// How often a queue gave it away before without its being settled.
    package let earlierDeliveries: Int64
}

/// One message from a queue. What is not asked for is not decoded.
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
    /// Nil where it came alone.
    package var parcel: ParcelStanding?

    /// nil when the publisher gave none, or something else than a UUID.
    package var messageID: PushID? { PushID(properties.messageID) }
    package var contentType: String { properties.contentType }
    /// The headers whose values are text.
    package var headers: [String: String] { properties.headers.compactMapValues(\.string) }

    package func header(_ name: String) -> String? { properties.header(name)?.string }
}
