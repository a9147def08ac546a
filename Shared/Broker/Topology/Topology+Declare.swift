package import RabbitMQ

extension Topology {
    /// Declares or checks all objects, as ``ownership`` says. An object that exists with other arguments is a 406, a missing one that
    /// operators should have made a 404; both end the connection and name the object.
    /// - Parameter beforeEach: Called before each of these dozens of calls, which may take seconds each; its error ends them.
    package func establish(
        on connection: RabbitMQConnection, beforeEach: () throws(RabbitMQError) -> Void = {}
    ) throws(RabbitMQError) {
        switch ownership {
        case .services: try declare(on: connection, beforeEach: beforeEach)
        case .operators: try check(on: connection, beforeEach: beforeEach)
        }
    }

    /// Declares everything, idempotently. Dead-letter targets come before the queues that name them.
    package func declare(
        on connection: RabbitMQConnection, beforeEach: () throws(RabbitMQError) -> Void = {}
    ) throws(RabbitMQError) {
        for exchange in exchanges {
            try beforeEach()
            try connection.declareExchange(exchange.name, exchange.kind)
        }
        for queue in queues {
            try beforeEach()
            try connection.declareQueue(queue.name, arguments: queue.arguments)
        }
        for binding in bindings {
            try beforeEach()
            try connection.bind(queue: binding.queue, to: binding.exchange, routingKey: binding.routingKey)
        }
    }

    /// Checks that every exchange and queue exists. AMQP cannot ask for arguments and bindings; a missing binding shows as an unroutable
    /// publish.
    package func check(
        on connection: RabbitMQConnection, beforeEach: () throws(RabbitMQError) -> Void = {}
    ) throws(RabbitMQError) {
        for exchange in exchanges {
            try beforeEach()
            try connection.declareExchange(exchange.name, exchange.kind, passive: true)
        }
        for queue in queues {
            try beforeEach()
            try connection.declareQueue(queue.name, passive: true)
        }
    }

    /// Deletes everything with all messages.
    package func remove(on connection: RabbitMQConnection) throws(RabbitMQError) {
        // Sources first: a queue that is gone dead-letters nothing.
        for queue in queues.reversed() { try connection.deleteQueue(queue.name) }
        for exchange in exchanges.reversed() { try connection.deleteExchange(exchange.name) }
    }
}
