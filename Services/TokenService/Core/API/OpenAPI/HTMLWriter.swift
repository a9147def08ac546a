/// Writes HTML; every text is escaped.
struct HTMLWriter {
    private(set) var text = ""

    /// - Parameter attributes: Of names that are ours; the values are escaped.
    mutating func element(
        _ name: String, _ attributes: KeyValuePairs<String, String> = [:], _ content: (inout HTMLWriter) -> Void = { _ in }
    ) {
        open(name, attributes)
        content(&self)
        text += "</\(name)>"
    }

    mutating func element(_ name: String, _ attributes: KeyValuePairs<String, String>, _ content: String) {
        element(name, attributes) { $0.words(content) }
    }

    mutating func element(_ name: String, _ content: String) { element(name, [:], content) }

    /// An element without content, such as `meta`.
    mutating func open(_ name: String, _ attributes: KeyValuePairs<String, String> = [:]) {
        text += "<\(name)"
        for (name, value) in attributes { text += " \(name)=\"\(Self.escaped(value))\"" }
        text += ">"
    }

    /// Text as it is.
    mutating func plain(_ content: String) { text += Self.escaped(content) }

    /// Text with what stands in back-quotes as code.
    mutating func words(_ content: String) {
        for (index, part) in content.split(separator: "`", omittingEmptySubsequences: false).enumerated() {
            let escaped = Self.escaped(String(part))
            text += index.isMultiple(of: 2) ? escaped : "<code>\(escaped)</code>"
        }
    }

    mutating func raw(_ html: String) { text += html }

    private static func escaped(_ text: String) -> String {
        var escaped = ""
        for character in text.unicodeScalars {
            switch character {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            default: escaped.unicodeScalars.append(character)
            }
        }
        return escaped
    }
}
