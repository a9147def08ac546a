/// A language tag (BCP 47) in lower case with hyphens: `de`, `de-at`, `zh-hant`. Devices also write `de_AT`, `en_US_POSIX` and
/// `de_DE@calendar=gregorian`; those are the same with underscores, and with keywords that do not concern the language.
package struct LocaleTag: Hashable, Sendable, CustomStringConvertible {
    package static let maximumBytes = 64

    package let text: String
    package var description: String { text }

    /// - Returns: nil for a text that is no language tag: a word of 2 to 8 letters, then words of 1 to 8 letters and digits.
    package init?(_ given: String) {
        let text = given.prefix { $0 != "@" }.lowercased().replacing("_", with: "-")
        let subtags = text.split(separator: "-", omittingEmptySubsequences: false).map { Array($0.utf8) }
        // Lower-casing could turn another character into a letter.
        guard given.utf8.allSatisfy({ $0 < 0x80 }), text.utf8.count <= Self.maximumBytes, let language = subtags.first,
            (2...8).contains(language.count),
            language.allSatisfy(\.isLowercaseLetter),
            subtags.allSatisfy({ (1...8).contains($0.count) && $0.allSatisfy { $0.isLowercaseLetter || $0.isDigit } })
        else { return nil }
        self.text = text
    }

    /// This tag and its shorter forms without the last subtags, the longest first (RFC 4647 section 3.4, lookup).
    package var lookup: [String] {
        var subtags = text.split(separator: "-")
        var ranges: [String] = []
        while !subtags.isEmpty {
            ranges.append(subtags.joined(separator: "-"))
            subtags.removeLast()
            // A single letter or digit begins an extension and has no meaning by itself.
            if subtags.last?.utf8.count == 1 { subtags.removeLast() }
        }
        return ranges
    }
}

extension UInt8 {
    fileprivate var isLowercaseLetter: Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(self) }
    fileprivate var isDigit: Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self) }
}
