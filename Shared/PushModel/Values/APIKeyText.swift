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
