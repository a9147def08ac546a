import Synchronization

/// Events from the code under test, which a test awaits one after another. No event is lost, and the test's time limit cancels a wait.
package final class Signal<Value: Sendable>: Sendable {
    private struct State {
        var values: [Value] = []
        var waiters: [(id: UInt64, continuation: CheckedContinuation<Value, any Error>)] = []
        var lastWaiter: UInt64 = 0
    }

    private let state = Mutex(State())

    package init() {}

    /// Sends a value, from any thread.
    package func send(_ value: Value) {
        let waiter = state.withLock { state -> CheckedContinuation<Value, any Error>? in
            guard !state.waiters.isEmpty else {
                state.values.append(value)
                return nil
            }
            return state.waiters.removeFirst().continuation
        }
        waiter?.resume(returning: value)
    }

    package func send(contentsOf values: some Sequence<Value>) { values.forEach(send) }

    /// The next value, in the order in which they were sent.
    /// - Throws: `CancellationError`
    package func next() async throws -> Value {
        let id = state.withLock { state in
            state.lastWaiter += 1
            return state.lastWaiter
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let ready = state.withLock { state -> Result<Value, any Error>? in
                    if Task.isCancelled { return .failure(CancellationError()) }
                    if !state.values.isEmpty { return .success(state.values.removeFirst()) }
                    state.waiters.append((id, continuation))
                    return nil
                }
                if let ready { continuation.resume(with: ready) }
            }
        } onCancel: {
            let waiter = state.withLock { state -> CheckedContinuation<Value, any Error>? in
                guard let index = state.waiters.firstIndex(where: { $0.id == id }) else { return nil }
                return state.waiters.remove(at: index).continuation
            }
            waiter?.resume(throwing: CancellationError())
        }
    }

    /// The next `count` values.
    package func next(_ count: Int) async throws -> [Value] {
        var values: [Value] = []
        while values.count < count { values.append(try await next()) }
        return values
    }

    /// Drops values until one satisfies the condition.
    @discardableResult
    package func first(where condition: (Value) -> Bool) async throws -> Value {
        while true {
            let value = try await next()
            if condition(value) { return value }
        }
    }

    /// The values that were sent and that no test has taken yet.
    package var waiting: [Value] { state.withLock { $0.values } }
}

extension Signal where Value == Void {
    package func send() { send(()) }
}
