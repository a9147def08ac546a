import PushModel
import StrictJSON

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
    ///   - namesJob: See ``JobTemplate/payload(ofJob:)``.
    func check(_ payload: JSONValue, bytes: Int, namesJob: Bool) {
        let added = namesJob ? JobTemplate.maximumJobNameBytes : 0
        if bytes + added > maximumBytes {
            let together = namesJob ? "\(bytes) bytes, and \(added) for device_receipts" : "\(bytes) bytes"
            return problem(place.pointer, "too_large", "\(together); APNs takes \(maximumBytes) for push type \(type.rawValue)")
        }
        if namesJob, payload[JobTemplate.jobNameKey] != nil {
            problem(place.custom(JobTemplate.jobNameKey), "not_allowed", "the platform's own key, with device_receipts")
        }
        for (key, value) in payload.objectValue ?? [] where key != "aps" {
            refuseNull(in: value, of: key)
        }
        if let aps = payload["aps"] { checkValues(of: aps) }
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
