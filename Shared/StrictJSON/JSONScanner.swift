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

extension JSONScanner {
    enum Number {
        case integer(Int64)
        case fraction(Double)
    }

    static func beginsNumber(_ byte: UInt8?) -> Bool {
        guard let byte else { return false }
        return byte == UInt8(ascii: "-") || isDigit(byte)
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    /// Takes a number. One without fraction and exponent that fits is an `Int64`; any other a `Double`, which must be finite.
    mutating func number() throws(JSONError) -> Number {
        let start = position
        var index = position
        let isNegative = source[index] == UInt8(ascii: "-")
        if isNegative { index += 1 }

        let firstDigit = index
        var magnitude: UInt64 = 0
        var fits = true
        while index < source.count, Self.isDigit(source[index]) {
            let (tens, overflow) = magnitude.multipliedReportingOverflow(by: 10)
            let (sum, carry) = tens.addingReportingOverflow(UInt64(source[index] - UInt8(ascii: "0")))
            if overflow || carry { fits = false }
            magnitude = sum
            index += 1
        }
        guard index > firstDigit else { throw JSONError(at: index, in: source, "expected a digit") }
        guard index == firstDigit + 1 || source[firstDigit] != UInt8(ascii: "0") else {
            throw JSONError(at: firstDigit, in: source, "a number must not begin with 0")
        }

        let afterDigits = index
        index = try afterFraction(at: index)
        index = try afterExponent(at: index)
        position = index
        if index == afterDigits, fits, let integer = Self.signed(magnitude, isNegative: isNegative) { return .integer(integer) }
        guard let value = Double(String(decoding: source[start..<index], as: UTF8.self)), value.isFinite else {
            throw JSONError(at: start, in: source, "the number is too large")
        }
        return .fraction(value)
    }

    private static func signed(_ magnitude: UInt64, isNegative: Bool) -> Int64? {
        guard isNegative else { return Int64(exactly: magnitude) }
        if magnitude == Int64.min.magnitude { return Int64.min }
        return Int64(exactly: magnitude).map { -$0 }
    }

    private func afterFraction(at index: Int) throws(JSONError) -> Int {
        guard index < source.count, source[index] == UInt8(ascii: ".") else { return index }
        return try afterDigits(at: index + 1)
    }

    private func afterExponent(at index: Int) throws(JSONError) -> Int {
        guard index < source.count, source[index] | 0x20 == UInt8(ascii: "e") else { return index }
        var index = index + 1
        if index < source.count, source[index] == UInt8(ascii: "+") || source[index] == UInt8(ascii: "-") { index += 1 }
        return try afterDigits(at: index)
    }

    private func afterDigits(at start: Int) throws(JSONError) -> Int {
        var index = start
        while index < source.count, Self.isDigit(source[index]) { index += 1 }
        guard index > start else { throw JSONError(at: index, in: source, "expected a digit") }
        return index
    }
}

extension JSONScanner {
    /// Takes a string. `position` is at its opening quote, and after its closing quote when this returns.
    /// - Returns: The range of its content, and whether that has escapes to resolve.
    mutating func scanString() throws(JSONError) -> (range: Range<Int>, hasEscapes: Bool) {
        let start = position + 1
        var index = start
        var hasEscapes = false
        while true {
            index = Self.endOfPlain(source.span, from: index)
            guard index < source.count else { throw JSONError(at: source.count, in: source, "the text ends inside a string") }
            switch source[index] {
            case UInt8(ascii: "\""):
                position = index + 1
                return (start..<index, hasEscapes)
            case UInt8(ascii: "\\"):
                hasEscapes = true
                index = try afterEscape(at: index)
            case 0x00..<0x20: throw JSONError(at: index, in: source, "a control character in a string must be escaped")
            default: index = try afterMultibyte(at: index)
            }
        }
    }

    /// The index of the first byte that is not plain.
    private static func endOfPlain(_ source: Span<UInt8>, from start: Int) -> Int {
        var index = start
        while index < source.count, isPlain(source[index]) { index += 1 }
        return index
    }

    /// ASCII without a special meaning: nearly every byte.
    private static func isPlain(_ byte: UInt8) -> Bool {
        byte &- 0x20 < 0x60 && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }

    /// Checks one UTF-8 sequence of two to four bytes (Unicode 15, table 3-7: no overlong forms, no surrogates, at most U+10FFFF).
    private func afterMultibyte(at index: Int) throws(JSONError) -> Int {
        let lead = source[index]
        let second: ClosedRange<UInt8>
        let length: Int
        switch lead {
        case 0xc2...0xdf: (length, second) = (2, 0x80...0xbf)
        case 0xe0: (length, second) = (3, 0xa0...0xbf)
        case 0xed: (length, second) = (3, 0x80...0x9f)
        case 0xe1...0xef: (length, second) = (3, 0x80...0xbf)
        case 0xf0: (length, second) = (4, 0x90...0xbf)
        case 0xf1...0xf3: (length, second) = (4, 0x80...0xbf)
        case 0xf4: (length, second) = (4, 0x80...0x8f)
        default: throw JSONError(at: index, in: source, "not UTF-8")
        }
        guard index + length <= source.count, second.contains(source[index + 1]),
            source[(index + 2)..<(index + length)].allSatisfy({ $0 & 0xc0 == 0x80 })
        else { throw JSONError(at: index, in: source, "not UTF-8") }
        return index + length
    }

    private func afterEscape(at index: Int) throws(JSONError) -> Int {
        guard index + 1 < source.count else { throw JSONError(at: index, in: source, "the text ends inside a string") }
        switch source[index + 1] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"), UInt8(ascii: "n"),
            UInt8(ascii: "r"), UInt8(ascii: "t"):
            return index + 2
        case UInt8(ascii: "u"):
            guard let unit = codeUnit(at: index) else { throw JSONError(at: index, in: source, "\\u needs four hex digits") }
            guard UTF16.isLeadSurrogate(unit) || UTF16.isTrailSurrogate(unit) else { return index + 6 }
            guard UTF16.isLeadSurrogate(unit), let next = codeUnit(at: index + 6), UTF16.isTrailSurrogate(next) else {
                throw JSONError(at: index, in: source, "half of a surrogate pair")
            }
            return index + 12
        default: throw JSONError(at: index, in: source, "unknown escape")
        }
    }

    /// The UTF-16 code unit of the `\uXXXX` at `index`, or nil where there is none.
    private func codeUnit(at index: Int) -> UInt16? {
        guard index + 6 <= source.count, source[index] == UInt8(ascii: "\\"), source[index + 1] == UInt8(ascii: "u") else { return nil }
        var unit: UInt16 = 0
        for digit in source[(index + 2)..<(index + 6)] {
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): unit = unit << 4 | UInt16(digit - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"): unit = unit << 4 | UInt16(digit - UInt8(ascii: "a") + 10)
            case UInt8(ascii: "A")...UInt8(ascii: "F"): unit = unit << 4 | UInt16(digit - UInt8(ascii: "A") + 10)
            default: return nil
            }
        }
        return unit
    }

    /// Resolves the escapes of a string's content that ``scanString()`` has checked.
    func unescaped(_ range: Range<Int>) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(range.count)
        var index = range.lowerBound
        while index < range.upperBound {
            guard source[index] == UInt8(ascii: "\\") else {
                text.append(source[index])
                index += 1
                continue
            }
            switch source[index + 1] {
            case UInt8(ascii: "b"): text.append(0x08)
            case UInt8(ascii: "f"): text.append(0x0c)
            case UInt8(ascii: "n"): text.append(0x0a)
            case UInt8(ascii: "r"): text.append(0x0d)
            case UInt8(ascii: "t"): text.append(0x09)
            case UInt8(ascii: "u"):
                let (scalar, length) = escapedScalar(at: index)
                text.append(contentsOf: String(Character(scalar)).utf8)
                index += length
                continue
            case let literal: text.append(literal)
            }
            index += 2
        }
        return text
    }

    private func escapedScalar(at index: Int) -> (scalar: Unicode.Scalar, length: Int) {
        let unit = codeUnit(at: index) ?? 0xfffd
        if let scalar = Unicode.Scalar(unit) { return (scalar, 6) }
        let trail = codeUnit(at: index + 6) ?? 0xdc00
        let value = 0x10000 + (UInt32(unit) & 0x3ff) << 10 + UInt32(trail) & 0x3ff
        return (Unicode.Scalar(value) ?? "\u{fffd}", 12)
    }
}

/// Bytes that are not the JSON we accept, and their place. Says what was expected, never the found text: a body may hold secrets.
package struct JSONError: Error, Equatable, Sendable, CustomStringConvertible {
    /// Bytes before the fault.
    package let offset: Int
    /// 1 for the first line; lines end with a line feed.
    package let line: Int
    /// 1 for the first column, in bytes.
    package let column: Int
    package let message: String
    /// The field whose value was wrong, if the text itself was good JSON.
    package let field: String?

    package init(at offset: Int, in source: [UInt8], _ message: String, field: String? = nil) {
        var line = 1
        var lineStart = 0
        for index in 0..<min(offset, source.count) where source[index] == UInt8(ascii: "\n") {
            line += 1
            lineStart = index + 1
        }
        self.offset = offset
        self.line = line
        self.column = offset - lineStart + 1
        self.message = message
        self.field = field
    }

    package var description: String { "line \(line), column \(column): \(message)" }
}
