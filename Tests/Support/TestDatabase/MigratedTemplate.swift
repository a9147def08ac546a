internal import FoundationEssentials
import Postgres

/// Migrated databases that tests get copies of: applying every migration anew would cost more than most tests.
///
/// One for each content of the migrations; it stays on the server for the next run.
actor MigratedTemplate {
    static let shared = MigratedTemplate()

    private var made: [String: Task<String, any Error>] = [:]

    /// - Parameter directory: Of `m0001_name.sql`.
    /// - Returns: the name of a database without connections.
    func name(of directory: String) async throws -> String {
        let task = made[directory] ?? Task { try await Self.make(directory) }
        made[directory] = task
        return try await task.value
    }

    private static func make(_ directory: String) async throws -> String {
        let migrator = try Migrator(directory: directory)
        // A template's periods begin on the day that it was made.
        let day = Int(Date().timeIntervalSince1970) / 86_400
        let name = "push_template_\(fingerprint(migrator.migrations))_\(day)"
        if try await exists(name) { return name }
        // It has another name until it is complete, because another run copies a database under the final name.
        let unfinished = try await TestDatabase.create(from: "template0")
        do {
            try await migrator.migrate(unfinished.pool)
            await unfinished.pool.close()
            try await TestDatabase.administer("ALTER DATABASE \(unfinished.name) RENAME TO \(name)")
        } catch {
            try await unfinished.drop()
            // Another run has made it first.
            guard try await exists(name) else { throw error }
        }
        return name
    }

    private static func exists(_ name: String) async throws -> Bool {
        try await TestDatabase.onServer { session in
            try !session.execute("SELECT FROM pg_database WHERE datname = \(name)").isEmpty
        }
    }

    /// FNV-1a of the migrations' content.
    private static func fingerprint(_ migrations: [Migration]) -> String {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in migrations.flatMap({ Array(($0.name + $0.sql).utf8) }) { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        return String(hash, radix: 16)
    }
}
