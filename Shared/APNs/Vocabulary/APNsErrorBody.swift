import PushModel
import StrictJSON

/// The JSON of an error answer, or of a GOAWAY's debug data: `{"reason":…,"timestamp":…}` (Apple: Handling notification responses from
/// APNs).
///
/// A field that is missing, malformed or of another type is nil: the status decides then. Unknown fields are passed over.
struct APNsErrorBody: Equatable {
    /// The longest body that is kept. Apple's are below a hundred bytes.
    static let maximumBytes = 4096

    /// Made harmless (``OutsideText``), because outcome messages, logs and the database hold it.
    let reason: String?
    /// The timestamp of a 410, in milliseconds.
    let timestamp: Int64?

    init(_ bytes: [UInt8]) {
        guard !bytes.isEmpty, bytes.count <= Self.maximumBytes, let value = Self.parse(bytes) else {
            (reason, timestamp) = (nil, nil)
            return
        }
        reason = value["reason"]?.stringValue.flatMap { OutsideText.harmless($0) }
        timestamp = value["timestamp"].flatMap(Self.milliseconds)
    }

    /// A body that is not JSON is an answer without a reason, not an error of ours.
    private static func parse(_ bytes: [UInt8]) -> JSONValue? {
        do { return try JSONValue.parse(bytes, maximumDepth: 8, maximumBytes: maximumBytes) } catch { return nil }
    }

    private static func milliseconds(_ value: JSONValue) -> Int64? {
        let number =
            value.integerValue ?? value.numberValue.flatMap { Int64(exactly: $0.rounded()) } ?? value.stringValue.flatMap { Int64($0) }
        return number.flatMap { $0 > 0 ? $0 : nil }
    }
}
