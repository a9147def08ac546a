/// The value of one ASCII hex digit, either case.
package func hexValue(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
}

/// The lower-case ASCII digit of a value below sixteen. Without a branch, because a processor cannot predict the digits.
package func hexDigit(_ nibble: UInt8) -> UInt8 {
    let isLetter = (nibble &+ 6) >> 4
    return UInt8(ascii: "0") &+ nibble &+ 39 &* isLetter
}

/// The eight lower-case ASCII digits of four bytes, the first digit in the most significant byte: four bytes at a time instead of a digit,
/// because ids and tokens are written several times for each delivery.
func hexDigits(_ word: UInt32) -> UInt64 {
    // Spread out so that each nibble, in its order, has a byte of its own.
    var nibbles = UInt64(word)
    nibbles = (nibbles | nibbles << 16) & 0x0000_ffff_0000_ffff
    nibbles = (nibbles | nibbles << 8) & 0x00ff_00ff_00ff_00ff
    nibbles = (nibbles | nibbles << 4) & 0x0f0f_0f0f_0f0f_0f0f
    // 1 where the nibble is above nine: those are letters.
    let letters = (nibbles &+ 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101
    return nibbles &+ 0x3030_3030_3030_3030 &+ letters &* 39
}

/// Writes the eight digits of ``hexDigits(_:)``, or the first or last four of them.
@inline(__always)
func write<Digits: FixedWidthInteger>(_ digits: Digits, to text: inout MutableSpan<UInt8>, at place: Int) {
    let count = Digits.bitWidth / 8
    // Checked once, so that the compiler can make one store of them.
    precondition(place >= 0 && place <= text.count - count)
    for index in 0..<count { text[place &+ index] = UInt8(truncatingIfNeeded: digits &>> Digits(8 * (count - 1 - index))) }
}

/// Appends the sixteen lower-case ASCII digits of a number.
package func appendHex(_ number: UInt64, to text: inout [UInt8]) {
    let place = text.count
    text.append(contentsOf: repeatElement(0, count: 16))
    var digits = text.mutableSpan
    write(hexDigits(UInt32(truncatingIfNeeded: number >> 32)), to: &digits, at: place)
    write(hexDigits(UInt32(truncatingIfNeeded: number)), to: &digits, at: place + 8)
}

/// Reads hex digits one after another without a branch per digit; check ``isValid`` at the end.
struct HexAccumulator {
    private var faults: UInt8 = 0

    var isValid: Bool { faults == 0 }

    /// The value of a digit of either case; an undefined value for any other byte.
    mutating func value(_ byte: UInt8) -> UInt8 {
        let digit = byte &- UInt8(ascii: "0")
        let letter = (byte | 0x20) &- UInt8(ascii: "a")
        let isDigit: UInt8 = digit < 10 ? 1 : 0
        let isLetter: UInt8 = letter < 6 ? 1 : 0
        faults |= 1 &- (isDigit | isLetter)
        return (byte & 0x0f) &+ 9 &* isLetter
    }
}

/// Lower-case hex of any bytes.
package func hexText(_ bytes: some Sequence<UInt8>) -> String { hexText(Array(bytes)) }

/// Writes bytes in hex. It is not generic: other modules would get an unspecialised generic function, where each byte costs several calls.
package func hexText(_ bytes: [UInt8]) -> String {
    var digits: [UInt8] = []
    digits.reserveCapacity(2 * bytes.count)
    for byte in bytes {
        digits.append(hexDigit(byte >> 4))
        digits.append(hexDigit(byte & 0x0f))
    }
    return String(decoding: digits, as: UTF8.self)
}

/// An API key as its owner holds it: `psh_<id>_<secret>`, sixteen hex digits of id (not secret, the row's name) and forty-eight of secret
/// (192 bits).
///
/// The prefix lets secret scanners find a leaked key. `description` leaves the secret out; only ``text`` gives the whole.
package struct APIKeyText: Hashable, Sendable {
    package static let rule = "psh_, 16 hex digits, _, 48 hex digits"

    package let id: String
    package let secret: String

    package var text: String { "psh_\(id)_\(secret)" }

    package init?(_ text: some StringProtocol) {
        let bytes = Array(text.utf8)
        guard bytes.count == Self.length, bytes.starts(with: "psh_".utf8), bytes[Self.idEnd] == UInt8(ascii: "_"),
            Self.isLowerHex(bytes[4..<Self.idEnd]), Self.isLowerHex(bytes[(Self.idEnd + 1)...])
        else { return nil }
        id = String(decoding: bytes[4..<Self.idEnd], as: UTF8.self)
        secret = String(decoding: bytes[(Self.idEnd + 1)...], as: UTF8.self)
    }

    private static let idEnd = 4 + 16
    private static let length = idEnd + 1 + 48

    private init(id: String, secret: String) {
        self.id = id
        self.secret = secret
    }

    /// A new key. `SystemRandomNumberGenerator` is the kernel's generator on Linux (getrandom), fit for secrets.
    package static func generate() -> APIKeyText {
        var generator = SystemRandomNumberGenerator()
        func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) } }
        return APIKeyText(id: hexText(bytes(8)), secret: hexText(bytes(24)))
    }

    private static func isLowerHex(_ digits: ArraySlice<UInt8>) -> Bool {
        for digit in digits {
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"): continue
            default: return false
            }
        }
        return true
    }
}

extension APIKeyText: CustomStringConvertible, CustomReflectable {
    package var description: String { "psh_\(id)_…" }
    package var customMirror: Mirror { Mirror(self, children: ["id": id]) }
}
