/// An API key as its owner holds it: `psh_<id>_<secret>`, sixteen hex digits of id (not secret, the row's name) and forty-eight of secret (192 bits).
///
/// The prefix lets secret scanners find a leaked key. `description` leaves the secret out; ``text`` is the one way to the whole.
package struct APIKeyText: Hashable, Sendable {
    package static let rule = "psh_, 16 hex digits, _, 48 hex digits"

    package let id: String
    package let secret: String

    package var text: String { "psh_\(id)_\(secret)" }

    package init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "_", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0] == "psh", Self.isLowerHex(parts[1], digits: 16), Self.isLowerHex(parts[2], digits: 48) else {
            return nil
        }
        id = String(parts[1])
        secret = String(parts[2])
    }

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

    private static func isLowerHex(_ text: some StringProtocol, digits: Int) -> Bool {
        text.utf8.count == digits && text.utf8.allSatisfy { hexValue($0) != nil && !(UInt8(ascii: "A")...UInt8(ascii: "F")).contains($0) }
    }
}

extension APIKeyText: CustomStringConvertible, CustomReflectable {
    package var description: String { "psh_\(id)_…" }
    package var customMirror: Mirror { Mirror(self, children: ["id": id]) }
}
