import StrictJSON

/// The typed `alert`, as Apple defines it. In a Live Activity the localized texts and the sound have other places, which a sender need not
/// know.
struct AlertWriter {
    let source: [UInt8]
    let isActivity: Bool

    /// - Parameters:
    ///   - alert: An object, or a text.
    ///   - sound: That of a Live Activity.
    ///   - pointer: To the content.
    mutating func write(_ alert: JSONValue, sound: JSONValue?, below pointer: String, _ problems: JSONProblems, to aps: inout JSONWriter) {
        aps.object("alert") { object in
            if alert.objectValue == nil {
                object.field("body", alert, source: source)
            } else {
                var reader = JSONObjectReader(alert, at: pointer + "/alert", problems: problems)
                if isActivity { writeActivity(&reader, to: &object) } else { writeNotification(&reader, to: &object) }
                reader.finish()
            }
            if let sound { SoundWriter(source: source).write(sound, below: pointer, problems, to: &object) }
        }
    }

    private func writeNotification(_ alert: inout JSONObjectReader, to object: inout JSONWriter) {
        let names = [
            "title", "subtitle", "body", "launch_image", "title_loc_key", "title_loc_args", "subtitle_loc_key", "subtitle_loc_args",
            "loc_key", "loc_args",
        ]
        for name in names {
            if let value = alert.optionalValue(name) { object.field(name.hyphenated, value, source: source) }
        }
    }

    private func writeActivity(_ alert: inout JSONObjectReader, to object: inout JSONWriter) {
        for (name, key, arguments) in [("title", "title_loc_key", "title_loc_args"), ("body", "loc_key", "loc_args")] {
            let text = alert.optionalValue(name)
            let localized = alert.optionalValue(key)
            let values = alert.optionalValue(arguments)
            if text != nil, localized != nil || values != nil {
                alert.problem(localized == nil ? arguments : key, "conflict", "a Live Activity's \(name) is a text or localized, not both")
            } else if let text {
                object.field(name, text, source: source)
            } else if localized != nil || values != nil {
                object.object(name) { object in
                    if let localized { object.field("loc-key", localized, source: source) }
                    if let values { object.field("loc-args", values, source: source) }
                }
            }
        }
    }
}
