package import Logging
import OpenSSL
import Postgres
package import PushModel
import ServiceLifecycle
import Synchronization
package import TokenServiceKit

/// Turns a key's text into a caller. Remembers keys for a few seconds, so that a busy caller costs no query per request.
package final class Authenticator: Sendable {
    /// How long another instance's revocation may stay unnoticed here.
    package static let memory: Duration = .seconds(5)
    private static let nobodysDigest = [UInt8](repeating: 0, count: 32)

    private final class Remembered: Sendable {
        let key: KeyStore.LiveKey
        private let isUsed = Atomic(false)

        init(_ key: KeyStore.LiveKey) { self.key = key }

        func isFirstUse() -> Bool { !isUsed.load(ordering: .relaxed) && !isUsed.exchange(true, ordering: .relaxed) }
    }

    private let uses: KeyUses
    private let keys: LookupCache<String, Remembered>

    /// - Parameters:
    ///   - uses: Writes down in the background that keys were used.
    ///   - hasStarted: Whether the bootstrap key is in the database. Until then an unknown key is no reason to refuse.
    package init(store: KeyStore, uses: KeyUses, hasStarted: @escaping @Sendable () -> Bool) {
        self.uses = uses
        // Never for longer than the key lives.
        keys = LookupCache(memory: Self.memory, lifetime: { $0.key.remaining }) { ids in
            let knowsAll = hasStarted()
            let keys = try await store.liveKeys(ids)
            guard keys.count == ids.count || knowsAll else { throw StillStarting() }
            return keys.mapValues(Remembered.init)
        }
    }

    /// - Returns: nil for a key that is unknown, revoked, expired or has the wrong secret: the caller does not learn which.
    /// - Throws: `PostgresError` where the database cannot be asked; ``StillStarting`` for an unknown key before the service has started.
    package func caller(_ key: APIKeyText) async throws -> Caller? { check(key, try await keys.value(key.id)) }

    /// Finds the caller without waiting; nil also for a key that is not in memory.
    package func rememberedCaller(_ key: APIKeyText) -> Caller? { keys.remembered(key.id).flatMap { check(key, $0) } }

    private func check(_ key: APIKeyText, _ found: Remembered?) -> Caller? {
        let presented = KeyStore.digest(key)
        // An unknown id costs one comparison as well.
        let isGood = constantTimeEquals(found?.key.digest ?? Self.nobodysDigest, presented)
        guard let found, isGood else { return nil }
        if found.isFirstUse() { uses.note(key.id) }
        return found.key.caller
    }

    /// Forgets the key at once, after a revocation or rotation through this process.
    package func forget(_ id: String) { keys.forget(id) }
}

/// The service has not written its bootstrap key yet, so an unknown key may become known.
package struct StillStarting: ProblemError {
    package var problem: APIError { APIError(.databaseUnavailable, "the service is starting and does not know every key yet") }
}

extension APIError {
    package static let unauthenticated = APIError(.unauthenticated, "send a live key as Authorization: Bearer psh_…")
}

/// Records in the background when keys were last used: no request waits for it, and none fails with it.
///
/// One writer runs one statement for all keys that were used since the last one. The authenticator reports a key every few seconds at most,
/// so the queue stays short even if a statement is slow. If a statement fails, the keys' next uses replace those that it lost.
package final class KeyUses: Service {
    private let store: KeyStore
    private let logger: Logger
    private let used = BatchQueue<String>()

    package init(store: KeyStore, logger: Logger) {
        self.store = store
        self.logger = logger
    }

    func note(_ id: String) { used.put(id) }

    /// Shut it down after the server, so that it records the last uses.
    package func run() async throws {
        await withGracefulShutdownHandler {
            for await _ in used.wakeUps { await write() }
            await write()
        } onGracefulShutdown: {
            self.used.close()
        }
    }

    private func write() async {
        let ids = Set(used.takeAll())
        guard !ids.isEmpty else { return }
        do {
            try await store.noteUses(ids.sorted())
        } catch {
            logger.failed("The last use of keys could not be written down", error, [LogKey.count: "\(ids.count)"])
        }
    }
}
