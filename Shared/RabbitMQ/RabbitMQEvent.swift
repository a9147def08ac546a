/// An event from the broker. ``RabbitMQConnection/receive(into:limit:)`` returns them in the order of arrival.
package enum RabbitMQEvent: Sendable {
    /// A message for one of our consumers.
    case delivery(RabbitMQDelivery)
    /// Published messages are stored. `multiple`: all up to and including `tag`.
    case confirmed(tag: UInt64, multiple: Bool, channel: UInt16)
    /// Published messages were not accepted.
    case refused(tag: UInt64, multiple: Bool, channel: UInt16)
    /// A mandatory message reached no queue. A `confirmed` for it follows and must be ignored (RabbitMQ: Consumer Acknowledgements and
    /// Publisher Confirms).
    case returned(RabbitMQReturn)
    /// The broker ended a consumer: its queue was deleted or moved.
    case consumerCancelled(consumer: Int)
    /// A resource alarm: stop writing. Bytes written now wait in the socket until the alarm ends.
    case blocked(reason: String)
    case unblocked
}

/// One received message.
package struct RabbitMQDelivery: Sendable {
    /// Numbers deliveries on this connection from 1 without gaps.
    package let tag: UInt64
    /// The number that was given to ``RabbitMQConnection/consume(queue:consumer:arguments:)``.
    package let consumer: Int
    /// False means it was never delivered before; true means little.
    package let isRedelivered: Bool
    package let exchange: String
    package let routingKey: String
    package let properties: RabbitMQProperties
    /// Empty when ``isOversized``.
    package let body: [UInt8]
    /// The body was larger than the configuration allows and was not kept.
    package let isOversized: Bool
}

/// A message that came back. It carries no delivery tag: its message id identifies it.
package struct RabbitMQReturn: Sendable, Equatable {
    package let replyCode: UInt16
    package let replyText: String
    package let exchange: String
    package let routingKey: String
    package let messageID: String
    /// Over which it was published.
    package let channel: UInt16
}
