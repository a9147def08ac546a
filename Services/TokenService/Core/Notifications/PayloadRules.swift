import PushModel
import StrictJSON

/// What APNs would refuse or silently drop, refused before it is sent (APNS.md 2.1, 2.2 and 3.1). Unknown keys pass: Apple adds some.
struct PayloadRules {
    let type: PushType
    let problems: JSONProblems

    func check(_ payload: JSONValue) {
        guard payload.objectValue != nil else {
            return problem("", "wrong_type", "expected an object, found \(payload.typeName)")
        }
        if payload.range.count > type.maximumPayloadBytes {
            problem("", "too_large", "\(payload.range.count) bytes; APNs takes \(type.maximumPayloadBytes) for push type \(type.rawValue)")
        }
        if let aps = payload["aps"], aps.objectValue == nil {
            return problem("/aps", "wrong_type", "expected an object, found \(aps.typeName)")
        }
        checkValues(of: payload["aps"])
        checkType(payload, aps: payload["aps"])
    }

    private func checkType(_ payload: JSONValue, aps: JSONValue?) {
        switch type {
        case .alert: checkAlert(aps)
        case .background: checkBackground(aps)
        case .liveactivity: checkLiveActivity(aps)
        case .controls, .widgets:
            if aps?["content-changed"]?.boolValue != true {
                problem("/aps/content-changed", "missing", "required to be true for push type \(type.rawValue)")
            }
        case .fileprovider:
            if aps != nil { problem("/aps", "not_allowed", "a fileprovider push has no aps") }
            if payload["container-identifier"]?.stringValue == nil {
                problem("/container-identifier", "missing", "required for push type fileprovider")
            }
        case .mdm:
            if aps != nil { problem("/aps", "not_allowed", "an mdm push has no aps") }
            if payload["mdm"]?.stringValue == nil { problem("/mdm", "missing", "required for push type mdm") }
        case .voip, .pushtotalk, .location, .complication: break
        }
    }

    private func checkAlert(_ aps: JSONValue?) {
        guard let aps else { return problem("/aps", "missing", "required for push type alert") }
        guard ["alert", "badge", "sound"].contains(where: { aps[$0] != nil }) else {
            return problem("/aps", "missing", "an alert, badge or sound is required for push type alert")
        }
        if aps["mutable-content"]?.integerValue == 1, aps["alert"] == nil {
            problem("/aps/mutable-content", "not_allowed", "mutable-content needs an alert")
        }
    }

    private func checkBackground(_ aps: JSONValue?) {
        guard aps?["content-available"]?.integerValue == 1 else {
            return problem("/aps/content-available", "missing", "required to be 1 for push type background")
        }
        for field in aps?.objectValue ?? [] where field.key != "content-available" {
            problem("/aps" + step(field.key), "not_allowed", "a background push's aps holds content-available alone")
        }
    }

    private func checkLiveActivity(_ aps: JSONValue?) {
        guard let aps else { return problem("/aps", "missing", "required for push type liveactivity") }
        guard let event = aps["event"]?.stringValue, ["start", "update", "end"].contains(event) else {
            return problem("/aps/event", "unsupported_value", "one of start, update, end")
        }
        if aps["timestamp"]?.numberValue == nil { problem("/aps/timestamp", "missing", "required: UNIX seconds of the sending") }
        guard event == "start" else { return }
        for key in ["alert", "attributes-type", "attributes"] where aps[key] == nil {
            problem("/aps/\(key)", "missing", "required to start a Live Activity")
        }
    }

    private func checkValues(of aps: JSONValue?) {
        guard let aps else { return }
        expect(aps, "alert", "a string or an object") { $0.stringValue != nil || $0.objectValue != nil }
        expect(aps, "badge", "a whole number from 0") { ($0.integerValue ?? -1) >= 0 }
        expect(aps, "sound", "a string or an object") { $0.stringValue != nil || $0.objectValue != nil }
        for key in ["thread-id", "category", "target-content-id", "filter-criteria"] {
            expect(aps, key, "a string") { $0.stringValue != nil }
        }
        for key in ["content-available", "mutable-content"] {
            expect(aps, key, "0 or 1") { $0.integerValue == 0 || $0.integerValue == 1 }
        }
        expect(aps, "interruption-level", "passive, active, time-sensitive or critical") {
            ["passive", "active", "time-sensitive", "critical"].contains($0.stringValue)
        }
        expect(aps, "relevance-score", type == .liveactivity ? "a number" : "a number from 0 to 1") {
            guard let score = $0.numberValue else { return false }
            return type == .liveactivity || (0...1).contains(score)
        }
    }

    private func expect(_ aps: JSONValue, _ key: String, _ what: String, _ isRight: (JSONValue) -> Bool) {
        if let value = aps[key], !isRight(value) { problem("/aps/\(key)", "wrong_type", "expected \(what)") }
    }

    private func problem(_ pointer: String, _ code: String, _ detail: String) {
        problems.add(JSONProblem(pointer: "/payload" + pointer, code: code, detail: detail))
    }

    /// A key as one step of a JSON pointer (RFC 6901 section 3).
    private func step(_ key: String) -> String {
        "/" + String(key.flatMap { $0 == "~" ? "~0" : $0 == "/" ? "~1" : String($0) })
    }
}
