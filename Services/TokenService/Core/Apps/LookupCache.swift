import Synchronization

/// Remembers for seconds an answer of the database that every request needs.
///
/// All callers that ask at once share one lookup. After an expiry, a thousand separate lookups would wait for the pool's few connections,
/// and the service would refuse their requests. A key that is still in demand near the end of its time is looked up again in the
/// background, so that no caller waits.
package final class LookupCache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    /// The share of the memory after which the next caller starts a new lookup.
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
    ///   - lifetime: How long a value is valid at most, if it ends by itself; nil for ever.
    ///   - lookUp: Gives nil if there is no value. Neither that nor a failure is remembered.
    package init(
        memory: Duration, lifetime: @escaping @Sendable (Value) -> Duration? = { _ in nil },
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }, lookUp: @escaping @Sendable (Key) async throws -> Value?
    ) {
        self.memory = memory
        self.lifetime = lifetime
        self.now = now
        self.lookUp = lookUp
    }

    /// - Throws: The error of `lookUp`, for every caller that waits for it; nothing while there is an answer in memory.
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

    /// Call it after a change made here: later callers get the new value.
    package func forget(_ key: Key) {
        state.withLock { state in
            state.known.removeValue(forKey: key)
            state.underWay.removeValue(forKey: key)
        }
    }

    /// In a task of its own: the caller that began it may be cancelled while others wait.
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

    /// The answer of a lookup that began before a ``forget(_:)`` is not remembered after it.
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
