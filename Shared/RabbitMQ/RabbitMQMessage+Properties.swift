/// The properties as they go to the wire, for who puts a message inside another one. librabbitmq writes those of a message of its own.
extension RabbitMQMessage {
    /// Appends what ``RabbitMQProperties`` reads: flags, content type, headers as texts, delivery mode, message id (AMQP 0-9-1 section 4.2.6.1).
    /// To be called only for what ``isEncodable``.
    package func appendProperties(to bytes: inout [UInt8]) {
        // Bits 15, 13, 12 and 7.
        Self.append(UInt16(0xb080), to: &bytes)
        Self.appendShort(contentType.utf8, to: &bytes)
        let start = bytes.count
        Self.append(UInt32(0), to: &bytes)
        for (name, value) in headers {
            Self.appendShort(name.utf8, to: &bytes)
            bytes.append(UInt8(ascii: "S"))
            Self.append(UInt32(value.utf8.count), to: &bytes)
            bytes.append(contentsOf: value.utf8)
        }
        let count = UInt32(bytes.count - start - 4)
        for place in 0..<4 { bytes[start + place] = UInt8(truncatingIfNeeded: count >> UInt32(24 - 8 * place)) }
        // Persistent.
        bytes.append(2)
        Self.appendShort(messageID, to: &bytes)
    }

    private static func append(_ number: some FixedWidthInteger & UnsignedInteger, to bytes: inout [UInt8]) {
        var left = number.bitWidth
        while left > 0 {
            left -= 8
            bytes.append(UInt8(truncatingIfNeeded: number >> left))
        }
    }

    private static func appendShort(_ text: some Collection<UInt8>, to bytes: inout [UInt8]) {
        bytes.append(UInt8(text.count))
        bytes.append(contentsOf: text)
    }
}
