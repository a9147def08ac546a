import OpenSSL
package import PushModel
import Synchronization

/// Turns a key's text into a caller. Remembers good keys for a few seconds, so that a busy caller costs no query per request.
package final class Authenticator: Sendable {
    /// How long another instance's revocation may stay unnoticed here.
    package static let memory: Duration = .seconds(5)
    private static let maximumRemembered = 10_000
    private static let nobodysDigest = [UInt8](repeating: 0, count: 32)

    private struct Remembered {
        let digest: [UInt8]
        let caller: Caller
        let until: ContinuousClock.Instant
    }

    private struct Memory {
        var keys: [String: Remembered] = [:]
        /// How often something was forgotten: what was asked for before that is not remembered after it.
        var forgotten = 0
    }

    private let store: KeyStore
    private let remembered = Mutex(Memory())

    package init(store: KeyStore) { self.store = store }

    /// - Returns: nil for a key that is unknown, revoked, expired or has the wrong secret: the caller is not told which.
    /// - Throws: `PostgresError` where the database cannot be asked.
    package func caller(_ key: APIKeyText) async throws -> Caller? {
        let presented = KeyStore.digest(key)
        let now = ContinuousClock.now
        let (known, forgotten) = remembered.withLock { ($0.keys[key.id], $0.forgotten) }
        if let known, known.until > now {
            return constantTimeEquals(known.digest, presented) ? known.caller : nil
        }
        let found = try await store.liveKey(key.id)
        // An unknown id costs one comparison as well, so that answers take equally long.
        let isGood = constantTimeEquals(found?.digest ?? Self.nobodysDigest, presented)
        guard let found, isGood else { return nil }
        remember(found, now: now, forgotten: forgotten)
        try await store.noteUse(key.id)
        return found.caller
    }

    /// After a revocation or rotation through this process: at once.
    package func forget(_ id: String) {
        remembered.withLock { memory in
            memory.keys.removeValue(forKey: id)
            memory.forgotten += 1
        }
    }

    /// Never for longer than the key lives.
    private func remember(_ key: KeyStore.LiveKey, now: ContinuousClock.Instant, forgotten: Int) {
        let until = now + min(Self.memory, key.remaining ?? Self.memory)
        remembered.withLock { memory in
            guard memory.forgotten == forgotten else { return }
            if memory.keys.count >= Self.maximumRemembered { memory.keys.removeAll(keepingCapacity: true) }
            memory.keys[key.caller.keyID] = Remembered(digest: key.digest, caller: key.caller, until: until)
        }
    }
}
