import StrictJSON
import SystemIO

/// The parts of a payload that a device reads (Apple: Generating a remote notification). Shared by every push that carries the same bytes.
package struct DeviceContent: Sendable, Equatable {
    package var title: String?
    package var subtitle: String?
    package var body: String?
    package var badge: Int64?
    package var sound: String?
    package var category: String?
    package var threadID: String?
    package var interruptionLevel: String?
    /// The state in a Live Activity's push.
    package var activity: ActivityState?
    /// The alert has a title or a body.
    var hasAlertText: Bool { title?.isEmpty == false || body?.isEmpty == false }
    /// `aps` has an alert, a badge or a sound: a user notices it.
    package var isVisible = false
    /// The payload's keys beside `aps`, as a JSON object; nil if there are none.
    package var custom: [UInt8]?
    /// The payload's own key `marker`, if it is a number: a test finds the send request of an arrival by it.
    package var marker: Int64?

    /// - Returns: nil if the bytes are not a JSON object.
    init?(payload: [UInt8]) {
        let root: JSONValue
        do {
            root = try JSONValue.parse(payload)
        } catch {
            return nil
        }
        guard let members = root.objectValue else { return nil }
        marker = root["marker"]?.integerValue
        custom = Self.object(of: members.filter { $0.key != "aps" }.map { ($0.key, payload[$0.value.range]) })
        guard let aps = root["aps"] else { return }
        readAlert(aps["alert"])
        badge = aps["badge"]?.integerValue
        // A critical alert's sound is an object with a name. A Live Activity's sound stands in its alert.
        sound = aps["sound"]?.stringValue ?? aps["sound"]?["name"]?.stringValue ?? sound
        category = aps["category"]?.stringValue
        threadID = aps["thread-id"]?.stringValue
        interruptionLevel = aps["interruption-level"]?.stringValue
        activity = ActivityState(aps, in: payload)
        isVisible = aps["alert"] != nil || aps["badge"] != nil || aps["sound"] != nil
    }

    /// A plain string is the body; localised texts show their key, since the simulator has no app to translate them.
    private static func object(of members: [(name: String, value: ArraySlice<UInt8>)]) -> [UInt8]? {
        guard !members.isEmpty else { return nil }
        var writer = JSONWriter()
        writer.object { object in
            for member in members { object.field(member.name, raw: Array(member.value)) }
        }
        return writer.bytes
    }

    private mutating func readAlert(_ alert: JSONValue?) {
        guard let alert else { return }
        if let text = alert.stringValue {
            body = text
            return
        }
        title = text(alert, "title") ?? alert["title-loc-key"]?.stringValue
        subtitle = alert["subtitle"]?.stringValue ?? alert["subtitle-loc-key"]?.stringValue
        body = text(alert, "body") ?? alert["loc-key"]?.stringValue
        sound = alert["sound"]?.stringValue
    }

    /// Reads a text of the alert. In a Live Activity's alert the text may be an object with a key.
    private func text(_ alert: JSONValue, _ key: String) -> String? {
        alert[key]?.stringValue ?? alert[key]?["loc-key"]?.stringValue
    }
}

/// Reads payloads and remembers the last one, because neighbours on a connection mostly carry the same bytes.
struct PayloadReader {
    /// Boxed, so that a thousand inboxes share one.
    final class Reading: Sendable {
        let content: DeviceContent?
        /// The payload is a JSON object. Read for every push, and cheaper than a copy of its content.
        let isObject: Bool
        /// Read for every push, as above.
        let marker: Int64?

        init(_ content: DeviceContent?) {
            self.content = content
            isObject = content != nil
            marker = content?.marker
        }
    }

    private var payload: [UInt8] = []
    private var reading = Reading(nil)

    mutating func read(_ payload: [UInt8]) -> Reading {
        if !payload.isSame(as: self.payload) {
            reading = Reading(DeviceContent(payload: payload))
            self.payload = payload
        }
        return reading
    }
}
