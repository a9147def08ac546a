import Synchronization

/// Remembers for seconds an answer of the database that every request needs.
///
/// All callers that ask at once share one lookup, whatever their keys: while the database is asked about some, the others wait together for
/// the next lookup. However many unknown keys come, the cache asks the database once at a time, and needs one of the pool's connections. A
/// key that is still in demand near the end of its time is looked up again in the background, so that no caller waits.
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
        /// The keys that are looked up, without those that were forgotten meanwhile.
        var keys: Set<Key> = []
        let task: Task<[Key: Value], any Error>
    }

    private struct State {
        var known: [Key: Known] = [:]
        /// The database is being asked.
        var underWay: Lookup?
        /// Begins when the one under way ends.
        var next: Lookup?
    }

    private let memory: Duration
    private let lifetime: @Sendable (Value) -> Duration?
    private let now: @Sendable () -> ContinuousClock.Instant
    private let lookUp: @Sendable ([Key]) async throws -> [Key: Value]
    private let state = Mutex(State())

    /// - Parameters:
    ///   - memory: How long a change made elsewhere may stay unnoticed here.
    ///   - lifetime: How long a value is valid at most, if it ends by itself; nil for ever.
    ///   - lookUp: Gives the values that there are. Neither a missing one nor a failure is remembered: a key may be made at any moment.
    package init(
        memory: Duration, lifetime: @escaping @Sendable (Value) -> Duration? = { _ in nil },
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }, lookUp: @escaping @Sendable ([Key]) async throws -> [Key: Value]
    ) {
        self.memory = memory
        self.lifetime = lifetime
        self.now = now
        self.lookUp = lookUp
    }

    /// - Throws: The error of `lookUp`, for every caller that waits for it; nothing while there is an answer in memory.
    package func value(_ key: Key) async throws -> Value? {
        if let known = remembered(key) { return known }
        return try await state.withLock { state in join(key, &state) }.value[key]
    }

    /// The value that is in memory, without waiting; nil says nothing about the key.
    package func remembered(_ key: Key) -> Value? {
        let now = now()
        return state.withLock { state in
            guard let known = state.known[key], now < known.until else { return nil }
            if now - known.asked >= memory * Self.freshShare { _ = join(key, &state) }
            return known.value
        }
    }

    /// Call it after a change made here: later callers get the new value.
    package func forget(_ key: Key) {
        state.withLock { state in
            state.known.removeValue(forKey: key)
            state.underWay?.keys.remove(key)
        }
    }

    /// The lookup that will have the key's value.
    private func join(_ key: Key, _ state: inout State) -> Task<[Key: Value], any Error> {
        if let underWay = state.underWay, underWay.keys.contains(key) { return underWay.task }
        var next = state.next ?? Lookup(task: lookup(after: state.underWay?.task))
        // So that the keys have one owner, and are not copied.
        state.next = nil
        next.keys.insert(key)
        state.next = next
        return next.task
    }

    /// Asks in a task of its own: the caller that began it may be cancelled while others wait.
    private func lookup(after before: Task<[Key: Value], any Error>?) -> Task<[Key: Value], any Error> {
        Task {
            _ = await before?.result
            return try await ask()
        }
    }

    /// Asks the database about the keys that wait.
    private func ask() async throws -> [Key: Value] {
        let asked = now()
        let keys = state.withLock { state -> [Key] in
            state.underWay = state.next
            state.next = nil
            return state.underWay.map { Array($0.keys) } ?? []
        }
        let result: Result<[Key: Value], any Error>
        do { result = .success(try await lookUp(keys)) } catch { result = .failure(error) }
        end(asked: asked, result)
        return try result.get()
    }

    /// The answer of a lookup that began before a ``forget(_:)`` is not remembered after it.
    private func end(asked: ContinuousClock.Instant, _ result: Result<[Key: Value], any Error>) {
        state.withLock { state in
            let keys = state.underWay?.keys ?? []
            state.underWay = nil
            guard case .success(let found) = result else { return }
            for key in keys {
                guard let value = found[key] else {
                    state.known.removeValue(forKey: key)
                    continue
                }
                if state.known.count >= Self.maximumKnown { state.known.removeAll(keepingCapacity: true) }
                state.known[key] = Known(value: value, asked: asked, until: asked + min(memory, lifetime(value) ?? memory))
            }
        }
    }
}
