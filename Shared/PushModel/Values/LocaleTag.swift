/// A language tag (BCP 47) in lower case with hyphens: `de`, `de-at`, `zh-hant`. Devices also write `de_AT`, `en_US_POSIX` and
/// `de_DE@calendar=gregorian`; those are the same with underscores, and with keywords that do not concern the language.
package struct LocaleTag: Hashable, Sendable, CustomStringConvertible {
    package static let maximumBytes = 64

    package let text: String
    package var description: String { text }

    /// - Returns: nil for a text that is no language tag: a word of 2 to 8 letters, then words of 1 to 8 letters and digits.
    package init?(_ given: String) {
        // By bytes: every registration has a locale.
        let bytes = given.utf8.prefix { $0 != UInt8(ascii: "@") }.map { (byte: UInt8) -> UInt8 in
            byte == UInt8(ascii: "_") ? UInt8(ascii: "-") : (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
        }
        guard bytes.count <= Self.maximumBytes, given.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
        let subtags = bytes.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        guard let language = subtags.first, (2...8).contains(language.count), language.allSatisfy(\.isLowercaseLetter),
            subtags.allSatisfy({ (1...8).contains($0.count) && $0.allSatisfy { $0.isLowercaseLetter || $0.isDigit } })
        else { return nil }
        self.text = String(decoding: bytes, as: UTF8.self)
    }

    /// Whether the tag may name a language. All that do have two or three letters, so `german` is none.
    package var namesLanguage: Bool { (2...3).contains(text.prefix { $0 != "-" }.utf8.count) }

    /// This tag and its shorter forms without the last subtags, the longest first (RFC 4647 section 3.4, lookup). Each is followed by its
    /// other spellings: `zh-TW` is `zh-Hant-TW`, and `iw` is `he`.
    package var lookup: [String] {
        var subtags = Self.withScript(text.split(separator: "-").map(String.init))
        var ranges = [text]
        func add(_ range: [String]) {
            let text = range.joined(separator: "-")
            if !ranges.contains(text) { ranges.append(text) }
        }
        while !subtags.isEmpty {
            add(subtags)
            add(Self.withoutScript(subtags))
            if let other = Self.aliases[subtags[0]] { add([other] + subtags.dropFirst()) }
            subtags.removeLast()
            // A single letter or digit begins an extension and has no meaning by itself.
            if subtags.last?.utf8.count == 1 { subtags.removeLast() }
        }
        return ranges
    }
}

/// The other spellings that devices and texts are known to use (CLDR, likelySubtags and languageAlias).
extension LocaleTag {
    private static let scripts = ["tw": "hant", "hk": "hant", "mo": "hant", "cn": "hans", "sg": "hans"]
    private static let aliases = ["iw": "he", "he": "iw", "in": "id", "id": "in", "nb": "no", "no": "nb"]

    /// `zh-TW` as `zh-Hant-TW`: the region tells the script, and texts are filed under the script.
    private static func withScript(_ subtags: [String]) -> [String] {
        guard subtags.count > 1, subtags[0] == "zh", let script = scripts[subtags[1]] else { return subtags }
        return [subtags[0], script] + subtags.dropFirst()
    }

    private static func withoutScript(_ subtags: [String]) -> [String] {
        guard subtags.count > 2, subtags[0] == "zh", scripts[subtags[2]] == subtags[1] else { return subtags }
        return [subtags[0]] + subtags.dropFirst(2)
    }
}

extension LocaleTag {
    /// A device's identifier without what does not concern the language: `de_DE` of `de_DE@calendar=buddhist` and of
    /// `de-DE-u-ca-buddhist`.
    package static func withoutExtensions(_ identifier: String) -> String {
        let plain = identifier.prefix { $0 != "@" }
        var end = plain.startIndex
        while let separator = plain[end...].firstIndex(where: { $0 == "-" || $0 == "_" }) {
            let next = plain.index(after: separator)
            let subtag = plain[next...].prefix { $0 != "-" && $0 != "_" }
            if subtag.utf8.count == 1, subtag.endIndex < plain.endIndex { return String(plain[..<separator]) }
            end = next
        }
        return String(plain)
    }
}

extension UInt8 {
    fileprivate var isLowercaseLetter: Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(self) }
    fileprivate var isDigit: Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self) }
}
