/// The characters of a bundle id, and so of every `apns-topic`: a header's value (RFC 9113 section 8.2.1 allows no line end and no blank at
/// an end) and, for channels, a part of a path.
package enum BundleID {
    package static let rule = "letters, digits, hyphens, underscores and full stops"

    package static func isOne(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                    UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
                    true
                default: false
                }
            }
    }

    /// Why a text that may be a bundle id is more likely something else; nil for an ordinary one.
    package static func doubt(about text: String) -> String? {
        let endings = PushType.allCases.map { $0.topic(bundleID: "") }.filter { !$0.isEmpty }
        if let ending = endings.first(where: { text.hasSuffix($0) }) {
            return "it ends with \(ending), which the platform adds to the bundle id itself for pushes of that type"
        }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        let isTeam =
            parts[0].utf8.count == 10 && parts[0].unicodeScalars.allSatisfy { ("A"..."Z").contains($0) || ("0"..."9").contains($0) }
        return isTeam && parts.count > 2 ? "\(parts[0]) at its beginning looks like a team id, which is no part of a bundle id" : nil
    }
}
