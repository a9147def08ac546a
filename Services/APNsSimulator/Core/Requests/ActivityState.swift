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

    /// - Returns: nil unless `aps` has an event that ActivityKit knows.
    init?(_ aps: JSONValue, in payload: [UInt8]) {
        guard let event = aps["event"]?.stringValue.flatMap({ Event(rawValue: $0) }) else { return nil }
        self.event = event
        timestamp = aps["timestamp"]?.integerValue ?? 0
        contentState = aps["content-state"].map { String(decoding: payload[$0.range], as: UTF8.self) }
        staleDate = aps["stale-date"]?.integerValue
        dismissalDate = aps["dismissal-date"]?.integerValue
    }

    /// An ended activity stays for at most four hours.
    private static let longestGoodbye: Int64 = 4 * 3_600_000

    /// When it leaves the lock screen, UNIX milliseconds; nil while it goes on.
    func dismissAt(now: Int64) -> Int64? {
        guard event == .end else { return nil }
        let latest = now + Self.longestGoodbye
        return dismissalDate.map { min(unixMilliseconds($0), latest) } ?? latest
    }
}

/// A moment in seconds as milliseconds; too large a number is the latest possible moment.
func unixMilliseconds(_ seconds: Int64) -> Int64 {
    let (milliseconds, isTooLarge) = seconds.multipliedReportingOverflow(by: 1000)
    return isTooLarge ? (seconds < 0 ? .min : .max) : milliseconds
}
