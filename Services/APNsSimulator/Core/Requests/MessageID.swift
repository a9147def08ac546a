/// An `apns-id`: sixteen bytes, and which of its digits are capitals, so that it goes back as it came. Compact, for the journal.
struct MessageID: Hashable, Sendable {
    let high: UInt64
    let low: UInt64
    /// Bit n is set where hex digit n is a capital letter.
    let capitals: UInt32

    init(high: UInt64, low: UInt64, capitals: UInt32 = 0) {
        self.high = high
        self.low = low
        self.capitals = capitals
    }

    /// Apple asks for lower case. Clients that send upper case are in wide use, and APNs serves them.
    /// - Returns: nil unless the text is 8-4-4-4-12 hex digits, in either case.
    init?(_ text: Span<UInt8>) {
        guard text.count == 36 else { return nil }
        var high: UInt64 = 0
        var low: UInt64 = 0
        var capitals: UInt32 = 0
        var wrong: UInt8 = 0
        for position in text.indices {
            let byte = text[position]
            if position == 8 || position == 13 || position == 18 || position == 23 {
                guard byte == UInt8(ascii: "-") else { return nil }
                continue
            }
            let nibble = hexNibble(byte)
            wrong |= nibble
            // Bit 6 distinguishes letters from digits, bit 5 lower case from upper case. The first digit ends in bit 0.
            capitals = capitals >> 1 | UInt32(byte >> 6 & ~(byte >> 5) & 1) << 31
            if position < 18 { high = high << 4 | UInt64(nibble & 0x0f) } else { low = low << 4 | UInt64(nibble & 0x0f) }
        }
        guard wrong <= 0x0f else { return nil }
        self.init(high: high, low: low, capitals: capitals)
    }

    /// A fresh version 4 UUID, in capitals as APNs writes its own. Needs no secrecy, so a fast generator suffices.
    static func make(using generator: inout some RandomNumberGenerator) -> MessageID {
        MessageID(
            high: generator.next() & ~0xf000 | 0x4000,
            low: generator.next() & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000, capitals: .max)
    }

    /// The same id in lower case, for comparisons.
    var lowercased: MessageID { MessageID(high: high, low: low) }

    /// The 36 characters.
    var text: [UInt8] {
        var text = [UInt8](repeating: 0, count: 36)
        write(into: &text)
        return text
    }

    /// - Parameter text: Has 36 elements.
    func write(into text: inout [UInt8]) {
        let letters = UInt8(ascii: "a") - UInt8(ascii: "0") - 10
        var digit = 0
        var text = text.mutableSpan
        for position in 0..<36 {
            if position == 8 || position == 13 || position == 18 || position == 23 {
                text[position] = UInt8(ascii: "-")
                continue
            }
            let nibble = UInt8(truncatingIfNeeded: (digit < 16 ? high : low) >> UInt64(60 - 4 * (digit & 15))) & 0x0f
            // Without a branch, see `hexNibble`.
            let capital = UInt8(truncatingIfNeeded: capitals >> UInt32(digit) & 1) << 5
            text[position] = UInt8(ascii: "0") + nibble + (nibble > 9 ? letters - capital : 0)
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
