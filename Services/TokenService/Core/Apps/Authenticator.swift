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

    private let store: KeyStore
    private let remembered = Mutex<[String: Remembered]>([:])

    package init(store: KeyStore) { self.store = store }

    /// - Returns: nil for a key that is unknown, revoked, expired or has the wrong secret: the caller is not told which.
    /// - Throws: `PostgresError` where the database cannot be asked.
    package func caller(_ key: APIKeyText) async throws -> Caller? {
        let presented = KeyStore.digest(key)
        let now = ContinuousClock.now
        if let known = remembered.withLock({ $0[key.id] }), known.until > now {
            return constantTimeEquals(known.digest, presented) ? known.caller : nil
        }
        let found = try await store.liveKey(key.id)
        // An unknown id costs one comparison as well, so that answers take equally long.
        let isGood = constantTimeEquals(found?.digest ?? Self.nobodysDigest, presented)
        guard let found, isGood else { return nil }
        remember(found.caller, digest: found.digest, now: now)
        try await store.noteUse(key.id)
        return found.caller
    }

    /// After a revocation through this process: at once.
    package func forget(_ id: String) { _ = remembered.withLock { $0.removeValue(forKey: id) } }

    private func remember(_ caller: Caller, digest: [UInt8], now: ContinuousClock.Instant) {
        remembered.withLock { known in
            if known.count >= Self.maximumRemembered { known.removeAll(keepingCapacity: true) }
            known[caller.keyID] = Remembered(digest: digest, caller: caller, until: now + Self.memory)
        }
    }
}
