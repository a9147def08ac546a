package import Postgres
package import PushModel
import Synchronization

/// The moment below which no row of a kind waits: a statement that looks for waiting rows begins there.
///
/// A row that waits no longer leaves a dead entry in the index of the waiting ones. While a snapshot is open (a backup, a forgotten session, a
/// query on a standby with feedback), PostgreSQL keeps all of these entries, and reading past a million of them costs 0.2 s.
///
/// A row's moment is never before the begin of the transaction that writes it. A transaction writes within ``margin`` or not at all, and from
/// then on ``clock`` knows it until it has ended, however long its COMMIT waits for a standby. So whatever is committed after a search lies
/// above the search's own moment less the margin. What a clock that jumped, or a server that stood still, has left below is found by the
/// searches from the very beginning, one in ``renewal``. Moments are the database's, in UNIX milliseconds.
package final class LowWater<Key: Hashable & Sendable>: Sendable {
    /// Transactions write within 30 s (``NotificationIntake``); the rest is for a new primary whose clock is behind.
    static var margin: Int64 { 60_000 }
    private static var renewal: Duration { .seconds(600) }

    package struct Marks: Sendable {
        /// Of every key without an exception.
        package fileprivate(set) var floor: Int64 = 0
        /// Keys with a row that has waited for longer.
        package fileprivate(set) var exceptions: [Key: Int64] = [:]

        package init() {}

        package subscript(_ key: Key) -> Int64 { exceptions[key] ?? floor }

        /// No row of any key waits below it.
        var lowest: Int64 { exceptions.values.min().map { min($0, floor) } ?? floor }
    }

    private let state = Mutex(Marks())
    private let renewed = Mutex(ContinuousClock.now)

    package init() {}

    package var marks: Marks { state.withLock { $0 } }

    /// For the next search: now and then from the very beginning. If that takes too long, the search after it begins at the marks again.
    func marksForSearch(at now: ContinuousClock.Instant = .now) -> Marks {
        let isWhole = renewed.withLock { renewed in
            guard renewed + Self.renewal < now else { return false }
            renewed = now
            return true
        }
        return isWhole ? Marks() : marks
    }

    /// - Parameters:
    ///   - oldest: The oldest waiting row of each key that has one, as far as it had become free.
    ///   - now: Of ``clock``, before the search.
    package func found(_ oldest: [Key: Int64], at now: Int64) {
        state.withLock { state in
            state.floor = now - Self.margin
            state.exceptions = oldest.filter { $0.value < state.floor }
        }
    }

    /// What another process knew.
    func begin(at lowest: Int64) {
        state.withLock { state in
            state.floor = lowest
            state.exceptions = [:]
        }
    }
}

extension LowWater {
    /// The column `now`: the database's clock, or the begin of the oldest transaction that has written and not ended. A session sees those of
    /// its own role.
    package static var clock: PostgresQuery {
        """
        SELECT least(clock_timestamp(), min(xact_start)) AS now FROM pg_stat_activity
        WHERE datname = current_database() AND backend_xid IS NOT NULL AND pid <> pg_backend_pid()
        """
    }
}

/// Of a kind that is not told apart by app and lane.
enum AnyApp: Hashable, Sendable { case any }

/// Where the waiting rows of each kind begin. See ``LowWater``.
package struct OutboxMarks: Sendable {
    package let jobs = LowWater<AppLane>()
    package let fanOuts = LowWater<AppLane>()
    let fences = LowWater<AnyApp>()
    /// Cancellations that the control stream does not have, and those with jobs to hasten.
    let unpublished = LowWater<AnyApp>()
    let unhastened = LowWater<AnyApp>()
    /// Messages that wait, by webhook, enabled or not.
    package let webhookMessages = LowWater<PushID>()

    package init() {}

    private var byWord: [String: any LowestMark] {
        [
            "jobs": jobs, "fan_outs": fanOuts, "fences": fences, "unpublished": unpublished, "unhastened": unhastened,
            "webhook_messages": webhookMessages,
        ]
    }

    /// By the words of `low_water`. They grow with the clock; a process that starts while a snapshot is open begins there.
    package var lowest: [String: Int64] { byWord.mapValues(\.lowest) }

    /// - Parameter lowest: What other processes have recorded.
    package func begin(at lowest: [String: Int64]) {
        let byWord = byWord
        for (word, mark) in lowest { byWord[word]?.begin(at: mark) }
    }
}

/// The marks of one kind, whatever its keys are.
private protocol LowestMark {
    var lowest: Int64 { get }
    func begin(at lowest: Int64)
}

extension LowWater: LowestMark {
    fileprivate var lowest: Int64 { marks.lowest }
}
