internal import Synchronization

/// Lets any number of tasks wait for an event that happens once.
final class DrainSignal: Sendable {
    private enum State {
        case waiting([CheckedContinuation<Void, Never>])
        case done
    }

    private let state = Mutex(State.waiting([]))

    func signal() {
        let waiters = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            guard case .waiting(let waiters) = state else { return [] }
            state = .done
            return waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    func wait() async {
        await withCheckedContinuation { continuation in
            let isDone = state.withLock { state in
                guard case .waiting(let waiters) = state else { return true }
                state = .waiting(waiters + [continuation])
                return false
            }
            if isDone { continuation.resume() }
        }
    }
}
