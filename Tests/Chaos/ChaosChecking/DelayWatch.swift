import ChaosLedger
import PushModel

/// The notifications that waited while a queue or a stream's replica stood still on which they do not depend.
///
/// ``StandstillWatch`` does not see them: other processes and other lanes go on. Whatever needs the queue waits for it, so its wait counts
/// from the end of the fault on.
struct DelayWatch {
    /// The smallest number of notifications, because a single one may have its own reason.
    private static let enough = 3
    /// A push to a device waits without an attempt for about as long after APNs' 429.
    private static let throttling: Int64 = 60_000_000

    struct Wait {
        let request: Int64
        let from: Int64
        let lasted: Int64
    }

    /// The notifications that one fault delayed.
    struct Delay {
        let fault: FaultTimeline.Fault
        let longest: Wait
        /// Of those that waited longer than the limit.
        let count: Int
        var isTooLong: Bool { count >= DelayWatch.enough }
    }

    private struct Window {
        let fault: FaultTimeline.Fault
        /// The next fault may delay what waits.
        let end: Int64
        /// The longest wait of each notification, by marker.
        var waits: [Int64: Wait] = [:]
    }

    private var windows: [Window] = []
    /// When APNs throttled a token last.
    private var throttled: [Int32: Int64] = [:]

    init(_ faults: FaultTimeline) {
        windows = faults.all.filter(\.isPartial).map { fault in
            Window(fault: fault, end: faults.all.first { $0.began > fault.began }?.began ?? .max)
        }
    }

    mutating func noteThrottling(_ push: Push, _ token: Int32) {
        if !windows.isEmpty, push.fate == .refused(429) { throttled[token] = push.time }
    }

    /// The first push of a delivery.
    /// - Parameter since: From when on it could have been sent, but for the fault.
    mutating func note(_ send: SendBook.Send, since: Int64, _ push: Push, _ token: Int32) {
        for index in windows.indices where since <= windows[index].fault.ended && push.time > windows[index].fault.began {
            let fault = windows[index].fault
            // The lane of a notification is unknown if no answer named it.
            let needsIt = fault.lane != nil && (send.lane == nil || send.lane == fault.lane)
            let from = max(since, needsIt ? fault.ended : fault.began)
            let lasted = min(push.time, windows[index].end) - from
            guard lasted > windows[index].waits[send.marker]?.lasted ?? 0, throttled[token] ?? .min < since - Self.throttling else {
                continue
            }
            windows[index].waits[send.marker] = Wait(request: send.request, from: from, lasted: lasted)
        }
    }

    func delays(longerThan limit: Int64) -> [Delay] {
        windows.compactMap { window in
            guard let longest = window.waits.values.max(by: { $0.lasted < $1.lasted }) else { return nil }
            return Delay(fault: window.fault, longest: longest, count: window.waits.values.count { $0.lasted > limit })
        }
    }
}
