package import Logging
import Postgres
import ServiceLifecycle

/// Writes down when keys were last used, behind the requests: none waits for it, and none fails with it.
///
/// One writer, and one statement for all keys that were used since the one before. The authenticator notes a key every few seconds at most, so
/// little waits here however long a statement takes, and a use that is lost with one that failed is soon followed by another.
package final class KeyUses: Service {
    private let store: KeyStore
    private let logger: Logger
    private let used = BatchQueue<String>()

    package init(store: KeyStore, logger: Logger) {
        self.store = store
        self.logger = logger
    }

    func note(_ id: String) { used.put(id) }

    /// To be shut down after the server, so that the last uses are written down.
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
