import StrictJSON

/// The content of a Live Activity's push (Apple: Starting and updating Live Activities with ActivityKit push notifications).
package struct ActivityState: Sendable, Equatable {
    package enum Event: String, Sendable {
        case start, update, end
    }

    package let event: Event
    /// UNIX seconds: a device shows the newest state.
    package let timestamp: Int64
    /// `content-state`, verbatim JSON.
    package let contentState: String?
    /// UNIX seconds.
    package let staleDate: Int64?
    /// UNIX seconds.
    package let dismissalDate: Int64?
    /// The type of the attributes of a start.
    package let attributesType: String?
    /// The attributes of a start: a JSON object, verbatim.
    package let attributes: String?
    /// The member `id` of the attributes, by which app and backend may name the activity.
    package let activityID: String?
    /// The broadcast channel that the activity of a start follows.
    package let inputPushChannel: String?

    /// - Returns: nil unless `aps` has an event that ActivityKit knows.
    init?(_ aps: JSONValue, in payload: [UInt8]) {
        guard let event = aps["event"]?.stringValue.flatMap({ Event(rawValue: $0) }) else { return nil }
        self.event = event
        timestamp = aps["timestamp"]?.integerValue ?? 0
        contentState = aps["content-state"].map { String(decoding: payload[$0.range], as: UTF8.self) }
        staleDate = aps["stale-date"]?.integerValue
        dismissalDate = aps["dismissal-date"]?.integerValue
        attributesType = aps["attributes-type"]?.stringValue
        let object = aps["attributes"].flatMap { $0.objectValue == nil ? nil : $0 }
        attributes = object.map { String(decoding: payload[$0.range], as: UTF8.self) }
        let id = object?["id"]
        activityID = (id?.stringValue ?? id?.integerValue.map { String($0) }).flatMap { Self.isID($0) ? $0 : nil }
        inputPushChannel = aps["input-push-channel"]?.stringValue
    }

    /// The state that an app starts an activity with.
    /// - Parameter timestamp: UNIX seconds.
    init(startedLocally contentState: String?, timestamp: Int64) {
        event = .start
        self.timestamp = timestamp
        self.contentState = contentState
        (staleDate, dismissalDate) = (nil, nil)
        (attributesType, attributes, activityID, inputPushChannel) = (nil, nil, nil, nil)
    }

    static let maximumIDBytes = 128

    /// Any text that can stand in a path: 1 to 128 bytes without control characters.
    static func isID(_ text: String) -> Bool {
        (1...maximumIDBytes).contains(text.utf8.count) && !text.unicodeScalars.contains { $0.properties.generalCategory == .control }
    }
}

/// A moment in seconds as milliseconds; too large a number is the latest possible moment.
func unixMilliseconds(_ seconds: Int64) -> Int64 {
    let (milliseconds, isTooLarge) = seconds.multipliedReportingOverflow(by: 1000)
    return isTooLarge ? (seconds < 0 ? .min : .max) : milliseconds
}
