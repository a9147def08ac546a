/// The properties of a received message, kept as the bytes that arrived and decoded when read: most messages need only few of them. Layout:
/// AMQP 0-9-1 section 4.2.6.1, property flags first.
package struct RabbitMQProperties: Sendable, Equatable {
    /// Flag word and fields, as on the wire.
    let encoded: [UInt8]

    package init(encoded: [UInt8]) { self.encoded = encoded }

    private enum Flag {
        static let contentType: UInt16 = 1 << 15
        static let contentEncoding: UInt16 = 1 << 14
        static let headers: UInt16 = 1 << 13
        static let deliveryMode: UInt16 = 1 << 12
        static let priority: UInt16 = 1 << 11
        static let correlationID: UInt16 = 1 << 10
        static let replyTo: UInt16 = 1 << 9
        static let expiration: UInt16 = 1 << 8
        static let messageID: UInt16 = 1 << 7
    }

    /// Empty when the publisher gave none.
    package var contentType: String {
        var reader = WireReader(encoded)
        guard let flags = reader.uint16(), flags & Flag.contentType != 0 else { return "" }
        return reader.shortString() ?? ""
    }

    /// Empty when the publisher gave none.
    package var messageID: String { String(decoding: messageIDText, as: UTF8.self) }

    /// The text of the message's id, without a copy.
    package var messageIDText: ArraySlice<UInt8> {
        var reader = WireReader(encoded)
        guard let flags = reader.uint16(), flags & Flag.messageID != 0 else { return [] }
        for flag in [Flag.contentType, Flag.contentEncoding] where flags & flag != 0 { reader.skipShortString() }
        if flags & Flag.headers != 0 { reader.skipTable() }
        for flag in [Flag.deliveryMode, Flag.priority] where flags & flag != 0 { reader.skip(1) }
        for flag in [Flag.correlationID, Flag.replyTo, Flag.expiration] where flags & flag != 0 { reader.skipShortString() }
        return reader.shortPlace().map { encoded[$0] } ?? []
    }

    /// One header, or nil when it is absent.
    package func header(_ name: String) -> RabbitMQValue? {
        guard var reader = headerReader() else { return nil }
        while let key = reader.shortPlace() {
            let isWanted = reader.isText(key, name)
            guard let value = reader.fieldValue(keep: isWanted) else { return nil }
            if isWanted { return value }
        }
        return nil
    }

    /// Every header. The dictionary costs more than the decoding of a job with one delivery: on the path of each message, read single
    /// headers with ``header(_:)``.
    package var headers: [String: RabbitMQValue] {
        guard var reader = headerReader() else { return [:] }
        var headers: [String: RabbitMQValue] = [:]
        while let key = reader.shortString(), let value = reader.fieldValue(keep: true) { headers[key] = value }
        return headers
    }

    private func headerReader() -> WireReader? {
        var reader = WireReader(encoded)
        guard let flags = reader.uint16(), flags & Flag.headers != 0 else { return nil }
        for flag in [Flag.contentType, Flag.contentEncoding] where flags & flag != 0 { reader.skipShortString() }
        guard let count = reader.uint32(), reader.narrow(to: Int(count)) else { return nil }
        return reader
    }
}
