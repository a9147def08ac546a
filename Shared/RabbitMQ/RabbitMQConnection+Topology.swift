import CRabbitMQ

/// Exchange types we use.
package enum ExchangeKind: String, Sendable {
    case direct, fanout, topic
}

extension RabbitMQConnection {
    /// Declares a durable exchange. Declaring the same again is fine; declaring it differently is a 406.
    /// - Parameter passive: only checks that it is there (404 if not).
    package func declareExchange(_ name: String, _ kind: ExchangeKind, passive: Bool = false) throws(RabbitMQError) {
        try call("exchange.declare \(name)") {
            _ = amqp_exchange_declare(
                state, Self.channel, pool.bytes(name), pool.bytes(kind.rawValue), passive ? 1 : 0, 1, 0, 0, amqp_table_t())
        }
    }

    /// Declares a durable queue.
    /// - Parameter passive: only checks that it is there (404 if not); arguments are not compared then.
    /// - Returns: how many messages are ready.
    @discardableResult
    package func declareQueue(_ name: String, arguments: [String: RabbitMQValue] = [:], passive: Bool = false) throws(RabbitMQError) -> Int
    {
        var count = 0
        try call("queue.declare \(name)") {
            let answer = amqp_queue_declare(state, Self.channel, pool.bytes(name), passive ? 1 : 0, 1, 0, 0, pool.table(arguments))
            count = answer.map { Int($0.pointee.message_count) } ?? 0
        }
        return count
    }

    /// Declares a queue on this connection's node that no other connection may use, and that ends with this one.
    package func declareOwnQueue(_ name: String, arguments: [String: RabbitMQValue]) throws(RabbitMQError) {
        try call("queue.declare \(name)") {
            _ = amqp_queue_declare(state, Self.channel, pool.bytes(name), 0, 0, 1, 1, pool.table(arguments))
        }
    }

    /// How many messages are ready in a queue. A queue that does not exist is a 404, which ends the connection.
    package func messageCount(_ queue: String) throws(RabbitMQError) -> Int { try declareQueue(queue, passive: true) }

    /// How many messages are ready in a queue, and how many consumers it has. A queue that does not exist is a 404, which ends the
    /// connection.
    package func queueState(_ queue: String) throws(RabbitMQError) -> (ready: Int, consumers: Int) {
        var state = (ready: 0, consumers: 0)
        try call("queue.declare \(queue)") {
            let answer = amqp_queue_declare(self.state, Self.channel, pool.bytes(queue), 1, 1, 0, 0, amqp_table_t())
            if let answer { state = (Int(answer.pointee.message_count), Int(answer.pointee.consumer_count)) }
        }
        return state
    }

    package func bind(queue: String, to exchange: String, routingKey: String) throws(RabbitMQError) {
        try call("queue.bind \(queue)") {
            _ = amqp_queue_bind(state, Self.channel, pool.bytes(queue), pool.bytes(exchange), pool.bytes(routingKey), amqp_table_t())
        }
    }

    package func unbind(queue: String, from exchange: String, routingKey: String) throws(RabbitMQError) {
        try call("queue.unbind \(queue)") {
            _ = amqp_queue_unbind(state, Self.channel, pool.bytes(queue), pool.bytes(exchange), pool.bytes(routingKey), amqp_table_t())
        }
    }

    /// Deletes the queue with its messages; fine when there is none.
    package func deleteQueue(_ name: String) throws(RabbitMQError) {
        try call("queue.delete \(name)") { _ = amqp_queue_delete(state, Self.channel, pool.bytes(name), 0, 0) }
    }

    /// Fine when there is none.
    package func deleteExchange(_ name: String) throws(RabbitMQError) {
        try call("exchange.delete \(name)") { _ = amqp_exchange_delete(state, Self.channel, pool.bytes(name), 0) }
    }

    /// Drops the ready messages of a queue.
    package func purge(_ queue: String) throws(RabbitMQError) {
        try call("queue.purge \(queue)") { _ = amqp_queue_purge(state, Self.channel, pool.bytes(queue)) }
    }

    /// One call that waits for its answer, at most 5 s.
    func call(_ operation: @autoclosure () -> String, _ body: () -> Void) throws(RabbitMQError) {
        try requireUsable(operation())
        body()
        pool.recycle()
        let reply = amqp_get_rpc_reply(state)
        guard reply.reply_type != AMQP_RESPONSE_NORMAL else { return }
        try check(reply, operation())
    }
}
