/// Reads AMQP's field encodings from bytes that a peer sent. Every read is checked: nil means that there were fewer bytes than announced.
struct WireReader {
    private let source: ArraySlice<UInt8>
    private var position: Int

    init(_ bytes: [UInt8]) { self.init(bytes[...]) }

    init(_ bytes: ArraySlice<UInt8>) {
        source = bytes
        position = bytes.startIndex
    }

    mutating func bytes(_ count: Int) -> ArraySlice<UInt8>? {
        guard count >= 0, count <= source.endIndex - position else {
            position = source.endIndex
            return nil
        }
        defer { position += count }
        return source[position..<position + count]
    }

    mutating func skip(_ count: Int) { _ = bytes(count) }

    mutating func uint8() -> UInt8? { bytes(1)?.first }
    mutating func uint16() -> UInt16? { number(2).map { UInt16(truncatingIfNeeded: $0) } }
    mutating func uint32() -> UInt32? { number(4).map { UInt32(truncatingIfNeeded: $0) } }
    mutating func uint64() -> UInt64? { number(8) }

    private mutating func number(_ width: Int) -> UInt64? {
        bytes(width)?.reduce(0) { $0 << 8 | UInt64($1) }
    }

    mutating func shortString() -> String? {
        guard let count = uint8(), let text = bytes(Int(count)) else { return nil }
        return String(decoding: text, as: UTF8.self)
    }

    mutating func skipShortString() {
        if let count = uint8() { skip(Int(count)) }
    }

    mutating func skipTable() {
        if let count = uint32() { skip(Int(count)) }
    }

    /// One value of a table, in RabbitMQ's dialect of the type letters. Tables and arrays are skipped by their length, never descended
    /// into.
    /// - Parameter keep: false makes no string; the value returned then is `other`.
    mutating func fieldValue(keep: Bool) -> RabbitMQValue? {
        guard let kind = uint8() else { return nil }
        switch kind {
        case UInt8(ascii: "t"): return uint8().map { .boolean($0 != 0) }
        case UInt8(ascii: "b"): return uint8().map { .integer(Int64(Int8(bitPattern: $0))) }
        case UInt8(ascii: "B"): return uint8().map { .integer(Int64($0)) }
        case UInt8(ascii: "s"): return uint16().map { .integer(Int64(Int16(bitPattern: $0))) }
        case UInt8(ascii: "u"): return uint16().map { .integer(Int64($0)) }
        case UInt8(ascii: "I"): return uint32().map { .integer(Int64(Int32(bitPattern: $0))) }
        case UInt8(ascii: "i"): return uint32().map { .integer(Int64($0)) }
        case UInt8(ascii: "l"), UInt8(ascii: "L"), UInt8(ascii: "T"): return uint64().map { .integer(Int64(bitPattern: $0)) }
        case UInt8(ascii: "f"): return uint32().map { .double(Double(Float(bitPattern: $0))) }
        case UInt8(ascii: "d"): return uint64().map { .double(Double(bitPattern: $0)) }
        case UInt8(ascii: "D"): return bytes(5).map { _ in .other }
        case UInt8(ascii: "V"): return .other
        case UInt8(ascii: "S"), UInt8(ascii: "x"):
            guard let count = uint32(), let text = bytes(Int(count)) else { return nil }
            return keep ? .string(String(decoding: text, as: UTF8.self)) : .other
        case UInt8(ascii: "F"), UInt8(ascii: "A"):
            guard let count = uint32() else { return nil }
            return bytes(Int(count)).map { _ in .other }
        default: return nil
        }
    }
}
