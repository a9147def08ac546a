import Synchronization

/// A task waits here for its outcomes. The outcomes or the end of its patience resume it, once.
final class PublishAnswer: Sendable {
    private enum State {
        case open
        case waiting(CheckedContinuation<[PublishOutcome], Never>)
        case gaveUp
        case done
    }

    private let count: Int
    private let state = Mutex(State.open)

    init(count: Int) { self.count = count }

    /// - Returns: false when giving up came first: the continuation is resumed already.
    func wait(_ continuation: CheckedContinuation<[PublishOutcome], Never>) -> Bool {
        let isInTime = state.withLock { state in
            if case .gaveUp = state { return false }
            state = .waiting(continuation)
            return true
        }
        if !isInTime { continuation.resume(returning: unknown) }
        return isInTime
    }

    func complete(_ outcomes: [PublishOutcome]) { take(leaving: .done)?.resume(returning: outcomes) }

    func giveUp() { take(leaving: .gaveUp)?.resume(returning: unknown) }

    private var unknown: [PublishOutcome] { [PublishOutcome](repeating: .failed(.deadlineExceeded), count: count) }

    private func take(leaving next: State) -> CheckedContinuation<[PublishOutcome], Never>? {
        state.withLock { state in
            switch state {
            case .open:
                state = next
                return nil
            case .waiting(let continuation):
                state = next
                return continuation
            case .gaveUp, .done: return nil
            }
        }
    }
}
