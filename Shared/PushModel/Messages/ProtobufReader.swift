/// Reads the fields of a Protocol Buffers message one after another (protobuf.dev, Encoding), out of bytes that anybody may have sent: every
/// read is checked.
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

    /// As deep as groups may be nested, which nobody writes any more.
    private static let maximumDepth = 100

    private let source: [UInt8]
    private var position = 0
    private var end: Int

    init(_ source: [UInt8]) {
        self.source = source
        end = source.count
    }

    /// The next field of the message, its value to be read or skipped next; nil at the message's end.
    mutating func next() throws(MessageError) -> Tag? {
        guard position < end else { return nil }
        let number = try varint()
        // At most 29 bits of field number (Encoding, Message Structure).
        guard number >> 3 != 0, number <= UInt64(UInt32.max), let type = WireType(rawValue: UInt8(truncatingIfNeeded: number & 7)) else {
            throw Self.malformed
        }
        return Tag(field: Int(number >> 3), type: type)
    }

    mutating func varint() throws(MessageError) -> UInt64 {
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

    mutating func fixed64() throws(MessageError) -> UInt64 {
        guard end - position >= 8 else { throw Self.malformed }
        var value: UInt64 = 0
        for index in 0..<8 { value |= UInt64(source[position + index]) << UInt64(8 * index) }
        position += 8
        return value
    }

    /// Where a value of type `bytes` lies.
    mutating func range() throws(MessageError) -> Range<Int> {
        let count = try varint()
        guard count <= UInt64(end - position) else { throw Self.malformed }
        defer { position += Int(count) }
        return position..<position + Int(count)
    }

    mutating func bytes() throws(MessageError) -> [UInt8] { Array(source[try range()]) }

    mutating func string() throws(MessageError) -> String {
        guard let text = String(validating: source[try range()], as: UTF8.self) else { throw Self.malformed }
        return text
    }

    func bytes(_ range: Range<Int>) -> [UInt8] { Array(source[range]) }

    /// Reads a message inside this one: what `body` reads ends where that ends.
    mutating func message<R>(_ body: (inout ProtobufReader) throws(MessageError) -> R) throws(MessageError) -> R {
        let inner = try range()
        let outerEnd = end
        position = inner.lowerBound
        end = inner.upperBound
        let result = try body(&self)
        position = inner.upperBound
        end = outerEnd
        return result
    }

    /// Bytes of this message that are still to be read.
    var remaining: Int { end - position }

    /// Steps over a value that nobody wants.
    mutating func skip(_ tag: Tag, depth: Int = 0) throws(MessageError) {
        switch tag.type {
        case .varint: _ = try varint()
        case .fixed64: try skip(8)
        case .fixed32: try skip(4)
        case .bytes: _ = try range()
        case .startGroup:
            guard depth < Self.maximumDepth else { throw Self.malformed }
            while true {
                guard let inner = try next() else { throw Self.malformed }
                if inner.type == .endGroup {
                    guard inner.field == tag.field else { throw Self.malformed }
                    return
                }
                try skip(inner, depth: depth + 1)
            }
        case .endGroup: throw Self.malformed
        }
    }

    private mutating func skip(_ count: Int) throws(MessageError) {
        guard end - position >= count else { throw Self.malformed }
        position += count
    }

    private static let malformed = MessageError(.malformed, "not a Protocol Buffers message of a job")
}
