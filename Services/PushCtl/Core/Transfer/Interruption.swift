import UnixSignals

/// Turns Ctrl-C into an error that says what to do next.
enum Interruption {
    private enum Ending<Value: Sendable>: Sendable {
        case value(Value)
        case interrupted
    }

    static func orResult<Value: Sendable>(
        of body: @escaping @Sendable () async throws -> Value, failure: @Sendable () async -> CommandFailure
    ) async throws -> Value {
        try await withThrowingTaskGroup(of: Ending<Value>.self) { group in
            group.addTask { .value(try await body()) }
            group.addTask {
                for await _ in await UnixSignalsSequence(trapping: .sigint, .sigterm) { return .interrupted }
                // Without a signal the sequence ends only when this task is cancelled.
                throw CancellationError()
            }
            defer { group.cancelAll() }
            switch try await group.next() {
            case .value(let value): return value
            case .interrupted, nil: throw await failure()
            }
        }
    }
}
