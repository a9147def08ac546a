/// A device token's bytes. Up to 32 bytes, which is every token seen so far, lie inline: looking one up or noting it allocates nothing.
struct TokenKey: Hashable, Sendable {
    /// Longer tokens are answered `BadDeviceToken`.
    static let maximumBytes = 256

    private var first: UInt64 = 0
    private var second: UInt64 = 0
    private var third: UInt64 = 0
    private var fourth: UInt64 = 0
    private var rest: [UInt8] = []
    private var count: UInt16 = 0

    /// - Returns: nil unless `digits` is a positive, even number of hex digits, at most twice ``maximumBytes``.
    init?(hex digits: Span<UInt8>) {
        guard !digits.isEmpty, digits.count.isMultiple(of: 2), digits.count <= 2 * Self.maximumBytes else { return nil }
        var wrong: UInt8 = 0
        func word(_ index: Int) -> UInt64 {
            var value: UInt64 = 0
            for position in min(16 * index, digits.count)..<min(16 * index + 16, digits.count) {
                let nibble = hexNibble(digits[position])
                wrong |= nibble
                value = value << 4 | UInt64(nibble & 0x0f)
            }
            return value
        }
        (first, second, third, fourth) = (word(0), word(1), word(2), word(3))
        count = UInt16(digits.count / 2)
        var position = 64
        while position < digits.count {
            let (high, low) = (hexNibble(digits[position]), hexNibble(digits[position + 1]))
            wrong |= high | low
            rest.append(high << 4 | low & 0x0f)
            position += 2
        }
        guard wrong <= 0x0f else { return nil }
    }

    init?(hex text: String) {
        let digits = Array(text.utf8)
        self.init(hex: digits.span)
    }

    /// - Returns: nil unless there are 1 to ``maximumBytes``.
    init?(_ bytes: Span<UInt8>) {
        var digits: [UInt8] = []
        for index in bytes.indices { digits += [bytes[index] >> 4, bytes[index] & 0x0f].map { $0 + ($0 < 10 ? 0x30 : 0x57) } }
        self.init(hex: digits.span)
    }

    var byteCount: Int { Int(count) }

    /// Calls `body` with each byte, without an allocation.
    func forEachByte(_ body: (UInt8) -> Void) {
        func word(_ word: UInt64, _ index: Int) {
            let length = min(8, Int(count) - 8 * index)
            guard length > 0 else { return }
            for index in 0..<length { body(UInt8(truncatingIfNeeded: word >> UInt64(8 * (length - 1 - index)))) }
        }
        word(first, 0)
        word(second, 1)
        word(third, 2)
        word(fourth, 3)
        for byte in rest { body(byte) }
    }

    var bytes: [UInt8] {
        var bytes: [UInt8] = []
        forEachByte { bytes.append($0) }
        return bytes
    }

    /// The whole token in lower case: for the control API, never for a log.
    var hex: String { hexText(bytes[...]) }

    /// The last six digits: enough for a person to recognise, too few to send with.
    var hint: String { "…" + hexText(bytes.suffix(3)) }
}

extension TokenKey: CustomStringConvertible {
    var description: String { hint }
}

private func hexText(_ bytes: ArraySlice<UInt8>) -> String {
    var digits: [UInt8] = []
    for nibble in bytes.flatMap({ [$0 >> 4, $0 & 0x0f] }) {
        digits.append(nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "a") + nibble - 10)
    }
    return String(decoding: digits, as: UTF8.self)
}
