package import Logging
package import Postgres
package import PushModel
import ServiceLifecycle
import Synchronization

/// What has to be true before the service is ready, tried until it is: the schema is
/// this program's (it applies what is missing, under a lock that lets one instance at a time do so), and the operator's key is known.
package final class Startup: Service {
    package enum Progress: Equatable, Sendable {
        case waiting(String)
        case done
    }

    private let pool: PostgresPool
    private let keys: KeyStore
    private let bootstrapKey: APIKeyText?
    private let migrator: Migrator
    private let logger: Logger
    private let state = Mutex(Progress.waiting("the database was not asked yet"))

    package init(pool: PostgresPool, keys: KeyStore, bootstrapKey: APIKeyText?, migrator: Migrator, logger: Logger) {
        self.pool = pool
        self.keys = keys
        self.bootstrapKey = bootstrapKey
        self.migrator = migrator
        self.logger = logger
    }

    package var progress: Progress { state.withLock { $0 } }

    /// - Throws: `MigrationError` where waiting cannot help: a database of a newer program, or edited migrations.
    package func run() async throws {
        try await cancelWhenGracefulShutdown {
            var backOff = Duration.milliseconds(100)
            while try await !self.attempt() {
                guard await Pause.of(backOff) else { return }
                backOff = min(backOff * 2, .seconds(5))
            }
        }
        try await gracefulShutdown()
    }

    private func attempt() async throws -> Bool {
        do {
            let applied = try await migrator.migrate(pool)
            if !applied.isEmpty { logger.info("Migrated the database", metadata: [LogKey.versions: "\(applied)"]) }
            if let bootstrapKey { try await keys.insertBootstrap(bootstrapKey) }
            state.withLock { $0 = .done }
            return true
        } catch let error as MigrationError where !error.mayPass {
            throw error
        } catch {
            wait("the database cannot be used: \(error)")
            return false
        }
    }

    private func wait(_ reason: String) {
        let isNews = state.withLock { state in
            defer { state = .waiting(reason) }
            return state != .waiting(reason)
        }
        if isNews { logger.warning("Not ready", metadata: [LogKey.reason: "\(reason)"]) }
    }
}

extension MigrationError {
    /// Whether the same attempt may succeed later.
    fileprivate var mayPass: Bool {
        switch code {
        case .failed, .lockTimedOut: true
        case .unusableFiles, .databaseIsNewer, .edited, .outOfOrder: false
        }
    }
}
