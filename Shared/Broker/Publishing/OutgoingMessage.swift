package import PushModel
import RabbitMQ
import Synchronization

/// One message to publish: always persistent and, by default, mandatory, so that it is stored on disk in a queue, or the publisher learns
/// that it was not.
package struct OutgoingMessage: Sendable, Equatable {
    /// Empty: the default exchange, which routes to the queue or stream named by the routing key.
    package var exchange: String
    package var routingKey: String
    /// The message's id, the same on every attempt to publish it.
    package var messageID: PushID
    package var contentType: String
    package var headers: [String: String]
    package var body: [UInt8]
    /// False: it is confirmed also if no queue is bound for it, because no service has to listen.
    package var isMandatory: Bool
    /// Take the message, in this order, if `exchange` refuses it, has no queue for it, or has a queue that does not answer.
    package var fallbackExchanges: [String]
    /// The publisher drops the message if its sender takes it back before it is written.
    package var withdrawal: Withdrawal?

    package init(
        exchange: String, routingKey: String, messageID: PushID, contentType: String, headers: [String: String] = [:], body: [UInt8],
        isMandatory: Bool = true, fallbackExchanges: [String] = []
    ) {
        self.exchange = exchange
        self.routingKey = routingKey
        self.messageID = messageID
        self.contentType = contentType
        self.headers = headers
        self.body = body
        self.isMandatory = isMandatory
        self.fallbackExchanges = fallbackExchanges
    }

    /// The message as it goes to the wire.
    var wireMessage: RabbitMQMessage {
        var id: [UInt8] = []
        id.reserveCapacity(36)
        messageID.append(to: &id)
        return RabbitMQMessage(
            exchange: exchange, routingKey: routingKey, messageID: id, contentType: contentType, headers: headers, body: body)
    }
}

/// Takes messages back that a publisher has and has not written yet. Thread-safe.
package final class Withdrawal: Sendable, Equatable {
    private let isMadeFlag = Atomic(false)

    package init() {}

    package var isMade: Bool { isMadeFlag.load(ordering: .acquiring) }
    package func make() { isMadeFlag.store(true, ordering: .releasing) }

    package static func == (left: Withdrawal, right: Withdrawal) -> Bool { left === right }
}
