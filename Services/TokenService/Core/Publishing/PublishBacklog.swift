import Synchronization

/// How many accepted notifications wait to be published. Measured in the database now and then; between measurements this process adds its
/// acceptances and subtracts its publications.
package final class PublishBacklog: Sendable {
    /// On a service that is always busy, every n-th measurement counts although it may miss notifications that were being accepted
    /// meanwhile.
    private static let maximumDiscarded = 20

    private struct State {
        var size = 0
        var beingAccepted = 0
        /// Grows with every change of the above.
        var changes = 0
        var discarded = 0
    }

    package let limit: Int
    private let state = Mutex(State())

    package init(limit: Int) { self.limit = limit }

    package var count: Int { state.withLock { $0.size } }

    /// Follow it with ``settle(waits:)``.
    /// - Throws: ``BacklogFull`` at the limit.
    package func admit() throws {
        try state.withLock { state in
            guard state.size < limit else { throw BacklogFull() }
            state.size += 1
            state.beingAccepted += 1
            state.changes += 1
        }
    }

    /// An admitted notification is committed, or will not be.
    /// - Parameter waits: Whether it waits to be published now.
    package func settle(waits: Bool) {
        state.withLock { state in
            state.beingAccepted -= 1
            state.changes += 1
            if !waits { state.size = max(0, state.size - 1) }
        }
    }

    package func shrank(by count: Int) {
        state.withLock { state in
            state.size = max(0, state.size - count)
            state.changes += 1
        }
    }

    /// The state before a measurement.
    package struct Moment {
        fileprivate let changes: Int
        fileprivate let wasAtRest: Bool
    }

    package func beginMeasuring() -> Moment {
        state.withLock { Moment(changes: $0.changes, wasAtRest: $0.beingAccepted == 0) }
    }

    /// - Parameter moment: From before the rows were counted. Without it, a notification accepted during the count would count twice or not
    ///   at all.
    package func measured(_ count: Int, since moment: Moment) {
        state.withLock { state in
            guard moment.wasAtRest && moment.changes == state.changes || state.discarded >= Self.maximumDiscarded else {
                state.discarded += 1
                return
            }
            state.size = count + state.beingAccepted
            state.discarded = 0
        }
    }
}

/// The broker is away, and the backlog is as long as its limit.
package struct BacklogFull: Error {}
