package import Logging
package import Postgres
package import PushModel
package import ServiceLifecycle
import Synchronization
package import TokenServiceApps
import TokenServiceKit
package import TokenServiceSending

/// Brings the schema up to date and inserts the operator's key, and tries until both have succeeded. Migrations run under a lock, one
/// instance at a time. It also reads where waiting rows begin, before any service looks for them.
package final class Startup: Service {
    package enum Progress: Equatable, Sendable {
        case waiting(String)
        case done
    }

    private let pool: PostgresPool
    private let keys: KeyStore
    private let bootstrapKey: APIKeyText?
    private let marks: MarkExchange
    private let migrator: Migrator
    private let logger: Logger
    private let state = Mutex(State())

    private struct State {
        var progress = Progress.waiting("the database was not asked yet")
        /// Finished once it is done.
        var watchers: [AsyncStream<Void>.Continuation] = []
    }

    package init(
        pool: PostgresPool, keys: KeyStore, bootstrapKey: APIKeyText?, marks: MarkExchange, migrator: Migrator, logger: Logger
    ) {
        self.pool = pool
        self.keys = keys
        self.bootstrapKey = bootstrapKey
        self.marks = marks
        self.migrator = migrator
        self.logger = logger
    }

    package var progress: Progress { state.withLock { $0.progress } }

    /// Returns once it is done, or the task is cancelled.
    /// - Returns: whether it is done.
    func isDone() async -> Bool {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        state.withLock { state in
            if state.progress == .done { continuation.finish() } else { state.watchers.append(continuation) }
        }
        for await _ in stream {}
        return progress == .done
    }

    /// - Throws: `MigrationError` if waiting cannot help: a database of a newer program, or edited migrations.
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
            await readMarks()
            done()
            return true
        } catch let error as MigrationError where !error.mayPass {
            throw error
        } catch let error as MigrationError where error.isForbidden {
            wait("the schema is not this program's, and this account may not change it: run `token-service migrate` as its owner")
            logger.warning(
                "The database is not migrated, and this account may not do it. Run `token-service migrate` as the schema's owner",
                metadata: [LogKey.error: "\(error)"])
        } catch {
            wait("the database cannot be used: \(error)")
            logger.failed("The schema cannot be brought up to date", (error as? MigrationError)?.cause ?? error)
        }
        return false
    }

    /// Reads the marks of waiting rows. Without them, a process only reads more. The relay tries again.
    private func readMarks() async {
        do { try await marks.exchange(in: pool) } catch { logger.failed("The marks of waiting rows could not be read", error) }
    }

    private func wait(_ reason: String) { state.withLock { $0.progress = .waiting(reason) } }

    private func done() {
        let watchers = state.withLock { state in
            state.progress = .done
            defer { state.watchers = [] }
            return state.watchers
        }
        for watcher in watchers { watcher.finish() }
    }
}

/// A service that reads the database by itself: it begins once the schema is up to date.
package struct AfterStartup: Service {
    package let service: any Service
    private let startup: Startup

    package init(_ service: any Service, _ startup: Startup) {
        self.service = service
        self.startup = startup
    }

    package func run() async throws {
        guard await cancelWhenGracefulShutdown({ await self.startup.isDone() }) else { return }
        try await service.run()
    }
}

extension MigrationError {
    fileprivate var cause: PostgresError? {
        guard case .failed(_, let error) = code else { return nil }
        return error
    }

    /// The account may not change the schema.
    fileprivate var isForbidden: Bool { cause?.sqlState == .insufficientPrivilege }

    /// Whether the same attempt may succeed later.
    fileprivate var mayPass: Bool {
        switch code {
        case .failed, .lockTimedOut: true
        case .unusableFiles, .databaseIsNewer, .edited, .outOfOrder: false
        }
    }
}
