import PushModel
package import StrictJSON
package import TokenServiceApps
package import TokenServiceRegistry

extension Registration {
    /// Reads a registration that names its installation itself, as `id`, and may state the backend's tags.
    /// - Returns: nil where something is missing or wrong; the reader's problems say what.
    package init?(bulkItem object: inout JSONObjectReader, app: App) {
        let id = object.string("id", maximumBytes: 36).flatMap { text in
            let id = PushID(text)
            if id == nil { object.problem("id", "invalid_id", "must be a UUID") }
            return id
        }
        let tags = object.tags()
        // Reads on without an id, so that the client gets all faults at once.
        self.init(
            fieldsOf: &object, installation: id ?? PushID(high: 0, low: 0), app: app, maximumTokens: RegisteredToken.maximumExported)
        self.tags = tags
        isListed = true
    }
}

extension PushID {
    /// The id that an object states, where it is one.
    init?(stated object: JSONValue) {
        guard let id = object["id"]?.stringValue.flatMap({ PushID($0) }) else { return nil }
        self = id
    }
}
