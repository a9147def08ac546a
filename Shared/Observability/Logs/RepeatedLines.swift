import Logging
import Synchronization

/// Keeps the same fault from filling the log: a warning or an error is written once, again when its text changes, and every 30 s while it
/// lasts. A line says how often it was left out before.
///
/// A loop therefore reports each of its failures, and does not count them itself.
package final class RepeatedLines: Sendable {
    package static let interval: Duration = .seconds(30)
    /// How many times the line was left out since it was last written.
    package static let countKey = "repeated"
    private static let maximumKnown = 256
    /// Fields that vary while the fault is the same: how much waits, for how long, and on which of a program's connections.
    private static let varying: Set<String> = ["client", "count", "failures", "retry_ms", "unconfirmed", "unsettled"]

    private struct Line: Hashable {
        let level: Logger.Level
        let label: String
        let message: String
        let fields: [String: String]
    }

    private struct Known {
        var written: ContinuousClock.Instant
        var leftOut = 0
    }

    private let now: @Sendable () -> ContinuousClock.Instant
    private let known = Mutex<[Line: Known]>([:])

    package init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) { self.now = now }

    /// - Returns: nil if the line must be left out; else how often it was left out since it was last written.
    func admit(_ level: Logger.Level, label: String, message: String, fields: [String: String]) -> Int? {
        guard level == .warning || level == .error else { return 0 }
        let now = now()
        let line = Line(level: level, label: label, message: message, fields: fields.filter { !Self.varying.contains($0.key) })
        return known.withLock { known in
            if let earlier = known[line], now - earlier.written < Self.interval {
                known[line]?.leftOut += 1
                return nil
            }
            let leftOut = known.removeValue(forKey: line)?.leftOut ?? 0
            if known.count >= Self.maximumKnown { known = known.filter { now - $0.value.written < Self.interval } }
            // Beyond that many different lines at once, each is written.
            if known.count < Self.maximumKnown { known[line] = Known(written: now) }
            return leftOut
        }
    }
}
