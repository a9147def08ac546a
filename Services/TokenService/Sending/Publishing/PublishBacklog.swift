package import PushModel
import Synchronization
package import TokenServiceKit

/// How many accepted notifications of each app and lane wait to be published. Measured in the database now and then; between measurements
/// this process adds its acceptances and subtracts its publications. What is due later does not count.
package final class PublishBacklog: Sendable {
    /// How many measurements in a row a service that is always busy discards; the next counts, although it may miss notifications that were
    /// being accepted meanwhile.
    private static let maximumDiscarded = 20
    /// How many times a measurement's duration passes until the next one, so that it costs a small share of the database's
    /// time whatever waits.
    private static let pauses = 10
    private static let shortestPause = Duration.seconds(1)

    private struct Count {
        var size = 0
        var beingAccepted = 0
        /// The number of the last change.
        var changedAt = 0
        var discarded = 0
    }

    private struct State {
        /// The counts that are not zero.
        var counts: [AppLane: Count] = [:]
        /// Grows with every change of a size.
        var changes = 0
        var isMeasuring = false
        var nextMeasurement: ContinuousClock.Instant?

        mutating func change(_ key: AppLane, _ body: (inout Count) -> Void) {
            changes += 1
            var count = counts[key] ?? Count()
            body(&count)
            count.changedAt = changes
            counts[key] = count.size == 0 && count.beingAccepted == 0 ? nil : count
        }
    }

    /// The most notifications that may wait for each app and lane.
    package let limit: Int
    private let state = Mutex(State())

    package init(limit: Int) { self.limit = limit }

    package func count(of lane: Lane) -> Int {
        state.withLock { state in state.counts.reduce(0) { $1.key.lane == lane ? $0 + $1.value.size : $0 } }
    }

    /// The apps and lanes in which something waits.
    var waiting: Set<AppLane> { state.withLock { Set($0.counts.keys) } }

    /// Follow it with ``endAcceptance(_:waits:)``.
    /// - Throws: ``BacklogFull`` at the limit.
    package func admit(_ key: AppLane) throws {
        try state.withLock { state in
            guard state.counts[key]?.size ?? 0 < limit else { throw BacklogFull(lane: key.lane) }
            state.change(key) { count in
                count.size += 1
                count.beingAccepted += 1
            }
        }
    }

    /// An admitted notification is committed, or will not be.
    /// - Parameter waits: Whether it waits to be published now.
    package func endAcceptance(_ key: AppLane, waits: Bool) {
        state.withLock { state in
            state.change(key) { count in
                count.beingAccepted -= 1
                if !waits { count.size = max(count.beingAccepted, count.size - 1) }
            }
        }
    }

    package func shrank(_ key: AppLane, by number: Int) {
        guard number > 0 else { return }
        state.withLock { state in state.change(key) { $0.size = max($0.beingAccepted, $0.size - number) } }
    }

    /// Follow it with ``endMeasuring(_:at:)``, whether the measurement succeeds or not.
    /// - Returns: when the measurement began; nil if one is under way, or if it is too early for another one.
    package func beginMeasuring(at now: ContinuousClock.Instant = .now) -> ContinuousClock.Instant? {
        state.withLock { state in
            if state.isMeasuring { return nil }
            if let next = state.nextMeasurement, now < next { return nil }
            state.isMeasuring = true
            return now
        }
    }

    package func endMeasuring(_ began: ContinuousClock.Instant, at now: ContinuousClock.Instant = .now) {
        state.withLock { state in
            state.isMeasuring = false
            state.nextMeasurement = now + max(Self.shortestPause, (now - began) * Self.pauses)
        }
    }

    /// The state before a count.
    package struct Moment {
        fileprivate let changes: Int
    }

    package var moment: Moment { state.withLock { Moment(changes: $0.changes) } }

    /// - Parameters:
    ///   - size: How many wait of this app and lane, as counted.
    ///   - moment: From before the rows were counted. Without it, a notification accepted during the count would count twice or not at all.
    package func measured(_ size: Int, of key: AppLane, since moment: Moment) {
        state.withLock { state in
            var count = state.counts[key] ?? Count()
            if count.beingAccepted == 0 && count.changedAt <= moment.changes || count.discarded >= Self.maximumDiscarded {
                count.size = size + count.beingAccepted
                count.discarded = 0
            } else {
                count.discarded += 1
            }
            state.counts[key] = count.size == 0 && count.beingAccepted == 0 ? nil : count
        }
    }
}

/// As many of the app's notifications wait in the lane as may.
package struct BacklogFull: ProblemError {
    package var lane: Lane

    package var problem: APIError {
        APIError(
            .backlogFull, "as many of this app's notifications wait for the message broker in the lane `\(lane.rawValue)` as may")
    }
}
