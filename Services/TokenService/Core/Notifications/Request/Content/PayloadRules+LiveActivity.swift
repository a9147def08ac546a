import StrictJSON

extension PayloadRules {
    /// UNIX seconds until the year 2286; what is larger was meant in milliseconds.
    private static let secondsBound = 10_000_000_000.0

    /// APNS.md 3.1, *Live Activity rules*.
    func checkLiveActivity(_ aps: JSONValue?) {
        guard let aps else { return problem(place.aps(), "missing", "required for push type liveactivity") }
        for key in ["timestamp", "stale-date", "dismissal-date"] {
            expect(aps, key, "UNIX seconds") { ($0.numberValue).map { (0..<Self.secondsBound).contains($0) } ?? false }
        }
        expect(aps, "content-state", "an object") { $0.objectValue != nil }
        expect(aps, "attributes", "an object") { $0.objectValue != nil }
        expect(aps, "attributes-type", "a string") { $0.stringValue != nil }
        expect(aps, "input-push-token", "1") { $0.integerValue == 1 }
        expect(aps, "input-push-channel", "a string") { $0.stringValue != nil }
        guard let event = aps["event"]?.stringValue, ["start", "update", "end"].contains(event) else {
            return problem(place.aps("event"), "unsupported_value", "one of start, update, end")
        }
        if aps["timestamp"] == nil { problem(place.aps("timestamp"), "missing", "required: UNIX seconds of the sending") }
        check(event, aps)
    }

    private func check(_ event: String, _ aps: JSONValue) {
        let ofStart = ["attributes-type", "attributes", "input-push-token", "input-push-channel"]
        if event == "start" {
            for key in ["alert", "attributes-type", "attributes"] where aps[key] == nil {
                problem(place.aps(key), "missing", "required to start a Live Activity")
            }
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
