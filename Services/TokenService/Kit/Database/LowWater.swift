package import Postgres
import Synchronization

/// The moment below which no row of a kind waits: a statement that looks for waiting rows begins there.
///
/// A row that waits no longer leaves a dead entry in the index of the waiting ones. While a snapshot is open (a backup, a forgotten
/// session, a query on a standby with feedback), PostgreSQL keeps all of these entries, and reading past a million of them costs 0.2 s.
///
/// A row's moment is never before the begin of the transaction that writes it. A transaction writes within ``margin`` or not at all, and
/// from then on ``clock`` knows it until it has ended, however long its COMMIT waits for a standby. So whatever is committed after a search
/// lies above the search's own moment less the margin. What a clock that jumped, or a server that stood still, has left below is found by
/// the searches from the very beginning, one in ``renewal``. Moments are the database's, in UNIX milliseconds.
///
/// A search that takes too long would take too long again, and nothing would be found. So the next one begins higher: see
/// ``search(at:_:)``.
package final class LowWater<Key: Hashable & Sendable>: Sendable {
    /// Transactions write within 30 s (``NotificationIntake``); the rest is for a new primary whose clock is behind.
    static var margin: Int64 { 60_000 }
    private static var renewal: Duration { .seconds(600) }
    /// The next search from the very beginning, after the keys with old rows were given up.
    private static var earlyRenewal: Duration { .seconds(60) }

    package struct Marks: Sendable {
        /// The mark of every key without an exception.
        package fileprivate(set) var floor: Int64 = 0
        /// Keys with a row that has waited for longer.
        package fileprivate(set) var exceptions: [Key: Int64] = [:]

        package init() {}

        fileprivate init(floor: Int64) { self.floor = floor }

        package subscript(_ key: Key) -> Int64 { exceptions[key] ?? floor }

        /// No row of any key waits below it.
        package var lowest: Int64 { exceptions.values.min().map { min($0, floor) } ?? floor }
    }

    /// Where a search of every key begins: at the floor, and earlier for some keys.
    package struct Beginnings {
        /// A search compares each key with each exception.
        static var maximumExceptions: Int { 100 }

        package let exceptions: [(key: Key, moment: Int64)]
        package let floor: Int64

        /// If many have waited for long, all begin where the one does that has waited longest.
        package init(_ marks: Marks) {
            let areMany = marks.exceptions.count > Self.maximumExceptions
            exceptions = areMany ? [] : marks.exceptions.map { ($0.key, $0.value) }
            floor = areMany ? marks.lowest : marks.floor
        }
    }

    private struct State {
        var marks = Marks()
        /// A process has recorded a lower beginning: one search begins there.
        var lowered: Int64?
        /// When the last search from the very beginning began, or this process.
        var renewed = ContinuousClock.now
    }

    private let state = Mutex(State())

    package init() {}

    package var marks: Marks { state.withLock { $0.marks } }

    /// No row waits below it, as far as any process knows.
    package var lowest: Int64 { state.withLock { min($0.marks.lowest, $0.lowered ?? .max) } }

    /// Searches from the marks; once from a lower beginning that another process has recorded; now and then from the very beginning. If one
    /// of the last two takes too long, the next search begins at the marks again. If a search from the marks does, the next one begins at
    /// the floor for every key, and a minute later one begins at the very beginning.
    /// - Parameter body: Returns the moment and the oldest rows as ``found(_:at:)`` wants them.
    package func search<Found>(
        at instant: ContinuousClock.Instant = .now,
        _ body: (Marks) async throws -> (now: Int64, oldest: [Key: Int64], found: Found)
    ) async throws -> Found {
        let from = beginning(at: instant)
        do {
            let (now, oldest, found) = try await body(from)
            self.found(oldest, at: now, from: from.lowest)
            return found
        } catch let error as PostgresError where error.isOfSize {
            tookTooLong(from, at: instant)
            throw error
        }
    }

    private func beginning(at instant: ContinuousClock.Instant) -> Marks {
        state.withLock { state in
            if state.renewed + Self.renewal < instant {
                state.renewed = instant
                return Marks()
            }
            // No higher than this process's own rows, which the search would miss and forget.
            return state.lowered.map { Marks(floor: min($0, state.marks.lowest)) } ?? state.marks
        }
    }

    /// - Parameters:
    ///   - oldest: The oldest waiting row of each key that has one, as far as it had become free.
    ///   - now: Of ``clock``, before the search.
    ///   - from: Where the search began. A lower beginning that came meanwhile stays.
    package func found(_ oldest: [Key: Int64], at now: Int64, from: Int64 = 0) {
        state.withLock { state in
            if let lowered = state.lowered, from <= lowered { state.lowered = nil }
            state.marks.floor = now - Self.margin
            state.marks.exceptions = oldest.filter { $0.value < state.marks.floor }
        }
    }

    private func tookTooLong(_ from: Marks, at instant: ContinuousClock.Instant) {
        state.withLock { state in
            if let lowered = state.lowered, from.floor > 0, from.lowest <= lowered {
                state.lowered = nil
            } else if from.lowest >= state.marks.lowest {
                state.marks.exceptions = [:]
                state.renewed = min(state.renewed, instant + Self.earlyRenewal - Self.renewal)
            }
        }
    }
}

extension LowWater {
    /// The column `now`: the database's clock, or the begin of the oldest transaction that has written and not ended. A session sees those
    /// of its own role.
    package static var clock: PostgresQuery {
        """
        SELECT least(clock_timestamp(), min(xact_start)) AS now FROM pg_stat_activity
        WHERE datname = current_database() AND backend_xid IS NOT NULL AND pid <> pg_backend_pid()
        """
    }
}

/// The key of a kind that is not told apart by app and lane.
package enum AnyApp: Hashable, Sendable { case any }

extension LowWater<AnyApp> {
    /// - Parameter body: Gets the moment to search from. Returns that of ``clock`` before its search, and that of the oldest waiting row.
    /// - Returns: the moment of the oldest waiting row.
    package func searchOldest(_ body: (Int64) async throws -> (now: Int64, oldest: Int64?)) async throws -> Int64? {
        try await search { from in
            let (now, moment) = try await body(from.lowest)
            let oldest: [AnyApp: Int64] = moment.map { [.any: $0] } ?? [:]
            return (now, oldest, moment)
        }
    }
}

/// What other processes are told of the marks of one kind.
package struct LowWaterRecord: Equatable, Sendable {
    /// No row waits below it.
    package var at: Int64
    /// Below it wait only rows of keys that have an older one.
    package var mostAt: Int64

    package init(at: Int64, mostAt: Int64) {
        self.at = at
        self.mostAt = mostAt
    }
}

/// The marks of one kind, whatever its keys are.
package protocol RecordedMarks {
    var record: LowWaterRecord { get }
    func start(at record: LowWaterRecord)
    func lower(to moment: Int64)
}

extension LowWater: RecordedMarks {
    package var record: LowWaterRecord {
        LowWaterRecord(at: lowest, mostAt: marks.floor)
    }

    package func start(at record: LowWaterRecord) {
        state.withLock { state in
            state.marks = Marks(floor: record.mostAt)
            state.lowered = record.at < record.mostAt ? record.at : nil
        }
    }

    package func lower(to moment: Int64) {
        state.withLock { state in state.lowered = min(moment, state.lowered ?? moment) }
    }
}
