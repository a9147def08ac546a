import PushModel
import StrictJSON

extension PayloadRules {
    /// The types and ranges of Apple's keys, for every push type.
    func checkValues(of aps: JSONValue) {
        expect(aps, "alert", "a string or an object") { $0.stringValue != nil || $0.objectValue != nil }
        if let alert = aps["alert"], alert.objectValue != nil { check(alert: alert) }
        expect(aps, "badge", "a whole number from 0") { ($0.integerValue ?? -1) >= 0 }
        expect(aps, "sound", "a string or an object") { $0.stringValue != nil || $0.objectValue != nil }
        if let sound = aps["sound"], sound.objectValue != nil { check(sound: sound, at: "sound") }
        for key in ["thread-id", "category", "target-content-id", "filter-criteria"] {
            expect(aps, key, "a string") { $0.stringValue != nil }
        }
        for key in ["content-available", "mutable-content"] {
            expect(aps, key, "0 or 1") { $0.integerValue == 0 || $0.integerValue == 1 }
        }
        expect(aps, "url-args", "an array of strings", Self.isTexts)
        expect(aps, "interruption-level", "passive, active, time-sensitive or critical") {
            ["passive", "active", "time-sensitive", "critical"].contains($0.stringValue)
        }
        expect(aps, "relevance-score", type == .liveactivity ? "a number" : "a number from 0 to 1") {
            guard let score = $0.numberValue else { return false }
            return type == .liveactivity || (0...1).contains(score)
        }
    }

    /// Apple, "Generating a remote notification", keys of `alert`.
    private func check(alert: JSONValue) {
        for key in ["title", "body"] {
            if type == .liveactivity, let text = alert[key], text.objectValue != nil {
                expect(text, "loc-key", below: "alert/\(key)/", "a string") { $0.stringValue != nil }
                expect(text, "loc-args", below: "alert/\(key)/", "an array of strings", Self.isTexts)
            } else {
                expect(alert, key, below: "alert/", "a string") { $0.stringValue != nil }
            }
        }
        for key in ["subtitle", "launch-image", "title-loc-key", "subtitle-loc-key", "loc-key"] {
            expect(alert, key, below: "alert/", "a string") { $0.stringValue != nil }
        }
        for key in ["title-loc-args", "subtitle-loc-args", "loc-args"] {
            expect(alert, key, below: "alert/", "an array of strings", Self.isTexts)
        }
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
    func expect(_ object: JSONValue, _ key: String, below path: String = "", _ what: String, _ isRight: (JSONValue) -> Bool) {
        if let value = object[key], !isRight(value) { problem(place.aps(path + key), "wrong_type", "expected \(what)") }
    }
}
