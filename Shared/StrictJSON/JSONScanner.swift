/// Reads JSON (RFC 8259) forward, once, value by value, without building anything: the base of the codecs of hot messages.
///
/// Stricter than the RFC requires, because bodies come from outside: nesting is limited, names in an object are unique, UTF-8 and surrogate
/// pairs are checked, and no text may follow the value. One owner; a copy is an independent reader at the same place.
package struct JSONScanner {
    /// How deep arrays and objects may nest by default.
    package static let defaultMaximumDepth = 32

    package let source: [UInt8]
    /// Bytes read so far.
    package internal(set) var position = 0
    let maximumDepth: Int
    var depth = 0
    /// How many more values a tree may have.
    var valuesLeft = Int.max

    package init(_ source: [UInt8], maximumDepth: Int = JSONScanner.defaultMaximumDepth) {
        self.source = source
        self.maximumDepth = maximumDepth
    }

    /// An error at the place reached so far.
    package func error(_ message: String) -> JSONError { JSONError(at: position, in: source, message) }

    /// An error about a value that is good JSON but not allowed in this field.
    package func error(inField field: String, _ message: String) -> JSONError {
        JSONError(at: position, in: source, message, field: field)
    }

    // MARK: Values

    /// Reads `null` if it comes next.
    package mutating func null() throws(JSONError) -> Bool {
        guard peek() == UInt8(ascii: "n") else { return false }
        try literal(Self.nullBytes)
        return true
    }

    package mutating func bool() throws(JSONError) -> Bool {
        switch peek() {
        case UInt8(ascii: "t"):
            try literal(Self.trueBytes)
            return true
        case UInt8(ascii: "f"):
            try literal(Self.falseBytes)
            return false
        default: throw error("expected true or false")
        }
    }

    /// A whole number without fraction or exponent that fits 64 bits.
    package mutating func integer() throws(JSONError) -> Int64 {
        guard Self.beginsNumber(peek()) else { throw error("expected a whole number") }
        let start = position
        guard case .integer(let value) = try number() else {
            position = start
            throw error("expected a whole number of at most 64 bits")
        }
        return value
    }

    package mutating func string() throws(JSONError) -> String {
        String(decoding: try stringBytes(), as: UTF8.self)
    }

    /// The string's UTF-8 with escapes resolved; without escapes, a slice of the source.
    package mutating func stringBytes() throws(JSONError) -> ArraySlice<UInt8> {
        guard peek() == UInt8(ascii: "\"") else { throw error("expected a string") }
        let (range, hasEscapes) = try scanString()
        return hasEscapes ? unescaped(range)[...] : source[range]
    }

    /// Passes over any one value, checking it as strictly as if it were read.
    /// - Returns: The value's range, without the blanks around it: `source[range]` is the value verbatim.
    @discardableResult
    package mutating func skipValue() throws(JSONError) -> Range<Int> {
        let first = peek()
        let start = position
        switch first {
        case UInt8(ascii: "\""): _ = try scanString()
        case UInt8(ascii: "{"):
            var names = JSONNameSet()
            try beginObject()
            while let name = try nextName() {
                guard names.insert(name) else { throw error("the name before this place stands twice in its object") }
                try skipValue()
            }
        case UInt8(ascii: "["):
            try beginArray()
            while try nextElement() { try skipValue() }
        case UInt8(ascii: "t"): try literal(Self.trueBytes)
        case UInt8(ascii: "f"): try literal(Self.falseBytes)
        case UInt8(ascii: "n"): try literal(Self.nullBytes)
        default:
            guard Self.beginsNumber(first) else { throw error("expected a value") }
            _ = try number()
        }
        return start..<position
    }

    /// Makes sure that only blanks are left.
    package mutating func finish() throws(JSONError) {
        guard peek() == nil else { throw error("nothing may follow the value") }
    }

    /// Whether an object comes next.
    package mutating func isAtObject() -> Bool { peek() == UInt8(ascii: "{") }

    // MARK: Literals and blanks

    private static let nullBytes = Array("null".utf8)
    private static let trueBytes = Array("true".utf8)
    private static let falseBytes = Array("false".utf8)

    mutating func literal(_ expected: [UInt8]) throws(JSONError) {
        let end = position + expected.count
        guard end <= source.count, source[position..<end].elementsEqual(expected) else { throw error("expected a value") }
        position = end
    }

    /// Steps over blanks and returns the byte that comes next, without taking it.
    mutating func peek() -> UInt8? {
        while position < source.count {
            let byte = source[position]
            switch byte {
            case UInt8(ascii: " "), UInt8(ascii: "\n"), UInt8(ascii: "\r"), UInt8(ascii: "\t"): position += 1
            default: return byte
            }
        }
        return nil
    }
}
