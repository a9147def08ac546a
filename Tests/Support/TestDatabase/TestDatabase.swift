package import Postgres

/// A database of one test on the real server. It is created for the test and dropped afterwards in every case.
package struct TestDatabase: Sendable {
    package let name: String
    /// A libpq URI, for tests that open their own connections.
    package let uri: String
    /// Closed by ``withTestDatabase(migrations:poolSize:_:)``.
    package let pool: PostgresPool

    /// The database of the running test, where the `.database` trait gave it one.
    @TaskLocal package static var current: TestDatabase?

    static func create(migrations: String?, poolSize: Int) async throws -> TestDatabase {
        // First, so that each test is skipped by itself: the template is made once, in a task that they share.
        _ = try TestServer.uri()
        guard let migrations else { return try await create(from: "template0", poolSize: poolSize) }
        return try await create(from: try await MigratedTemplate.shared.name(of: migrations), poolSize: poolSize)
    }

    /// - Parameter template: A database without connections, because a connection would make the copy fail.
    static func create(from template: String, poolSize: Int = 1) async throws -> TestDatabase {
        let name = "push_test_" + String(UInt64.random(in: 0x1000_0000_0000_0000 ... .max), radix: 16)
        // Copies the files, with the caches of the catalogue: a fifth less of PostgreSQL's processor time for a test.
        try await administer("CREATE DATABASE \(name) TEMPLATE \(template) STRATEGY file_copy ENCODING 'UTF8'")
        let uri = try TestServer.uri(database: name)
        var configuration = try TestServer.configuration(uri: uri)
        configuration.poolSize = poolSize
        return TestDatabase(name: name, uri: uri, pool: PostgresPool(configuration))
    }

    /// Runs in its own task, because a test that exceeds its time limit is cancelled, and the database must go in that case too.
    func drop() async throws {
        try await Task {
            await pool.close()
            try await Self.administer("DROP DATABASE IF EXISTS \(name) WITH (FORCE)")
        }.value
    }

    /// `sql` holds only fixed text and names that the tests made.
    static func administer(_ sql: String) async throws {
        try await onServer { session in try session.simple(sql) }
    }

    static func onServer<R: Sendable>(_ body: @escaping @Sendable (PostgresSession) throws -> R) async throws -> R {
        var configuration = try TestServer.configuration(uri: TestServer.uri())
        // Copies of a template wait for each other, and for the disk.
        configuration.statementTimeout = .seconds(180)
        configuration.poolSize = 1
        let server = PostgresPool(configuration)
        let result: Result<R, any Error>
        do {
            result = .success(try await server.session { session in try body(session) })
        } catch {
            result = .failure(error)
        }
        await server.close()
        return try result.get()
    }
}

/// Creates a database, applies `migrations` (a directory of `m0001_name.sql`) if given, runs `body` with a pool on it and its libpq
/// URI, and drops it, also when `body` throws.
package func withTestDatabase<R: Sendable>(
    migrations: String? = nil, poolSize: Int = 8, _ body: (PostgresPool, String) async throws -> R
) async throws -> R {
    let database = try await TestDatabase.create(migrations: migrations, poolSize: poolSize)
    let result: R
    do {
        result = try await body(database.pool, database.uri)
    } catch {
        try await database.drop()
        throw error
    }
    try await database.drop()
    return result
}
