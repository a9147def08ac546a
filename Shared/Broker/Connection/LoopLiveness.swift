import RabbitMQ
import Synchronization

/// A connection's thread reports here that it still runs, and the watchdog reads it.
final class LoopLiveness: Sendable {
    private struct State {
        var last = ContinuousClock.now
        var breaker: SocketBreaker?
    }

    private let state = Mutex(State())

    func passed() { state.withLock { $0.last = .now } }

    /// From now on the watchdog may cut this connection.
    func connected(_ breaker: SocketBreaker) {
        state.withLock {
            $0.last = .now
            $0.breaker = breaker
        }
    }

    func disconnected() { state.withLock { $0.breaker = nil } }

    /// Cuts the connection if its thread has not reported for `limit`.
    /// - Returns: whether it did.
    func cut(ifSilentFor limit: Duration) -> Bool {
        let breaker = state.withLock { state -> SocketBreaker? in
            guard state.last.duration(to: .now) > limit else { return nil }
            defer { state.breaker = nil }
            return state.breaker
        }
        breaker?.shutDown()
        return breaker != nil
    }
}
