package import PushModel
import RabbitMQ

/// One message to publish: always persistent and, by default, mandatory, so that it is stored on disk in a queue, or the publisher learns
/// that it was not.
package struct OutgoingMessage: Sendable, Equatable {
    /// Empty: the default exchange, which routes to the queue or stream named by the routing key.
    package var exchange: String
    package var routingKey: String
    /// The same on every attempt to publish it.
    package var messageID: PushID
    package var contentType: String
    package var headers: [String: String]
    package var body: [UInt8]
    /// False: it is confirmed also if no queue is bound for it, because no service has to listen.
    package var isMandatory: Bool
    /// Takes the message if `exchange` refuses it or has no queue for it. Nil: then it fails.
    package var fallbackExchange: String?

    package init(
        exchange: String, routingKey: String, messageID: PushID, contentType: String, headers: [String: String] = [:], body: [UInt8],
        isMandatory: Bool = true, fallbackExchange: String? = nil
    ) {
        self.exchange = exchange
        self.routingKey = routingKey
        self.messageID = messageID
        self.contentType = contentType
        self.headers = headers
        self.body = body
        self.isMandatory = isMandatory
        self.fallbackExchange = fallbackExchange
    }

    /// As it goes to the wire.
    var wireMessage: RabbitMQMessage {
        var id: [UInt8] = []
        id.reserveCapacity(36)
        messageID.append(to: &id)
        return RabbitMQMessage(
            exchange: exchange, routingKey: routingKey, messageID: id, contentType: contentType, headers: headers, body: body)
    }
}
