internal import FoundationEssentials

/// Brings a database's schema up to this program's: applies missing migrations in order, and records them in `schema_migrations`.
///
/// Any number of instances may do so at once: a session advisory lock lets them in one by one, and all but the first have nothing to do.
package struct Migrator: Sendable {
    /// Any number, as long as no other program takes the same lock in the same database.
    private static let lockKey: Int64 = 0x7075_7368_5f6d_6967

    package let migrations: [Migration]

    /// - Parameter directory: Holds `m0001_name.sql`, `m0002_…`; other files than `.sql` are passed over.
    package init(directory: String) throws(MigrationError) {
        try self.init(migrations: Migration.files(in: directory))
    }

    /// - Parameter migrations: Numbered 1, 2, 3, … without a gap.
    package init(migrations: [Migration]) throws(MigrationError) {
        let sorted = migrations.sorted { $0.version < $1.version }
        for (index, migration) in sorted.enumerated() where migration.version != index + 1 {
            throw Migration.unusable(
                "migrations must be numbered without gap or repetition; \(migration.version) stands where \(index + 1) should")
        }
        self.migrations = sorted
    }

    /// - Parameters:
    ///   - lockWait: How long to wait for another instance that migrates.
    ///   - deadline: For everything.
    /// - Returns: the versions that this call applied.
    @discardableResult
    package func migrate(
        _ pool: PostgresPool, lockWait: Duration = .seconds(60), deadline: Duration = .seconds(15 * 60)
    ) async throws(MigrationError) -> [Int] {
        do {
            return try await pool.session(deadline: deadline) { session in
                // The lock and the settings end with the connection, even after an error.
                session.discardConnection()
                try takeLock(session, wait: lockWait)
                return try apply(session)
            }
        } catch let error as MigrationError {
            throw error
        } catch let error as PostgresError {
            throw Self.failed(nil, error)
        } catch {
            throw Self.failed(nil, PostgresError(.closed, operation: "migrate", message: "cancelled"))
        }
    }

    private static func failed(_ version: Int?, _ error: PostgresError) -> MigrationError {
        let what = version.map { "migration \($0) failed" } ?? "migrating failed"
        return MigrationError(code: .failed(version: version, error), message: "\(what): \(error)")
    }
}

extension Migrator {
    private func takeLock(_ session: PostgresSession, wait: Duration) throws {
        let lockTimeout = "\(max(1, wait.milliseconds(rounding: .up)))ms"
        try session.execute("SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', \(lockTimeout), false)")
        do throws(PostgresError) {
            try session.execute("SELECT pg_advisory_lock(\(Self.lockKey))")
        } catch {
            guard error.sqlState == .lockNotAvailable else { throw error }
            throw MigrationError(code: .lockTimedOut, message: "another instance has been migrating for too long; gave up waiting")
        }
        // Short from here on: the statements of all other sessions queue up behind a migration that waits for a table.
        try session.simple("SET lock_timeout = '5s'")
        // An account that may not create tables may still find that the schema is complete; IF NOT EXISTS would refuse it.
        let isMissing: Bool = try session.execute("SELECT to_regclass('schema_migrations') IS NULL AS is_missing").only()["is_missing"]
        guard isMissing else { return }
        try session.simple(
            """
            CREATE TABLE schema_migrations (
                version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
                applied_at timestamptz NOT NULL DEFAULT now())
            """)
    }

    private func apply(_ session: PostgresSession) throws -> [Int] {
        let applied = try session.execute("SELECT version, name, checksum FROM schema_migrations ORDER BY version")
        for (index, row) in applied.enumerated() { try check(row, expected: index + 1, session) }
        var versions: [Int] = []
        for migration in migrations.dropFirst(applied.count) {
            try apply(migration, session)
            versions.append(migration.version)
        }
        return versions
    }

    /// An applied migration must be one of ours, unchanged.
    private func check(_ row: PostgresRow, expected: Int, _ session: PostgresSession) throws {
        let version: Int = try row["version"]
        guard version <= migrations.count else {
            let newest: Int = try session.execute("SELECT max(version) FROM schema_migrations").only()["max"]
            throw MigrationError(
                code: .databaseIsNewer(database: newest, program: migrations.count),
                message: "the database has schema version \(newest), this program knows only \(migrations.count): start a newer program")
        }
        guard version == expected else {
            throw MigrationError(
                code: .outOfOrder(version: expected),
                message: "migration \(version) is applied but \(expected) is not: was schema_migrations edited?")
        }
        let migration = migrations[version - 1]
        guard try checksum(migration, session) == row["checksum"] else {
            throw MigrationError(
                code: .edited(version: version),
                message: "migration \(version) (\(migration.name)) was changed after it was applied: restore the file and write a new one")
        }
    }

    private func apply(_ migration: Migration, _ session: PostgresSession) throws {
        let sum = try checksum(migration, session)
        do {
            try session.transaction { session in
                try session.simple(migration.sql)
                try session.execute(
                    """
                    INSERT INTO schema_migrations (version, name, checksum)
                    VALUES (\(Int32(clamping: migration.version)), \(migration.name), \(sum))
                    """)
            }
        } catch let error as PostgresError {
            throw Self.failed(migration.version, error)
        }
    }

    /// SHA-256 of the file's bytes; the server computes it, so that this module needs no cryptography.
    private func checksum(_ migration: Migration, _ session: PostgresSession) throws -> String {
        try session.execute("SELECT encode(sha256(\(Array(migration.sql.utf8))), 'hex') AS checksum").only()["checksum"]
    }
}

/// Why the schema was not brought up to date. No change of the failed migration remains.
package struct MigrationError: Error, Equatable, Sendable, CustomStringConvertible {
    package enum Code: Equatable, Sendable {
        /// The directory or a file in it cannot be used.
        case unusableFiles
        /// The database was migrated by a newer program than this one.
        case databaseIsNewer(database: Int, program: Int)
        /// An applied migration's file has other content than when it was applied.
        case edited(version: Int)
        /// A later migration is applied, this one is not.
        case outOfOrder(version: Int)
        /// Another instance held the lock for too long.
        case lockTimedOut
        case failed(version: Int?, PostgresError)
    }

    package let code: Code
    package let message: String

    package var description: String { message }
}

/// One step of the schema: SQL that runs once per database, in a transaction of its own.
package struct Migration: Equatable, Sendable {
    package let version: Int
    package let name: String
    package let sql: String

    package init(version: Int, name: String, sql: String) {
        self.version = version
        self.name = name
        self.sql = sql
    }

    /// Reads every `m0001_name.sql` of a directory, in order. Another `.sql` file there is an error: it would be forgotten silently.
    static func files(in directory: String) throws(MigrationError) -> [Migration] {
        let names: [String]
        do {
            names = try FileManager.default.contentsOfDirectory(atPath: directory)
        } catch {
            throw unusable("the migrations directory \(directory) cannot be read")
        }
        var migrations: [Migration] = []
        for file in names.sorted() where file.hasSuffix(".sql") {
            guard let (version, name) = parse(file) else { throw unusable("\(file) is not named like m0001_name.sql") }
            guard let bytes = FileManager.default.contents(atPath: "\(directory)/\(file)"),
                let sql = String(validating: bytes, as: UTF8.self)
            else { throw unusable("\(file) cannot be read as UTF-8") }
            migrations.append(Migration(version: version, name: name, sql: sql))
        }
        return migrations
    }

    private static func parse(_ file: String) -> (version: Int, name: String)? {
        guard file.first == "m", let separator = file.firstIndex(of: "_") else { return nil }
        let digits = file[file.index(after: file.startIndex)..<separator]
        let name = file[file.index(after: separator)...].dropLast(".sql".count)
        guard digits.count == 4, digits.utf8.allSatisfy({ (48...57).contains($0) }), let version = Int(digits), version > 0, !name.isEmpty
        else { return nil }
        return (version, String(name))
    }

    static func unusable(_ message: String) -> MigrationError { MigrationError(code: .unusableFiles, message: message) }
}
