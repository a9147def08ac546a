import Synchronization

/// A task waits here for its outcomes. The last outcome or the end of its patience resumes it, once.
final class PublishWait: Sendable {
    private struct State {
        var outcomes: [PublishOutcome]
        var missing: Int
        var isOver = false
        var continuation: CheckedContinuation<[PublishOutcome], Never>?
    }

    private let state: Mutex<State>

    init(count: Int) {
        state = Mutex(State(outcomes: [PublishOutcome](repeating: .failed(.deadlineExceeded), count: count), missing: count))
    }

    func wait(_ continuation: CheckedContinuation<[PublishOutcome], Never>) {
        update { $0.continuation = continuation }
    }

    func answer(_ answers: [PublishAnswer]) {
        update { state in
            guard !state.isOver else { return }
            for answer in answers { state.outcomes[answer.index] = answer.outcome }
            state.missing -= answers.count
            state.isOver = state.missing == 0
        }
    }

    func giveUp() { update { $0.isOver = true } }

    private func update(_ change: (inout State) -> Void) {
        let (continuation, outcomes) = state.withLock { state in
            change(&state)
            return (state.isOver ? state.continuation.take() : nil, state.outcomes)
        }
        continuation?.resume(returning: outcomes)
    }
}
