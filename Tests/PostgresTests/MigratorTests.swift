import Foundation
import Postgres
import TestDatabase
import Testing

@Suite("Migrations bring any database to this program's schema", .timeLimit(.minutes(5)))
struct MigratorTests {
    private static let first = Migration(version: 1, name: "create_a", sql: "CREATE TABLE a (n int4); INSERT INTO a VALUES (1);")
    private static let second = Migration(version: 2, name: "create_b", sql: "CREATE TABLE b (n int4); -- done")

    @Test("The migrator applies missing migrations in order and once", .database) func appliesMissing() async throws {
        let pool = try pool()
        #expect(try await Migrator(migrations: [Self.first]).migrate(pool) == [1])
        #expect(try await Migrator(migrations: [Self.second, Self.first]).migrate(pool) == [2])
        #expect(try await Migrator(migrations: [Self.first, Self.second]).migrate(pool) == [])
        let recorded = try await pool.session { session in
            let lines: [String] = try session.execute(
                """
                SELECT concat_ws(' ', version, name, length(checksum), (applied_at <= now())::text) AS line
                FROM schema_migrations ORDER BY version
                """
            ).column("line")
            return lines
        }
        #expect(recorded == ["1 create_a 64 true", "2 create_b 64 true"])
    }

    @Test("Eight instances at once apply each migration once", .database) func manyInstances() async throws {
        let uri = try #require(TestDatabase.current).uri
        let migrations = (1...5).map { number in
            Migration(version: number, name: "step", sql: "CREATE TABLE t\(number) (n int4); SELECT pg_sleep(0.01);")
        }
        let applied = try await withThrowingTaskGroup(of: [Int].self) { group in
            for _ in 0..<8 {
                group.addTask { try await withPool(uri) { pool in try await Migrator(migrations: migrations).migrate(pool) } }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(applied.sorted() == [1, 2, 3, 4, 5])
    }

    @Test("The migrator refuses a newer database and names both versions", .database) func newerDatabase() async throws {
        let pool = try pool()
        try await Migrator(migrations: [Self.first, Self.second]).migrate(pool)
        let error = await #expect(throws: MigrationError.self) { try await Migrator(migrations: [Self.first]).migrate(pool) }
        #expect(error?.code == .databaseIsNewer(database: 2, program: 1))
        #expect(error?.message.contains("version 2") == true && error?.message.contains("only 1") == true)
    }

    @Test("The migrator refuses an edited file", .database) func editedFile() async throws {
        let pool = try pool()
        try await Migrator(migrations: [Self.first]).migrate(pool)
        let edited = Migration(version: 1, name: Self.first.name, sql: Self.first.sql + " ")
        let error = await #expect(throws: MigrationError.self) { try await Migrator(migrations: [edited, Self.second]).migrate(pool) }
        #expect(error?.code == .edited(version: 1))
        let isMissing: Bool = try await pool.session { session in
            try session.execute("SELECT to_regclass('b') IS NULL AS is_missing").only()["is_missing"]
        }
        #expect(isMissing)
    }

    @Test("The migrator refuses a gap in the applied migrations", .database) func gap() async throws {
        let pool = try pool()
        try await Migrator(migrations: [Self.first, Self.second]).migrate(pool)
        try await pool.session { session in try session.execute("DELETE FROM schema_migrations WHERE version = 1") }
        let error = await #expect(throws: MigrationError.self) { try await Migrator(migrations: [Self.first, Self.second]).migrate(pool) }
        #expect(error?.code == .outOfOrder(version: 1))
    }

    @Test("A failed migration leaves nothing, and earlier migrations stay", .database) func failedMigration() async throws {
        let pool = try pool()
        let broken = Migration(version: 2, name: "broken", sql: "CREATE TABLE b (n int4); SELECT 1 / 0;")
        let error = await #expect(throws: MigrationError.self) { try await Migrator(migrations: [Self.first, broken]).migrate(pool) }
        guard case .failed(version: 2, let cause) = error?.code else { return #expect(Bool(false), "\(String(describing: error))") }
        #expect(cause.sqlState == SQLState("22012"))
        // The migrator released the lock, so the corrected file applies.
        #expect(try await Migrator(migrations: [Self.first, Self.second]).migrate(pool, lockWait: .seconds(5)) == [2])
    }

    @Test("A migration may not commit itself", .database) func ownCommit() async throws {
        let sneaky = Migration(version: 1, name: "sneaky", sql: "CREATE TABLE a (n int4); COMMIT;")
        let error = await #expect(throws: MigrationError.self) { try await Migrator(migrations: [sneaky]).migrate(pool()) }
        guard case .failed(version: 1, let cause) = error?.code else { return #expect(Bool(false), "\(String(describing: error))") }
        #expect(cause.code == .misuse)
    }

    @Test("The migrator waits for another instance for a bounded time", .database) func boundedWait() async throws {
        let uri = try #require(TestDatabase.current).uri
        let pool = try pool()
        let (holds, release) = (Signal(), Signal())
        let blocking = Migration(version: 1, name: "slow", sql: "SELECT pg_advisory_lock(1)")
        async let blocked: Void = pool.session { session in
            try session.execute("SELECT pg_advisory_lock(1)")
            holds.send()
            release.block()
            session.discardConnection()
        }
        await holds.wait()
        // When the first instance waits for lock 1, it is inside its migration and holds the migration lock.
        async let slow = withPool(uri, { $0.lockTimeout = .seconds(20) }) { pool in try await Migrator(migrations: [blocking]).migrate(pool)
        }
        try await pool.session { session in
            let waits: PostgresQuery = """
                SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database
                WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()
                """
            while try session.count(waits) == 0 {}
        }
        let error = await #expect(throws: MigrationError.self) {
            try await Migrator(migrations: [Self.first]).migrate(pool, lockWait: .milliseconds(50))
        }
        #expect(error?.code == .lockTimedOut)
        release.send()
        _ = try await (blocked, slow)
    }

    @Test("The migrator reads its files in order") func fileOrder() throws {
        try withDirectory(["m0002_b.sql": "SELECT 2", "m0001_a_b.sql": "SELECT 'ä'", "README.md": "x"]) { directory in
            let migrations = try Migrator(directory: directory).migrations
            #expect(
                migrations == [Migration(version: 1, name: "a_b", sql: "SELECT 'ä'"), Migration(version: 2, name: "b", sql: "SELECT 2")])
        }
    }

    @Test(
        "The migrator refuses files that it would otherwise skip",
        arguments: [
            ["m0001_a.sql", "m0003_c.sql"], ["m0001_a.sql", "m0001_b.sql"], ["m0002_b.sql"], ["0001_a.sql"], ["m001_a.sql"], ["m0001_.sql"],
            ["m0001a.sql"], ["m0000_a.sql"], ["m00x1_a.sql"],
        ])
    func unusableNames(_ names: [String]) throws {
        try withDirectory(Dictionary(uniqueKeysWithValues: names.map { ($0, "SELECT 1") })) { directory in
            let error = #expect(throws: MigrationError.self) { try Migrator(directory: directory) }
            #expect(error?.code == .unusableFiles)
        }
    }

    @Test("The migrator refuses a missing directory") func missingDirectory() {
        let error = #expect(throws: MigrationError.self) { try Migrator(directory: "/nowhere/at/all") }
        #expect(error?.message.contains("/nowhere/at/all") == true)
    }

    private func pool() throws -> PostgresPool { try #require(TestDatabase.current).pool }

    private func withDirectory(_ files: [String: String], _ body: (String) throws -> Void) throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "migrations-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { #expect(throws: Never.self) { try FileManager.default.removeItem(at: directory) } }
        for (name, content) in files { try Data(content.utf8).write(to: directory.appending(path: name)) }
        try body(directory.path)
    }
}
