import PushModel
import StrictJSON

extension PayloadRules {
    /// UNIX seconds until the year 2286; the sender of a larger value meant milliseconds.
    private static let secondsBound = 10_000_000_000.0

    /// Apple, "Starting and updating Live Activities with ActivityKit push notifications".
    func checkLiveActivity(_ aps: JSONValue?) {
        guard let aps else { return problem(place.aps(), "missing", "required for push type liveactivity") }
        for key in ["timestamp", "stale-date", "dismissal-date"] { checkTime(aps[key], key) }
        expect(aps, "content-state", "an object") { $0.objectValue != nil }
        expect(aps, "attributes", "an object") { $0.objectValue != nil }
        expect(aps, "attributes-type", "a string") { $0.stringValue != nil }
        // The start goes to the tokens of that name.
        if let name = aps["attributes-type"]?.stringValue, !Purpose.isName(name) {
            let code = name.isEmpty ? "too_short" : name.utf8.count > Purpose.maximumNameBytes ? "too_long" : "invalid_character"
            problem(place.aps("attributes-type"), code, Purpose.nameRule)
        }
        expect(aps, "input-push-token", "1") { $0.integerValue == 1 }
        expect(aps, "input-push-channel", "a string") { $0.stringValue != nil }
        if let channel = aps["input-push-channel"]?.stringValue, ChannelID(channel) == nil {
            problem(place.aps("input-push-channel"), "invalid_channel_id", "Apple's id of a channel, in base64")
        }
        guard let event = aps["event"]?.stringValue, ["start", "update", "end"].contains(event) else {
            return problem(place.aps("event"), "unsupported_value", "one of start, update, end")
        }
        if aps["timestamp"] == nil { problem(place.aps("timestamp"), "missing", "required: UNIX seconds of the sending") }
        check(event, aps)
    }

    private func checkTime(_ time: JSONValue?, _ key: String) {
        guard let time, !(time.numberValue.map { (0..<Self.secondsBound).contains($0) } ?? false) else { return }
        // A typed value was a date and a time, or it would have been refused before.
        if isTyped {
            problem(place.aps(key), "out_of_range", "a date and time from 1970 to 2286")
        } else {
            problem(place.aps(key), "wrong_type", "expected UNIX seconds")
        }
    }

    private func check(_ event: String, _ aps: JSONValue) {
        let ofStart = ["attributes-type", "attributes", "input-push-token", "input-push-channel"]
        if event == "start" {
            // An empty alert is as good as none.
            if !hasText(aps["alert"]) {
                problem(place.aps("alert"), "missing", "a title or body, or its localization key: required to start a Live Activity")
            }
            if aps["attributes-type"] == nil {
                problem(place.aps("attributes-type"), "missing", "required to start a Live Activity")
            }
            if aps["attributes"] == nil { problem(place.aps("attributes"), "missing", "required to start a Live Activity") }
        } else {
            for key in ofStart where aps[key] != nil {
                problem(place.aps(key), "not_allowed", "belongs to the event start alone")
            }
        }
        if event == "update", aps["content-state"] == nil {
            problem(place.aps("content-state"), "missing", "required to update a Live Activity")
        }
        if event != "end", aps["dismissal-date"] != nil {
            problem(place.aps("dismissal-date"), "not_allowed", "belongs to the event end alone")
        }
    }
}
