import OpenSSL

/// The place of a list's next page, as text that only we read: base64url of a version, a fingerprint of the list (so that it is valid for
/// that list and those filters alone) and the place.
package enum PageCursor {
    package enum Fault: Error, Equatable {
        /// The cursor is not one of ours, or damaged.
        case unreadable
        case ofAnotherList
    }

    private static let version: UInt8 = 1
    private static let fingerprintBytes = 8

    /// - Parameter list: Everything that decides the rows of the list and their order, the app included.
    package static func encode(_ place: [UInt8], list: [String?]) -> String {
        Base64URL.encode([version] + fingerprint(list) + place)
    }

    package static func decode(_ text: String, list: [String?]) throws(Fault) -> [UInt8] {
        guard let bytes = Base64URL.decode(text), bytes.first == version, bytes.count > 1 + fingerprintBytes else { throw .unreadable }
        guard Array(bytes[1...fingerprintBytes]) == fingerprint(list) else { throw .ofAnotherList }
        return Array(bytes.dropFirst(1 + fingerprintBytes))
    }

    /// A place that is a row's number.
    package static func encode(_ number: Int64, list: [String?]) -> String {
        let bits = UInt64(bitPattern: number)
        return encode((0..<8).map { UInt8(truncatingIfNeeded: bits >> UInt64(56 - 8 * $0)) }, list: list)
    }

    package static func decodeNumber(_ text: String, list: [String?]) throws(Fault) -> Int64 {
        let place = try decode(text, list: list)
        guard place.count == 8 else { throw .unreadable }
        return Int64(bitPattern: place.reduce(0) { $0 << 8 | UInt64($1) })
    }

    /// Lengths are part of it: `["ab", nil]` is not `["a", "b"]`.
    private static func fingerprint(_ list: [String?]) -> [UInt8] {
        var text: [UInt8] = []
        for part in list {
            text += Array("\(part?.utf8.count ?? -1):".utf8)
            text += Array((part ?? "").utf8)
        }
        return Array(Digest.sha256(text).prefix(fingerprintBytes))
    }
}
