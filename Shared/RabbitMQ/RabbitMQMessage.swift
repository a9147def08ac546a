/// One message to publish: persistent always.
package struct RabbitMQMessage: Sendable, Equatable {
    /// Empty: the default exchange, which routes to the queue named by the routing key.
    package var exchange: String
    package var routingKey: String
    /// At most 255 bytes of text.
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

    /// Within the limits of AMQP's short strings, with headers that surely fit a frame: `amqp_basic_publish` sends the method before it
    /// encodes the properties, so too large a table would end the connection.
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
