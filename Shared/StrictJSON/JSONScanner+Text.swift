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
