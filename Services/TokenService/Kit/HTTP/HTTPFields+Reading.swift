package import HTTPTypes

extension HTTPFields {
    /// The same value as the subscript's. The subscript goes through the fields in several layers and joins the values; nearly every field
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
