import Synchronization

/// The moment below which no row of a kind waits: a statement that looks for waiting rows begins there.
///
/// A row that waits no longer leaves a dead entry in the index of the waiting ones. While a snapshot is open (a backup, a forgotten session, a
/// query on a standby with feedback), PostgreSQL keeps all of these entries, and reading past a million of them costs 0.2 s.
///
/// A row's moment is never before the begin of the transaction that writes it, and no transaction lasts for ``margin``. So whatever is
/// committed after a search lies above the search's own moment less the margin. Moments are the database's, in UNIX milliseconds.
package final class LowWater<Key: Hashable & Sendable>: Sendable {
    /// Transactions end within 30 s (``NotificationIntake``); the rest is for a new primary whose clock is behind.
    static var margin: Int64 { 60_000 }

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

    package init() {}

    package var marks: Marks { state.withLock { $0 } }

    /// - Parameters:
    ///   - oldest: The oldest waiting row of each key that has one, as far as it had become free.
    ///   - now: The database's clock before the search.
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

    package init() {}

    private enum Kind: String, CaseIterable {
        case jobs, fences, unpublished, unhastened
        case fanOuts = "fan_outs"
    }

    /// By the words of `low_water`. They grow with the clock; a process that starts while a snapshot is open begins there.
    package var lowest: [String: Int64] {
        Dictionary(
            uniqueKeysWithValues: Kind.allCases.map { kind in
                let mark =
                    switch kind {
                    case .jobs: jobs.marks.lowest
                    case .fanOuts: fanOuts.marks.lowest
                    case .fences: fences.marks.lowest
                    case .unpublished: unpublished.marks.lowest
                    case .unhastened: unhastened.marks.lowest
                    }
                return (kind.rawValue, mark)
            })
    }

    /// - Parameter lowest: What other processes have recorded.
    package func begin(at lowest: [String: Int64]) {
        for kind in Kind.allCases {
            guard let mark = lowest[kind.rawValue] else { continue }
            switch kind {
            case .jobs: jobs.begin(at: mark)
            case .fanOuts: fanOuts.begin(at: mark)
            case .fences: fences.begin(at: mark)
            case .unpublished: unpublished.begin(at: mark)
            case .unhastened: unhastened.begin(at: mark)
            }
        }
    }
}
