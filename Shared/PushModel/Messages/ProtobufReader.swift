/// Reads the fields of a Protocol Buffers message one after another (protobuf.dev, Encoding), from bytes that any client may have sent:
/// every read is checked.
///
/// SwiftProtobuf reads the same bytes into a tree of its own objects, which for a job of one delivery costs more than sending it.
struct ProtobufReader {
    enum WireType: UInt8 {
        case varint, fixed64, bytes, startGroup, endGroup, fixed32
    }

    struct Tag {
        let field: Int
        let type: WireType
    }

    /// The depth to which groups may be nested, which no encoder writes any more.
    private static let maximumDepth = 100

    private var position = 0
    private var end: Int

    /// - Parameter count: The number of the bytes that every call gets. They are not kept: each read of a kept array would count a
    ///   reference.
    init(count: Int) {
        end = count
    }

    /// The next field of the message, its value to be read or skipped next; nil at the message's end.
    mutating func next(_ source: Span<UInt8>) throws(MessageError) -> Tag? {
        guard position < end else { return nil }
        let number = try varint(source)
        // At most 29 bits of field number (Encoding, Message Structure).
        guard number >> 3 != 0, number <= UInt64(UInt32.max), let type = WireType(rawValue: UInt8(truncatingIfNeeded: number & 7)) else {
            throw Self.malformed
        }
        return Tag(field: Int(number >> 3), type: type)
    }

    mutating func varint(_ source: Span<UInt8>) throws(MessageError) -> UInt64 {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        while position < end, shift < 64 {
            let byte = source[position]
            position += 1
            value |= UInt64(byte & 0x7f) << shift
            if byte < 0x80 { return value }
            shift += 7
        }
        throw Self.malformed
    }

    mutating func fixed64(_ source: Span<UInt8>) throws(MessageError) -> UInt64 {
        guard end - position >= 8 else { throw Self.malformed }
        var value: UInt64 = 0
        for index in 0..<8 { value |= UInt64(source[position + index]) << UInt64(8 * index) }
        position += 8
        return value
    }

    /// The range of a value of type `bytes`.
    mutating func range(_ source: Span<UInt8>) throws(MessageError) -> Range<Int> {
        let count = try varint(source)
        guard count <= UInt64(end - position) else { throw Self.malformed }
        defer { position += Int(count) }
        return position..<position + Int(count)
    }

    /// Begins to read a message inside this one.
    /// - Returns: the argument for ``leave(_:)`` when all of it has been read.
    mutating func enter(_ source: Span<UInt8>) throws(MessageError) -> Int {
        let inner = try range(source)
        defer { (position, end) = (inner.lowerBound, inner.upperBound) }
        return end
    }

    /// Goes on with the message around it.
    mutating func leave(_ outerEnd: Int) {
        position = end
        end = outerEnd
    }

    /// Bytes of this message that are still to be read.
    var remaining: Int { end - position }

    /// Steps over the value of an unknown field.
    mutating func skip(_ tag: Tag, _ source: Span<UInt8>, depth: Int = 0) throws(MessageError) {
        switch tag.type {
        case .varint: _ = try varint(source)
        case .fixed64: try skip(8)
        case .fixed32: try skip(4)
        case .bytes: _ = try range(source)
        case .startGroup:
            guard depth < Self.maximumDepth else { throw Self.malformed }
            while true {
                guard let inner = try next(source) else { throw Self.malformed }
                if inner.type == .endGroup {
                    guard inner.field == tag.field else { throw Self.malformed }
                    return
                }
                try skip(inner, source, depth: depth + 1)
            }
        case .endGroup: throw Self.malformed
        }
    }

    private mutating func skip(_ count: Int) throws(MessageError) {
        guard end - position >= count else { throw Self.malformed }
        position += count
    }

    static let malformed = MessageError(.malformed, "not a Protocol Buffers message of a job")
}
