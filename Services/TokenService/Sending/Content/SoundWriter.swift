import StrictJSON

/// The typed `sound`: a name, or a critical one. A notification has it beside its alert, a Live Activity inside.
struct SoundWriter {
    let source: [UInt8]

    /// - Parameter pointer: To the content.
    func write(_ sound: JSONValue, below pointer: String, _ problems: JSONProblems, to parent: inout JSONWriter) {
        guard sound.objectValue != nil else { return parent.field("sound", sound, source: source) }
        var reader = JSONObjectReader(sound, at: pointer + "/sound", problems: problems)
        parent.object("sound") { object in
            // The rules for the whole body refuse another value than 1.
            if let isCritical = reader.optionalBool("critical") { object.field("critical", isCritical ? 1 : 0) }
            for name in ["name", "volume"] {
                if let value = reader.optionalValue(name) { object.field(name, value, source: source) }
            }
        }
        reader.finish()
    }
}
