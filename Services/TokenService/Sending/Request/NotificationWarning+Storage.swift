import StrictJSON

/// The form in which an idempotency record keeps the warnings of an answer, so that a repeat gives the first answer.
extension NotificationWarning {
    static func stored(_ warnings: [NotificationWarning]) -> String {
        var writer = JSONWriter()
        writer.array { array in
            for warning in warnings {
                array.object { object in
                    object.field("pointer", warning.pointer)
                    object.field("code", warning.code.rawValue)
                }
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    static func restored(_ text: String) throws -> [NotificationWarning] {
        return (try JSONValue.parse(Array(text.utf8)).arrayValue ?? []).compactMap { stored in
            // A newer release may know other codes.
            guard let code = stored["code"]?.stringValue.flatMap({ Code(rawValue: $0) }), let pointer = stored["pointer"]?.stringValue
            else {
                return nil
            }
            return NotificationWarning(code, at: pointer)
        }
    }
}
