import RabbitMQ

extension RabbitMQError {
    /// The owner of a connection should stop and opens no more.
    static let stopped = RabbitMQError(.timedOut, "connect", "a stop was asked for")

    static func givenUp(because reason: String) -> RabbitMQError { RabbitMQError(.timedOut, "reconnect", reason) }
}
