internal import Synchronization

/// While connecting fails, it makes one attempt per interval, and all other callers get the error at once: callers do not hang, and a
/// database that comes up is not stormed.
final class ConnectBreaker: Sendable {
    private struct State {
        var error: PostgresError?
        var failures = 0
        var nextAttempt: Deadline?
    }

    private static let attemptBound = Duration.seconds(10)

    private let state = Mutex(State())

    /// - Throws: the last failure while the next attempt is not due.
    func check() throws(PostgresError) {
        let refusal: PostgresError? = state.withLock { state in
            guard let error = state.error, let next = state.nextAttempt else { return nil }
            guard next.isPast else { return error }
            // This caller tries; no other does until it has a result, or has tried for too long.
            state.nextAttempt = .after(Self.attemptBound)
            return nil
        }
        if let refusal { throw refusal }
    }

    func noteSuccess() {
        state.withLock { $0 = State() }
    }

    /// The pause doubles from 50 ms to 1 s, half of it at random.
    func note(_ error: PostgresError) {
        state.withLock { state in
            let ceiling = min(1000, 50 << min(state.failures, 5))
            state.failures += 1
            state.error = error
            state.nextAttempt = .after(.milliseconds(Int.random(in: ceiling / 2...ceiling)))
        }
    }
}
