import Synchronization

/// Every key the simulator accepts tokens of. Keys may come and go while connections live: a revoked key's tokens fail from then on.
final class KeyRing: Sendable {
    private struct Contents {
        var keys: [String: ProviderKey] = [:]
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

    func add(_ key: ProviderKey) {
        change { $0[key.keyID] = key }
    }

    func revoke(keyID: String) {
        change { $0[keyID] = nil }
    }

    private func change(_ body: (inout [String: ProviderKey]) -> Void) {
        contents.withLock { contents in
            body(&contents.keys)
            contents.generation += 1
            published.store(contents.generation, ordering: .releasing)
        }
    }
}
