package import RabbitMQ

extension ReceivedMessage {
    /// A message from memory, for Tests/Benchmarks/InstructionCount. Its receipt settles nothing.
    package init(tag: UInt64, queue: String, routingKey: String, properties: RabbitMQProperties, body: [UInt8]) {
        self.init(
            receipt: Receipt(generation: 1, tag: tag), queue: queue, routingKey: routingKey, redelivered: false, body: body,
            streamOffset: nil, properties: properties)
    }
}
