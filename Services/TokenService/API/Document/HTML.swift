/// HTML as a string literal. Interpolated text is escaped; interpolated HTML is not.
struct HTML: ExpressibleByStringInterpolation, Sendable {
    let text: String

    init(stringLiteral text: String) { self.text = text }
    init(stringInterpolation parts: Parts) { text = parts.text }

    struct Parts: StringInterpolationProtocol {
        fileprivate var text = ""

        init(literalCapacity: Int, interpolationCount: Int) {}

        mutating func appendLiteral(_ html: String) { text += html }
        mutating func appendInterpolation(_ html: HTML) { text += html.text }
        mutating func appendInterpolation(_ html: HTML?) { text += html?.text ?? "" }
        mutating func appendInterpolation(_ html: [HTML]) { for part in html { text += part.text } }
        mutating func appendInterpolation(_ number: some BinaryInteger) { text += "\(number)" }

        mutating func appendInterpolation(_ plain: String) {
            text += plain.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
                .replacing("\"", with: "&quot;")
        }

        /// Text in which code stands in back-quotes.
        mutating func appendInterpolation(words: String) {
            for (index, part) in words.split(separator: "`", omittingEmptySubsequences: false).enumerated() {
                if index.isMultiple(of: 2) { appendInterpolation(String(part)) } else { appendInterpolation(HTML.code(String(part))) }
            }
        }
    }

    typealias StringInterpolation = Parts

    static func code(_ text: String) -> HTML { "<code>\(text)</code>" }

    /// A table that scrolls by itself where the screen is narrow; nil without rows.
    static func table(_ heads: [String], _ rows: [[HTML]]) -> HTML? {
        if rows.isEmpty { return nil }
        let head = heads.map { "<th scope=\"col\">\($0)</th>" as HTML }
        let body = rows.map { cells in "<tr>\(cells.map { "<td>\($0)</td>" as HTML })</tr>" as HTML }
        return "<div class=\"table\"><table><thead><tr>\(head)</tr></thead><tbody>\(body)</tbody></table></div>"
    }
}
