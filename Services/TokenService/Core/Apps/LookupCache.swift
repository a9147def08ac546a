import Synchronization

/// Remembers for seconds what the database is asked for with every request.
///
/// However many ask at once, the database is asked once: a thousand requests that find an answer forgotten would have each other refused.
/// What is still asked for near the end of its time is looked up anew meanwhile, so that nobody waits for it.
package final class LookupCache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    /// Of the memory: afterwards the next one who asks has it looked up anew.
    private static var freshShare: Double { 0.8 }
    private static var maximumKnown: Int { 10_000 }

    private struct Known {
        let value: Value
        /// When the database was asked.
        let asked: ContinuousClock.Instant
        let until: ContinuousClock.Instant
    }

    private struct Lookup {
        let number: Int
        let task: Task<Value?, any Error>
    }

    private struct State {
        var known: [Key: Known] = [:]
        var underWay: [Key: Lookup] = [:]
        var lookups = 0
    }

    private let memory: Duration
    private let lifetime: @Sendable (Value) -> Duration?
    private let now: @Sendable () -> ContinuousClock.Instant
    private let lookUp: @Sendable (Key) async throws -> Value?
    private let state = Mutex(State())

    /// - Parameters:
    ///   - memory: How long a change made elsewhere may stay unnoticed here.
    ///   - lifetime: How long a value is good at most, where it ends by itself; nil for ever.
    ///   - lookUp: Gives nil where there is nothing, which is not remembered, as no failure is.
    package init(
        memory: Duration, lifetime: @escaping @Sendable (Value) -> Duration? = { _ in nil },
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }, lookUp: @escaping @Sendable (Key) async throws -> Value?
    ) {
        self.memory = memory
        self.lifetime = lifetime
        self.now = now
        self.lookUp = lookUp
    }

    /// - Throws: What `lookUp` throws, for everybody who waits for it; nothing while there is an answer in memory.
    package func value(_ key: Key) async throws -> Value? {
        let now = now()
        let (known, lookup) = state.withLock { state -> (Known?, Lookup?) in
            let known = state.known[key].flatMap { now < $0.until ? $0 : nil }
            if let known, now - known.asked < memory * Self.freshShare { return (known, nil) }
            return (known, state.underWay[key] ?? begin(key, asked: now, &state))
        }
        if let known { return known.value }
        return try await lookup?.task.value
    }

    /// After a change made here: whoever asks from now on gets what is so now.
    package func forget(_ key: Key) {
        state.withLock { state in
            state.known.removeValue(forKey: key)
            state.underWay.removeValue(forKey: key)
        }
    }

    /// In a task of its own: whoever began it may be cancelled while others wait.
    private func begin(_ key: Key, asked: ContinuousClock.Instant, _ state: inout State) -> Lookup {
        state.lookups += 1
        let number = state.lookups
        let lookup = Lookup(
            number: number,
            task: Task {
                let result: Result<Value?, any Error>
                do { result = .success(try await lookUp(key)) } catch { result = .failure(error) }
                end(key, number, asked: asked, result)
                return try result.get()
            })
        state.underWay[key] = lookup
        return lookup
    }

    /// What was asked for before a ``forget(_:)`` is not remembered after it.
    private func end(_ key: Key, _ number: Int, asked: ContinuousClock.Instant, _ result: Result<Value?, any Error>) {
        state.withLock { state in
            guard state.underWay[key]?.number == number else { return }
            state.underWay.removeValue(forKey: key)
            guard case .success(let found) = result else { return }
            guard let found else {
                state.known.removeValue(forKey: key)
                return
            }
            if state.known.count >= Self.maximumKnown { state.known.removeAll(keepingCapacity: true) }
            state.known[key] = Known(value: found, asked: asked, until: asked + min(memory, lifetime(found) ?? memory))
        }
    }
}
