import StrictJSON

/// The place of a body in the request, so that a fault in Apple's terms is reported in the sender's own.
struct ContentPlace {
    enum Form {
        /// As Apple has it.
        case payload
        /// Our typed fields, from which the body was rendered.
        case content
    }

    let form: Form
    /// A JSON pointer to the payload or the content.
    let pointer: String

    /// - Parameter key: A custom key, one step of a JSON pointer already.
    func custom(_ key: String) -> String {
        switch form {
        case .payload: "\(pointer)/\(key)"
        case .content: "\(pointer)/custom/\(key)"
        }
    }

    /// - Parameter path: Apple's keys below `aps`, with slashes between them; empty for `aps` itself.
    func aps(_ path: String = "") -> String {
        switch form {
        case .payload: path.isEmpty ? "\(pointer)/aps" : "\(pointer)/aps/\(path)"
        case .content: path.isEmpty ? pointer : "\(pointer)/\(Self.fields[path] ?? path.replacing("-", with: "_"))"
        }
    }

    /// Live Activity fields that Apple keeps in other places than in a notification, which the typed fields hide.
    private static let fields = [
        "alert/title/loc-key": "alert/title_loc_key", "alert/title/loc-args": "alert/title_loc_args",
        "alert/body/loc-key": "alert/loc_key", "alert/body/loc-args": "alert/loc_args", "alert/sound": "sound",
        "alert/sound/critical": "sound/critical", "alert/sound/name": "sound/name", "alert/sound/volume": "sound/volume",
    ]
}
