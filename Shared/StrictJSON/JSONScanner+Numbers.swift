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
