import RabbitMQ
import Synchronization

/// Where a connection's thread says that it still goes round, and where the watchdog looks.
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

    /// Cuts the connection when its thread has not gone round for `limit`.
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
