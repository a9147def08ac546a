import Synchronization

/// Gives out moments at an even rate. It makes up for at most one second, so that an outage causes no flood.
final class Pacer: Sendable {
    private struct State {
        var next = ContinuousClock.now
        var interval: Duration
    }

    private let state: Mutex<State>

    init(rate: Double) { state = Mutex(State(interval: .seconds(1 / rate))) }

    func setRate(_ rate: Double) { state.withLock { $0.interval = .seconds(1 / rate) } }

    /// - Throws: `CancellationError`
    func wait() async throws {
        let moment = state.withLock { state in
            state.next = max(state.next, .now - .seconds(1))
            defer { state.next += state.interval }
            return state.next
        }
        try await Task.sleep(until: moment)
    }
}
