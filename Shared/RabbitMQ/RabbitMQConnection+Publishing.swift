import CRabbitMQ
import Glibc

extension RabbitMQConnection {
    /// Asks for publisher confirms: from now on publishes are numbered from 1, and every one is `confirmed` or `refused` once.
    package func selectConfirms() throws(RabbitMQError) {
        try call("confirm.select") { _ = amqp_confirm_select(state, Self.channel) }
    }

    /// Opens another channel and asks for confirms over it. At most 10 s.
    ///
    /// A channel stands still at a message to a queue that does not answer, and all other channels go on (docs/rabbitmq.md, A queue that
    /// stands still).
    /// - Returns: The channel's number.
    package func openPublishingChannel() throws(RabbitMQError) -> UInt16 {
        let number = freeChannels.popLast() ?? lastChannel + 1
        guard number <= Self.mostChannels else { throw dead(RabbitMQError(.connectionLost, "channel.open", "no number is left")) }
        lastChannel = max(lastChannel, number)
        try call("channel.open") { _ = amqp_channel_open(state, number) }
        try call("confirm.select") { _ = amqp_confirm_select(state, number) }
        return number
    }

    /// RabbitMQ's `channel_max`.
    private static let mostChannels: UInt16 = 2047

    /// Closes a channel that was opened for publishing, without waiting. Its unanswered messages may be stored or not. Once the broker has
    /// closed it too, another channel may get its number: librabbitmq keeps memory for each number.
    package func closeChannel(_ number: UInt16) throws(RabbitMQError) {
        try requireUsable("channel.close")
        var close = amqp_channel_close_t(reply_code: UInt16(AMQP_REPLY_SUCCESS), reply_text: amqp_bytes_t(), class_id: 0, method_id: 0)
        try check(amqp_send_method(state, number, MethodID.channelClose, &close), "channel.close")
    }

    /// While it is on, the kernel sends whole segments only, or bytes that have waited for 200 ms; switching it off sends the rest. A burst
    /// then reaches the broker in fewer pieces, and wakes it less often.
    package func holdSegments(_ isOn: Bool) {
        var value: Int32 = isOn ? 1 : 0
        // It saves work and promises nothing: if it fails, the next write fails too.
        setsockopt(amqp_get_sockfd(state), Int32(IPPROTO_TCP), TCP_CORK, &value, socklen_t(MemoryLayout<Int32>.size))
    }

    /// Writes one persistent message. Returns when the kernel has taken it, which proves nothing about the broker: wait for the confirm.
    ///
    /// Before every burst, receive until no more comes.
    /// - Parameters:
    ///   - mandatory: a message that reaches no queue is `returned`, then `confirmed`.
    ///   - channel: the channel of ``openPublishingChannel()``; nil: the one of ``selectConfirms()``.
    /// - Throws: `invalidArgument` when the message cannot be encoded (the connection stays usable), else the connection is dead.
    package func publish(_ message: RabbitMQMessage, mandatory: Bool = true, over channel: UInt16? = nil) throws(RabbitMQError) {
        try requireUsable("basic.publish")
        guard message.isEncodable else { throw RabbitMQError(.invalidArgument, "basic.publish", "a name or the headers are too long") }
        try receiveBeforeWriting()
        var properties = amqp_basic_properties_t()
        properties._flags = PropertyFlag.always
        properties.delivery_mode = UInt8(AMQP_DELIVERY_PERSISTENT.rawValue)
        properties.content_type = pool.bytes(message.contentType)
        properties.message_id = pool.bytes(message.messageID)
        if !message.headers.isEmpty {
            properties._flags |= PropertyFlag.headers
            properties.headers = pool.table(message.headers)
        }
        let exchange = pool.bytes(message.exchange)
        let routingKey = pool.bytes(message.routingKey)
        let status = message.body.withUnsafeBytes { body in
            amqp_basic_publish(
                state, channel ?? Self.channel, exchange, routingKey, mandatory ? 1 : 0, 0, &properties,
                amqp_bytes_t(len: body.count, bytes: UnsafeMutableRawPointer(mutating: body.baseAddress)))
        }
        pool.recycle()
        try check(status, "basic.publish")
    }
}

/// AMQP_BASIC_…_FLAG.
private enum PropertyFlag {
    static let headers: UInt32 = 1 << 13
    /// Content type, delivery mode, message id.
    static let always: UInt32 = 1 << 15 | 1 << 12 | 1 << 7
}

/// One message to publish: persistent always.
package struct RabbitMQMessage: Sendable, Equatable {
    /// Empty: the default exchange, which routes to the queue named by the routing key.
    package var exchange: String
    package var routingKey: String
    /// The message's id, at most 255 bytes of text.
    package var messageID: [UInt8]
    package var contentType: String
    package var headers: [String: String]
    package var body: [UInt8]

    package init(
        exchange: String, routingKey: String, messageID: [UInt8], contentType: String, headers: [String: String] = [:], body: [UInt8]
    ) {
        self.exchange = exchange
        self.routingKey = routingKey
        self.messageID = messageID
        self.contentType = contentType
        self.headers = headers
        self.body = body
    }

    /// Whether it is within the limits of AMQP's short strings, with headers that surely fit a frame: `amqp_basic_publish` sends the method
    /// before it encodes the properties, so too large a table would end the connection.
    package var isEncodable: Bool {
        guard exchange.utf8.count <= 255, routingKey.utf8.count <= 255, messageID.count <= 255, contentType.utf8.count <= 255 else {
            return false
        }
        var headerBytes = 0
        for (name, value) in headers {
            guard name.utf8.count <= 128 else { return false }
            headerBytes += name.utf8.count + value.utf8.count + 6
        }
        return headerBytes <= 1 << 16
    }
}
