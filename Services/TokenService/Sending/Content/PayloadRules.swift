import PushModel
import StrictJSON
import TokenServiceRegistry

/// Refuses content that APNs would refuse or silently drop, before it is sent (Apple, "Generating a remote notification"). Unknown keys
/// pass: Apple adds some.
struct PayloadRules {
    let type: PushType
    let maximumBytes: Int
    let place: ContentPlace
    let problems: JSONProblems

    /// Looks no further into a payload that is too large: a body has room for one of a mebibyte.
    /// - Parameters:
    ///   - payload: An object whose `aps`, if it has one, is an object.
    ///   - deviceReceipts: See ``JobTemplate/payload(ofJob:)``.
    func check(_ payload: JSONValue, bytes: Int, deviceReceipts: Bool) {
        let added = deviceReceipts ? JobTemplate.maximumJobNameBytes : 0
        if bytes + added > maximumBytes {
            let together = deviceReceipts ? "\(bytes) bytes, and \(added) for device_receipts" : "\(bytes) bytes"
            return problem(place.pointer, "too_large", "\(together); APNs takes \(maximumBytes) for push type \(type.rawValue)")
        }
        if deviceReceipts, payload[JobTemplate.jobNameKey] != nil {
            problem(place.custom(JobTemplate.jobNameKey), "not_allowed", "the platform's own key, with device_receipts")
        }
        for (key, value) in payload.objectValue ?? [] where key != "aps" {
            refuseNull(in: value, of: key)
        }
        if let aps = payload["aps"] { check(ContentField.checked, of: aps) }
        checkType(payload, aps: payload["aps"])
        refuseNulls(ofKeysIn: payload["aps"], below: "")
        refuseNulls(ofKeysIn: payload["aps"]?["alert"], below: "alert/")
    }

    /// Keys that no other rule looks at; a Live Activity's own objects may hold nulls, which its app decodes.
    /// - Parameter path: of the object, below `aps`.
    private func refuseNulls(ofKeysIn object: JSONValue?, below path: String) {
        for (key, value) in object?.objectValue ?? [] where value.isNull {
            let pointer = place.aps(path + String(pointerStep(key).dropFirst()))
            if !problems.list.contains(where: { $0.pointer == pointer }) { problem(pointer, "wrong_type", "may not be null") }
        }
    }

    /// A custom value is an object, an array, a string, a number or a boolean, at any depth (Apple, "Payload Key Reference"). One problem
    /// for each custom key: its first null.
    private func refuseNull(in value: JSONValue, of key: String) {
        guard let steps = Self.stepsToNull(in: value) else { return }
        let pointer = place.custom(String(pointerStep(key).dropFirst()))
        problem(pointer + steps.reversed().joined(), "wrong_type", "a custom value may not be null")
    }

    /// The way from `value` to the first null in it: the steps of a JSON pointer, the last step first. Nil if it holds none. It makes a
    /// step only for a null: a payload has thousands of values, and a key may be as long as the payload.
    private static func stepsToNull(in value: JSONValue) -> [String]? {
        switch value.kind {
        case .null: return []
        case .array(let elements):
            for (index, element) in elements.enumerated() {
                if let steps = stepsToNull(in: element) { return steps + ["/\(index)"] }
            }
        case .object(let members):
            for (key, member) in members {
                if let steps = stepsToNull(in: member) { return steps + [pointerStep(key)] }
            }
        case .bool, .integer, .number, .string: break
        }
        return nil
    }

    private func checkType(_ payload: JSONValue, aps: JSONValue?) {
        switch type {
        case .alert: checkAlert(aps)
        case .background: checkBackground(aps)
        case .liveactivity: checkLiveActivity(aps)
        case .controls, .widgets:
            if aps?["content-changed"]?.boolValue != true {
                problem(place.aps("content-changed"), "missing", "required to be true for push type \(type.rawValue)")
            }
        case .fileprovider: checkTopLevel("container-identifier", payload, aps)
        case .mdm: checkTopLevel("mdm", payload, aps)
        case .voip, .pushtotalk, .location, .complication: break
        }
    }

    /// A push without `aps` that works by one key.
    private func checkTopLevel(_ key: String, _ payload: JSONValue, _ aps: JSONValue?) {
        if aps != nil { problem(place.aps(), "not_allowed", "a push of type \(type.rawValue) has no aps: give it as payload") }
        if payload[key]?.stringValue == nil {
            problem(place.custom(key), "missing", "a string, required for push type \(type.rawValue)")
        }
    }

    private func checkAlert(_ aps: JSONValue?) {
        guard let aps else { return problem(place.aps(), "missing", "required for push type alert") }
        guard ["alert", "badge", "sound"].contains(where: { aps[$0] != nil }) else {
            return problem(place.aps(), "missing", "an alert, badge or sound is required for push type alert")
        }
        guard !hasText(aps["alert"]) else { return }
        if aps["mutable-content"]?.integerValue == 1 {
            problem(place.aps("mutable-content"), "not_allowed", "mutable-content needs an alert with a title, subtitle or body")
        } else if aps["badge"] == nil, aps["sound"].map({ $0.stringValue == "" }) ?? true {
            // An empty sound is none.
            if aps["alert"] == nil {
                problem(place.aps("sound"), "missing", "the name of a sound: with an empty one there is nothing to show, play or count")
            } else {
                problem(place.aps("alert"), "missing", "a title, subtitle or body, or its localization key")
            }
        }
    }

    /// Whether an alert has any text. A value of the wrong type has its own problem.
    func hasText(_ alert: JSONValue?) -> Bool {
        guard let alert else { return false }
        guard alert.objectValue != nil else { return alert.stringValue != "" }
        return ["title", "subtitle", "body", "title-loc-key", "subtitle-loc-key", "loc-key"].contains { key in
            guard let text = alert[key] else { return false }
            // A Live Activity's localized text is an object.
            if type == .liveactivity, text.objectValue != nil { return text["loc-key"].map { $0.stringValue != "" } ?? false }
            return text.stringValue != ""
        }
    }

    private func checkBackground(_ aps: JSONValue?) {
        guard aps?["content-available"]?.integerValue == 1 else {
            return problem(place.aps("content-available"), "missing", "required to be \(isTyped ? "true" : "1") for push type background")
        }
        for field in aps?.objectValue ?? [] where field.key != "content-available" {
            let step = String(pointerStep(field.key).dropFirst())
            problem(place.aps(step), "not_allowed", "a background push has content-available alone: nothing to see, hear or sort")
        }
    }

    var isTyped: Bool {
        switch place.form {
        case .payload: false
        case .content: true
        }
    }

    func problem(_ pointer: String, _ code: String, _ detail: String) {
        problems.add(JSONProblem(pointer: pointer, code: code, detail: detail))
    }
}

extension PayloadRules {
    /// UNIX seconds until the year 2286; the sender of a larger value meant milliseconds.
    private static let secondsBound = 10_000_000_000.0

    /// Apple, "Starting and updating Live Activities with ActivityKit push notifications".
    func checkLiveActivity(_ aps: JSONValue?) {
        guard let aps else { return problem(place.aps(), "missing", "required for push type liveactivity") }
        check(ContentField.checkedInActivity, of: aps)
        guard let event = aps["event"]?.stringValue.flatMap({ ActivityChange.Event(rawValue: $0) }) else {
            return problem(place.aps("event"), "unsupported_value", "one of start, update, end")
        }
        if aps["timestamp"] == nil { problem(place.aps("timestamp"), "missing", "required: UNIX seconds of the sending") }
        check(event, aps)
    }

    private func check(time: JSONValue, at key: String) {
        guard !(time.numberValue.map { (0..<Self.secondsBound).contains($0) } ?? false) else { return }
        // A typed value was a date and a time, or it would have been refused before.
        if isTyped {
            problem(place.aps(key), "out_of_range", "a date and time from 1970 to 2286")
        } else {
            problem(place.aps(key), "wrong_type", "expected UNIX seconds")
        }
    }

    private func check(_ event: ActivityChange.Event, _ aps: JSONValue) {
        if event == .start {
            // An empty alert is as good as none.
            if !hasText(aps["alert"]) {
                problem(place.aps("alert"), "missing", "a title or body, or its localization key: required to start a Live Activity")
            }
            if aps["attributes-type"] == nil {
                problem(place.aps("attributes-type"), "missing", "required to start a Live Activity")
            }
            if aps["attributes"] == nil { problem(place.aps("attributes"), "missing", "required to start a Live Activity") }
        } else {
            refuse(keysOf: .start, in: aps)
        }
        if event == .update, aps["content-state"] == nil {
            problem(place.aps("content-state"), "missing", "required to update a Live Activity")
        }
        if event != .end { refuse(keysOf: .end, in: aps) }
    }

    private func refuse(keysOf event: ActivityChange.Event, in aps: JSONValue) {
        for field in ContentField.all where field.event == event && aps[field.key] != nil {
            problem(place.aps(field.key), "not_allowed", "belongs to the event \(event.rawValue) alone")
        }
    }
}

extension PayloadRules {
    /// Checks the types and ranges of Apple's keys.
    /// - Parameter path: The place of `object` below `aps`, with a slash at its end.
    func check(_ fields: [ContentField], of object: JSONValue, below path: String = "") {
        for field in fields {
            guard let value = object[field.key] else { continue }
            if let expected = expectation(of: field.kind, unmetBy: value) {
                problem(place.aps(path + field.key), "wrong_type", "expected \(expected)")
                continue
            }
            switch field.kind {
            case .alert where value.objectValue != nil: check(alert: value)
            case .sound where value.objectValue != nil: check(sound: value, at: "sound")
            case .headline where value.objectValue != nil:
                expect(value, "loc-key", below: "alert/\(field.key)/", "a string") { $0.stringValue != nil }
                expect(value, "loc-args", below: "alert/\(field.key)/", "an array of strings", Self.isTexts)
            case .moment: check(time: value, at: field.key)
            case .typeName: check(typeName: value, at: field.key)
            case .channel where value.stringValue.flatMap({ ChannelID($0) }) == nil:
                problem(place.aps(field.key), "invalid_channel_id", "Apple's id of a channel, in base64")
            default: break
            }
        }
    }

    private func expectation(of kind: ContentField.Kind, unmetBy value: JSONValue) -> String? {
        switch kind {
        case .alert, .sound: value.stringValue != nil || value.objectValue != nil ? nil : "a string or an object"
        case .badge: (value.integerValue ?? -1) >= 0 ? nil : "a whole number from 0"
        // A Live Activity's localized text is an object.
        case .headline: value.stringValue != nil || type == .liveactivity && value.objectValue != nil ? nil : "a string"
        case .text, .typeName, .channel: value.stringValue != nil ? nil : "a string"
        case .wake, .flag: value.integerValue == 0 || value.integerValue == 1 ? nil : "0 or 1"
        case .one: value.integerValue == 1 ? nil : "1"
        case .texts: Self.isTexts(value) ? nil : "an array of strings"
        case .level:
            ["passive", "active", "time-sensitive", "critical"].contains(value.stringValue)
                ? nil : "passive, active, time-sensitive or critical"
        case .score:
            if type == .liveactivity {
                value.numberValue != nil ? nil : "a number"
            } else {
                value.numberValue.map { (0...1).contains($0) } ?? false ? nil : "a number from 0 to 1"
            }
        case .object: value.objectValue != nil ? nil : "an object"
        case .moment, .change, .other: nil
        }
    }

    /// The start goes to the tokens of that name.
    private func check(typeName: JSONValue, at key: String) {
        guard let name = typeName.stringValue, !Purpose.isName(name) else { return }
        let code = name.isEmpty ? "too_short" : name.utf8.count > Purpose.maximumNameBytes ? "too_long" : "invalid_character"
        problem(place.aps(key), code, Purpose.nameRule)
    }

    /// Apple, "Generating a remote notification", keys of `alert`.
    private func check(alert: JSONValue) {
        check(ContentField.checkedInAlert, of: alert, below: "alert/")
        expect(alert, "sound", below: "alert/", "a string or an object") { $0.stringValue != nil || $0.objectValue != nil }
        // In a notification's alert it has no effect.
        if type == .liveactivity, let sound = alert["sound"], sound.objectValue != nil { check(sound: sound, at: "alert/sound") }
    }

    /// Apple, "Generating a remote notification", keys of a critical `sound`.
    private func check(sound: JSONValue, at path: String) {
        let critical = sound["critical"]
        if critical?.integerValue != 1 {
            problem(
                place.aps("\(path)/critical"), critical == nil ? "missing" : "unsupported_value",
                "\(isTyped ? "true" : "1"): a sound that is an object is a critical one; any other sound is a string, its name")
        }
        if sound["name"]?.stringValue.map(\.isEmpty) ?? true {
            problem(place.aps("\(path)/name"), "missing", "a string: a file of the app, or default")
        }
        expect(sound, "volume", below: "\(path)/", "a number from 0 to 1") { $0.numberValue.map { (0...1).contains($0) } ?? false }
    }

    private static func isTexts(_ value: JSONValue) -> Bool { value.arrayValue?.allSatisfy { $0.stringValue != nil } ?? false }

    /// - Parameter path: The place of `object` below `aps`, with a slash at its end.
    func expect(_ object: JSONValue, _ key: String, below path: String, _ what: String, _ isRight: (JSONValue) -> Bool) {
        if let value = object[key], !isRight(value) { problem(place.aps(path + key), "wrong_type", "expected \(what)") }
    }
}

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
