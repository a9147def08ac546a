import PushModel
import StrictJSON
import TokenServiceKit

/// Turns our typed fields into Apple's payload. It checks their form alone; ``PayloadRules`` checks the values of the result, so that there
/// is one set of rules for typed and raw bodies.
struct ContentRenderer {
    let source: [UInt8]
    /// UNIX milliseconds, for a Live Activity's `timestamp` if none is stated; nil if the request's time is wrong itself.
    let sendingTime: Int64?

    /// - Returns: nil if a field has the wrong form; the problems say which.
    func draft(of object: JSONObjectReader, locale: String?) -> ContentDraft? {
        var content = object
        let before = content.problems.list.count
        let isActivity = content.optionalValue("event") != nil
        let custom = customKeys(&content)
        let stamp = isActivity && content.optionalValue("timestamp") == nil ? sendingTime : nil
        var writer = JSONWriter()
        writer.object { payload in
            payload.object("aps") { aps in
                if let stamp { aps.field("timestamp", stamp / 1000) }
                writeVisible(&content, isActivity: isActivity, to: &aps)
                writePlain(&content, to: &aps)
            }
            for (key, value) in custom { payload.field(key, value, source: source) }
        }
        content.finish()
        guard content.problems.list.count == before, !content.problems.isFull else { return nil }
        do {
            let place = ContentPlace(form: .content, pointer: object.pointer)
            return ContentDraft(
                locale: locale, place: place, bytes: writer.bytes, value: try JSONValue.parse(writer.bytes), isStamped: stamp != nil)
        } catch {
            content.problems.add(JSONProblem(pointer: object.pointer, code: "malformed", detail: error.message))
            return nil
        }
    }

    private func writePlain(_ content: inout JSONObjectReader, to aps: inout JSONWriter) {
        for field in ContentField.rendered {
            switch field.kind.form {
            case .own: break
            case .value: if let value = content.optionalValue(field.name) { aps.field(field.key, value, source: source) }
            case .wake, .flag: if content.optionalBool(field.name) == true { aps.field(field.key, 1) }
            case .truth: if content.optionalBool(field.name) == true { aps.field(field.key, true) }
            case .seconds: if let moment = content.moment(field.name) { aps.field(field.key, moment / 1000) }
            }
        }
    }

    private func writeVisible(_ content: inout JSONObjectReader, isActivity: Bool, to aps: inout JSONWriter) {
        let alert = content.optionalValue("alert")
        let sound = content.optionalValue("sound")
        if let alert, alert.objectValue != nil || (isActivity && sound != nil) {
            var writer = AlertWriter(source: source, isActivity: isActivity)
            writer.write(alert, sound: isActivity ? sound : nil, below: content.pointer, content.problems, to: &aps)
        } else if let alert {
            aps.field("alert", alert, source: source)
        } else if isActivity, sound != nil {
            content.problem("sound", "not_allowed", "a Live Activity's sound needs an alert")
        }
        if let badge = content.optionalValue("badge") {
            // `3.0` is an integer of ours, but not known to be one of Apple's.
            if let whole = badge.wholeValue { aps.field("badge", whole) } else { aps.field("badge", badge, source: source) }
        }
        guard let sound, !isActivity else { return }
        SoundWriter(source: source).write(sound, below: content.pointer, content.problems, to: &aps)
    }

    /// They stand beside `aps`.
    private func customKeys(_ content: inout JSONObjectReader) -> [(key: String, value: JSONValue)] {
        guard let custom = content.optionalObject("custom") else { return [] }
        if custom.value["aps"] != nil { custom.problem("aps", "not_allowed", "aps is made of the other fields") }
        return custom.value.objectValue ?? []
    }
}

extension JSONWriter {
    /// A parsed value without blanks and needless escapes, its numbers digit by digit as they stood in `source`.
    mutating func field(_ name: String, _ value: JSONValue, source: [UInt8]) {
        self.name(name)
        self.value(value, source: source)
    }

    mutating func value(_ value: JSONValue, source: [UInt8]) {
        switch value.kind {
        case .integer, .number: raw(source[value.range])
        case .array(let elements):
            array { writer in
                for element in elements { writer.value(element, source: source) }
            }
        case .object(let members):
            object { writer in
                for (key, value) in members { writer.field(key, value, source: source) }
            }
        case .null, .bool, .string: self.value(value)
        }
    }
}

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
        for field in ContentField.alert where field.schema != nil {
            if let value = alert.optionalValue(field.name) { object.field(field.key, value, source: source) }
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
