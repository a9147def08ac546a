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
                writeTimes(&content, to: &aps)
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

    /// Fields that are Apple's keys with other separators.
    private func writePlain(_ content: inout JSONObjectReader, to aps: inout JSONWriter) {
        let names = [
            "category", "thread_id", "interruption_level", "relevance_score", "filter_criteria", "target_content_id", "event",
            "content_state", "attributes_type", "attributes", "input_push_channel",
        ]
        for name in names {
            if let value = content.optionalValue(name) { aps.field(name.hyphenated, value, source: source) }
        }
        for name in ["content_available", "mutable_content", "input_push_token"] where content.optionalBool(name) == true {
            aps.field(name.hyphenated, 1)
        }
        if content.optionalBool("content_changed") == true { aps.field("content-changed", true) }
    }

    /// Moments, which Apple has in UNIX seconds.
    private func writeTimes(_ content: inout JSONObjectReader, to aps: inout JSONWriter) {
        for name in ["timestamp", "stale_date", "dismissal_date"] {
            if let moment = content.moment(name) { aps.field(name.hyphenated, moment / 1000) }
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

extension String {
    /// Our name of a field as Apple has it.
    var hyphenated: String { replacing("_", with: "-") }
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
