import Synchronization

/// Every key the simulator accepts tokens of. Keys may come, change and go while connections live: what they may do is asked anew then.
final class KeyRing: Sendable {
    private struct Contents {
        var keys: [String: ProviderKey] = [:]
        /// Known, and their tokens fail: they can come back.
        var revoked: [String: ProviderKey] = [:]
        var generation: UInt64 = 0
    }

    private let contents = Mutex(Contents())
    /// Read without the lock on every request: has anything changed since a connection last looked?
    private let published = Atomic<UInt64>(0)

    init(_ keys: [ProviderKey]) {
        for key in keys { add(key) }
    }

    var generation: UInt64 { published.load(ordering: .acquiring) }
    var keys: [String: ProviderKey] { contents.withLock { $0.keys } }

    /// Every key with its state, by id.
    func states() -> [(key: ProviderKey, state: ProviderKey.State)] {
        let (live, revoked) = contents.withLock { ($0.keys, $0.revoked) }
        let all = live.values.map { ($0, $0.isSuspended ? ProviderKey.State.suspended : .active) } + revoked.values.map { ($0, .revoked) }
        return all.sorted { $0.0.keyID < $1.0.keyID }
    }

    func add(_ key: ProviderKey) {
        change { contents in
            contents.keys[key.keyID] = key
            contents.revoked[key.keyID] = nil
        }
    }

    func revoke(keyID: String) { _ = set(.revoked, keyID: keyID) }

    /// - Returns: false where there is no such key.
    func set(_ state: ProviderKey.State, keyID: String) -> Bool {
        change { contents in
            guard let key = contents.keys.removeValue(forKey: keyID) ?? contents.revoked.removeValue(forKey: keyID) else { return false }
            if state == .revoked {
                contents.revoked[keyID] = key
            } else {
                contents.keys[keyID] = key.suspended(state == .suspended)
            }
            return true
        }
    }

    private func change<Result>(_ body: (inout Contents) -> Result) -> Result {
        contents.withLock { contents in
            let result = body(&contents)
            contents.generation += 1
            published.store(contents.generation, ordering: .releasing)
            return result
        }
    }
}
