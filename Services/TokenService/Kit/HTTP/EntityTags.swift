package import HTTPTypes

/// The states that an `If-Match` or `If-None-Match` field names (RFC 9110 section 13.1): any state, or those with these entity tags.
package enum EntityTags: Equatable, Sendable {
    case any
    /// The tags as they were written, not checked.
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

extension HTTPFields {
    /// Reads the same value as the subscript, which goes through the fields in several layers and joins the values; nearly every field
    /// is there once or not.
    package func text(_ name: HTTPField.Name) -> String? {
        var found: String?
        for index in indices where self[index].name == name {
            guard found == nil else { return self[name] }
            found = self[index].value
        }
        return found
    }
}

extension HTTPField.Name {
    // `HTTPField.Name(_:)` gives nil for text that is no token (RFC 9110 section 5.6.2); these are tokens.
    package static let idempotencyKey = HTTPField.Name("Idempotency-Key")
    package static let idempotencyReplay = HTTPField.Name("Idempotency-Replay")
}
