import RabbitMQ

/// Small messages that travel to the broker and from it as one: its work for a message hardly depends on what is in it.
///
/// Packed by the ``Publisher`` where such messages wait together, and unpacked by the ``Consumer``: nobody else sees one. A part keeps its
/// properties, its outcome and its receipt.
///
/// Layout: a byte 1; then for each part two lengths and what they count, its AMQP properties (AMQP 0-9-1 section 4.2.6.1) and its body. A
/// length is four bytes, most significant first.
enum Parcel {
    static let contentType = "application/vnd.push.parcel"
    /// Each has a bit in ``AckBatcher``.
    static let maximumParts = 16
    /// Of the bodies together.
    static let maximumBytes = 16 << 10
    private static let version: UInt8 = 1

    /// - Parameter parts: At least two, of the same exchange and routing key.
    static func packed(_ parts: [RabbitMQMessage]) -> RabbitMQMessage {
        var body: [UInt8] = [version]
        body.reserveCapacity(parts.reduce(1) { $0 + $1.body.count + 256 })
        for part in parts {
            let start = body.count
            append(0, to: &body)
            part.appendProperties(to: &body)
            write(body.count - start - 4, to: &body, at: start)
            append(part.body.count, to: &body)
            body += part.body
        }
        return RabbitMQMessage(
            exchange: parts[0].exchange, routingKey: parts[0].routingKey, messageID: parts[0].messageID, contentType: contentType,
            body: body)
    }

    struct Part {
        let properties: RabbitMQProperties
        let body: [UInt8]
    }

    /// - Returns: nil where these bytes are no parcel: then they are a message that nobody can read, like any other.
    static func parts(of body: [UInt8]) -> [Part]? {
        guard body.first == version else { return nil }
        var parts: [Part] = []
        var position = 1
        while position < body.count {
            guard parts.count < maximumParts, let properties = piece(of: body, at: &position), let content = piece(of: body, at: &position)
            else { return nil }
            parts.append(Part(properties: RabbitMQProperties(encoded: properties), body: content))
        }
        return parts.isEmpty ? nil : parts
    }

    private static func piece(of body: [UInt8], at position: inout Int) -> [UInt8]? {
        guard body.count - position >= 4 else { return nil }
        let count = body[position..<position + 4].reduce(0) { $0 << 8 | Int($1) }
        position += 4
        guard body.count - position >= count else { return nil }
        defer { position += count }
        return Array(body[position..<position + count])
    }

    private static func append(_ count: Int, to body: inout [UInt8]) {
        body.append(contentsOf: repeatElement(0, count: 4))
        write(count, to: &body, at: body.count - 4)
    }

    private static func write(_ count: Int, to body: inout [UInt8], at start: Int) {
        for place in 0..<4 { body[start + place] = UInt8(truncatingIfNeeded: count >> (24 - 8 * place)) }
    }
}
