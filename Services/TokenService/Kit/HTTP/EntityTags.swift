package import HTTPTypes

/// The states that an `If-Match` or `If-None-Match` field names (RFC 9110 section 13.1): any state, or those with these entity tags.
package enum EntityTags: Equatable, Sendable {
    case any
    /// As they were written, not checked.
    case listed([String])

    init(_ field: String) {
        self = field == "*" ? .any : .listed(field.split(separator: ",").map(Self.trimmed))
    }

    /// nil when the request has no such field.
    package init?(_ name: HTTPField.Name, of fields: HTTPFields) {
        guard let field = fields.text(name) else { return nil }
        self.init(field)
    }

    /// The weak comparison that `If-None-Match` asks for.
    /// - Parameter tag: A strong one of ours.
    package func nameWeakly(_ tag: String) -> Bool {
        switch self {
        case .any: true
        case .listed(let tags): tags.contains { $0 == tag || $0 == "W/" + tag }
        }
    }

    private static func trimmed(_ text: Substring) -> String {
        func isInk(_ character: Character) -> Bool { character != " " && character != "\t" }
        guard let first = text.firstIndex(where: isInk), let last = text.lastIndex(where: isInk) else { return "" }
        return String(text[first...last])
    }
}
