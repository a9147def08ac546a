/// Reads AMQP's field encodings from bytes that a peer sent. Every read is checked: nil means that there were fewer bytes than announced.
///
/// It gives out places and not slices: a slice would count one more reference to the bytes for each field of each message.
struct WireReader {
    private let source: [UInt8]
    private var position: Int
    private var end: Int

    init(_ source: [UInt8]) {
        self.source = source
        position = 0
        end = source.count
    }

    /// The places of the next bytes.
    mutating func bytes(_ count: Int) -> Range<Int>? {
        guard count >= 0, count <= end - position else {
            position = end
            return nil
        }
        defer { position += count }
        return position..<position + count
    }

    mutating func skip(_ count: Int) { _ = bytes(count) }

    /// From now on, reads the next `count` bytes only.
    /// - Returns: false if there are fewer.
    mutating func narrow(to count: Int) -> Bool {
        guard count >= 0, count <= end - position else { return false }
        end = position + count
        return true
    }

    func isText(_ place: Range<Int>, _ text: String) -> Bool {
        place.count == text.utf8.count && source[place].elementsEqual(text.utf8)
    }

    func text(_ place: Range<Int>) -> String { String(decoding: source[place], as: UTF8.self) }

    mutating func uint8() -> UInt8? {
        guard position < end else { return nil }
        defer { position += 1 }
        return source[position]
    }

    mutating func uint16() -> UInt16? { number(2).map { UInt16(truncatingIfNeeded: $0) } }
    mutating func uint32() -> UInt32? { number(4).map { UInt32(truncatingIfNeeded: $0) } }
    mutating func uint64() -> UInt64? { number(8) }

    private mutating func number(_ width: Int) -> UInt64? {
        guard let place = bytes(width) else { return nil }
        var number: UInt64 = 0
        for index in place { number = number << 8 | UInt64(source[index]) }
        return number
    }

    mutating func shortString() -> String? { shortPlace().map(text) }

    /// The place of a short string.
    mutating func shortPlace() -> Range<Int>? {
        guard let count = uint8() else { return nil }
        return bytes(Int(count))
    }

    mutating func skipShortString() { _ = shortPlace() }

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
            return keep ? .string(self.text(text)) : .other
        case UInt8(ascii: "F"), UInt8(ascii: "A"):
            guard let count = uint32() else { return nil }
            return bytes(Int(count)).map { _ in .other }
        default: return nil
        }
    }
}

/// A value in a table of arguments or headers. Unused kinds (tables, arrays, decimals) are read as `other`.
package enum RabbitMQValue: Hashable, Sendable {
    case string(String)
    case integer(Int64)
    case boolean(Bool)
    case double(Double)
    case other

    package var string: String? {
        if case .string(let text) = self { text } else { nil }
    }
    package var integer: Int64? {
        if case .integer(let number) = self { number } else { nil }
    }
}

extension RabbitMQValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral {
    package init(stringLiteral text: String) { self = .string(text) }
    package init(integerLiteral number: Int64) { self = .integer(number) }
    package init(booleanLiteral truth: Bool) { self = .boolean(truth) }
}
