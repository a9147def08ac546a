import CRabbitMQ
import Glibc

extension RabbitMQConnection {
    /// Asks for publisher confirms: from now on publishes are numbered from 1, and every one is `confirmed` or `refused` once.
    package func selectConfirms() throws(RabbitMQError) {
        try call("confirm.select") { _ = amqp_confirm_select(state, Self.channel) }
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
    /// - Parameter mandatory: a message that reaches no queue is `returned`, then `confirmed`.
    /// - Throws: `invalidArgument` when the message cannot be encoded (the connection stays usable), else the connection is dead.
    package func publish(_ message: RabbitMQMessage, mandatory: Bool = true) throws(RabbitMQError) {
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
                state, Self.channel, exchange, routingKey, mandatory ? 1 : 0, 0, &properties,
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
