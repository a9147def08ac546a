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
        var wrong: UInt8 = 0
        for position in text.indices {
            let byte = text[position]
            if position == 8 || position == 13 || position == 18 || position == 23 {
                guard byte == UInt8(ascii: "-") else { return nil }
                continue
            }
            // Bit 5 tells lower case from upper case; digits have it too.
            let nibble = hexNibble(byte) | (byte & 0x20 == 0 ? 0xf0 : 0)
            wrong |= nibble
            if position < 18 { high = high << 4 | UInt64(nibble & 0x0f) } else { low = low << 4 | UInt64(nibble & 0x0f) }
        }
        guard wrong <= 0x0f else { return nil }
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
        let letters = UInt8(ascii: upperCase ? "A" : "a") - UInt8(ascii: "0") - 10
        var digit = 0
        var text = text.mutableSpan
        for position in 0..<36 {
            if position == 8 || position == 13 || position == 18 || position == 23 {
                text[position] = UInt8(ascii: "-")
                continue
            }
            let nibble = UInt8(truncatingIfNeeded: (digit < 16 ? high : low) >> UInt64(60 - 4 * (digit & 15))) & 0x0f
            // Without a branch, see `hexNibble`.
            text[position] = UInt8(ascii: "0") + nibble + (nibble > 9 ? letters : 0)
            digit += 1
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

/// The value of one ASCII hex digit, either case; 0xff for anything else. Without a branch: tokens are random, and a processor would guess
/// wrong at every other digit.
@inline(__always)
func hexNibble(_ byte: UInt8) -> UInt8 {
    let digit = byte &- UInt8(ascii: "0")
    let letter = (byte | 0x20) &- UInt8(ascii: "a")
    return digit < 10 ? digit : letter < 6 ? letter + 10 : 0xff
}
