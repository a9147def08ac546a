/// An `apns-id`: sixteen bytes, kept compact for the journal.
struct MessageID: Hashable, Sendable {
    let high: UInt64
    let low: UInt64

    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// - Returns: nil unless the text is 8-4-4-4-12 lower-case hex digits (APNS.md section 2).
    init?(_ text: Span<UInt8>) {
        guard text.count == 36 else { return nil }
        var high: UInt64 = 0
        var low: UInt64 = 0
        var digits = 0
        for position in text.indices {
            let byte = text[position]
            if position == 8 || position == 13 || position == 18 || position == 23 {
                guard byte == UInt8(ascii: "-") else { return nil }
                continue
            }
            guard let nibble = hexValue(byte), !(UInt8(ascii: "A")...UInt8(ascii: "F")).contains(byte) else { return nil }
            if digits < 16 { high = high << 4 | UInt64(nibble) } else { low = low << 4 | UInt64(nibble) }
            digits += 1
        }
        self.init(high: high, low: low)
    }

    /// A fresh version 4 UUID. Needs no secrecy, so a fast generator will do.
    static func make(using generator: inout some RandomNumberGenerator) -> MessageID {
        MessageID(
            high: generator.next() & ~0xf000 | 0x4000,
            low: generator.next() & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000)
    }

    /// The 36 characters; APNs writes the ids it makes in upper case and echoes ours as they came.
    func text(upperCase: Bool) -> [UInt8] {
        var text = [UInt8](repeating: 0, count: 36)
        write(into: &text, upperCase: upperCase)
        return text
    }

    /// - Parameter text: Has 36 elements.
    func write(into text: inout [UInt8], upperCase: Bool) {
        let letters = UInt8(ascii: upperCase ? "A" : "a") - 10
        var position = 0
        for index in 0..<32 {
            if index == 8 || index == 12 || index == 16 || index == 20 {
                text[position] = UInt8(ascii: "-")
                position += 1
            }
            let word = index < 16 ? high : low
            let nibble = UInt8(truncatingIfNeeded: word >> UInt64(60 - 4 * (index % 16))) & 0x0f
            text[position] = nibble < 10 ? UInt8(ascii: "0") + nibble : letters + nibble
            position += 1
        }
    }
}

/// SplitMix64: a good spread at the price of a few instructions. For ids that need no secrecy.
struct FastRandom: RandomNumberGenerator {
    private var state: UInt64

    init() { state = UInt64.random(in: .min ... .max) }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}

/// The value of one ASCII hex digit, either case.
func hexValue(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
}
