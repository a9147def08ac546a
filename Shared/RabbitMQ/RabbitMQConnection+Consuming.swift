import CRabbitMQ

extension RabbitMQConnection {
    /// How many unacknowledged messages each consumer that is begun after this call may have. (`global` false: RabbitMQ's per-consumer
    /// limit.)
    package func limitUnacknowledged(_ count: UInt16) throws(RabbitMQError) {
        try call("basic.qos") { _ = amqp_basic_qos(state, Self.channel, 0, count, 0) }
    }

    /// Begins to consume, with acknowledgements.
    /// - Parameters:
    ///   - consumer: a number of the caller's, not negative; deliveries carry it.
    ///   - arguments: for a stream `x-stream-offset`, its start.
    package func consume(queue: String, consumer: Int, arguments: [String: RabbitMQValue] = [:]) throws(RabbitMQError) {
        try call("basic.consume \(queue)") {
            _ = amqp_basic_consume(
                state, Self.channel, pool.bytes(queue), pool.bytes(String(consumer)), 0, 0, 0, pool.table(arguments))
        }
    }

    /// Ends a consumer. Messages that were on their way still arrive with the next receives.
    package func cancel(consumer: Int) throws(RabbitMQError) {
        try call("basic.cancel") { _ = amqp_basic_cancel(state, Self.channel, pool.bytes(String(consumer))) }
    }

    /// Writes an acknowledgement: the broker forgets the message.
    /// - Parameters:
    ///   - tag: an unsettled delivery of this connection. A tag that was settled already makes the broker close the channel.
    ///   - multiple: also all unsettled deliveries before it.
    package func acknowledge(_ tag: UInt64, multiple: Bool) throws(RabbitMQError) {
        try requireUsable("basic.ack")
        try check(amqp_basic_ack(state, Self.channel, tag, multiple ? 1 : 0), "basic.ack")
    }

    /// Writes a negative acknowledgement.
    /// - Parameter requeue: true hands the message back to its queue; false drops it, to the queue's dead-letter exchange if it has one.
    package func refuse(_ tag: UInt64, requeue: Bool) throws(RabbitMQError) {
        try requireUsable("basic.nack")
        try check(amqp_basic_nack(state, Self.channel, tag, 0, requeue ? 1 : 0), "basic.nack")
    }
}
