/// The name of an app (a tenant): 1 to 64 of `a-z 0-9 -`, beginning with a letter. It is a routing-key word and a metric label, hence no dots.
package struct AppSlug: Hashable, Sendable, CustomStringConvertible {
    package static let rule = "1 to 64 characters of a-z, 0-9 and -, beginning with a letter"

    package let text: String

    package init?(_ text: String) {
        guard (1...64).contains(text.utf8.count), let first = text.utf8.first, (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(first),
            text.utf8.allSatisfy({
                (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
                    || $0 == UInt8(ascii: "-")
            })
        else { return nil }
        self.text = text
    }

    package init?(_ text: Substring) { self.init(String(text)) }

    package var description: String { text }
}
