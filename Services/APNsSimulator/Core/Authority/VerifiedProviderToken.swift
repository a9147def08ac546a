import OpenSSL
import StrictJSON

/// A provider token (JWT) whose signature was made by a key that the simulator knows. A class: every push uses its connection's.
final class VerifiedProviderToken: Sendable {
    let key: ProviderKey
    /// `iat`, UNIX seconds.
    let issuedAt: Int64
    /// True for most keys, and then no other property of the key needs a check.
    private let allowsEveryTopic: Bool
    let isSuspended: Bool

    /// The year 10000: a later time is not a time.
    private static let latestTime: Int64 = 253_402_300_800

    /// The text after `bearer `, checked against the keys by their id (RFC 7515, RFC 7519; Apple: Establishing a token-based connection to
    /// APNs).
    ///
    /// Lenient exactly where APNs has been seen to be (docs/apns.md, Provider tokens): padded or standard base64, a DER signature, `iat` as
    /// a JSON string.
    /// - Returns: nil for any other fault: form, algorithm, unknown key, other team, bad signature.
    init?(_ text: ArraySlice<UInt8>, keys: [String: ProviderKey]) {
        let parts = text.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Self.object(parts[0]), let claims = Self.object(parts[1]),
            let signature = Self.decoded(parts[2]),
            header["alg"]?.stringValue == "ES256", let keyID = header["kid"]?.stringValue, let key = keys[keyID],
            claims["iss"]?.stringValue == key.teamID, let issuedAt = Self.seconds(claims["iat"])
        else { return nil }
        let signed = Array(text[parts[0].startIndex..<parts[1].endIndex])
        guard key.publicKey.isValid(signature: signature, for: signed) else { return nil }
        self.key = key
        self.issuedAt = issuedAt
        allowsEveryTopic = key.topics == nil
        isSuspended = key.isSuspended
    }

    func allows(topic: [UInt8]) -> Bool { allowsEveryTopic || key.allows(topic: topic) }

    private static func object(_ part: ArraySlice<UInt8>) -> JSONValue? {
        guard let bytes = decoded(part) else { return nil }
        do {
            let value = try JSONValue.parse(bytes)
            return value.objectValue == nil ? nil : value
        } catch {
            return nil
        }
    }

    private static func seconds(_ value: JSONValue?) -> Int64? {
        let seconds = value?.integerValue ?? value?.stringValue.flatMap { Int64($0) }
        return seconds.flatMap { (0..<latestTime).contains($0) ? $0 : nil }
    }

    private static func decoded(_ part: ArraySlice<UInt8>) -> [UInt8]? {
        let text = part.compactMap { byte -> UInt8? in
            switch byte {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            case UInt8(ascii: "="): nil
            default: byte
            }
        }
        return Base64URL.decode(String(decoding: text, as: UTF8.self))
    }
}
