package import Logging
import Postgres
import ServiceLifecycle
import TokenServiceKit

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
