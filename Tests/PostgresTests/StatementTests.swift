import Postgres
import TestDatabase
import Testing

@Suite("A session prepares statements once, and again if needed", .timeLimit(.minutes(5)))
struct StatementTests {
    /// How many statements with parameters the session has prepared.
    private static let prepared: PostgresQuery = "SELECT count(*) FROM pg_prepared_statements WHERE cardinality(parameter_types) > 0"

    @Test("A session prepares a statement once per connection") func preparedOnce() async throws {
        try await withServer { session in
            for number in 0..<5 { _ = try Self.sum(Int64(number), session) }
            try session.pipeline(["SELECT \(1) + 2", "SELECT \(2) + 2", "SELECT \(2) + 1 AS sum"])
            let count = try session.count(Self.prepared)
            #expect(count == 2)
        }
    }

    @Test("NULL needs no statement of its own") func nullParameter() async throws {
        try await withServer { session in
            try session.execute("SELECT \(nil as Int64?) + 1 AS sum")
            _ = try Self.sum(1, session)
            let one = try session.count(Self.prepared)
            #expect(one == 1)
            // Another type is another statement.
            let sum: Int32 = try session.execute("SELECT \(Int32.max - 1) + 1 AS sum").only()["sum"]
            #expect(sum == .max)
            let two = try session.count(Self.prepared)
            #expect(two == 2)
        }
    }

    @Test("A session prepares a forgotten statement again") func preparesAgain() async throws {
        try await withServer { session in
            _ = try Self.sum(1, session)
            try session.simple("DEALLOCATE ALL")
            let sum = try Self.sum(2, session)
            #expect(sum == 3)
        }
    }

    @Test("A transaction that runs again prepares a forgotten statement again") func preparesInTransaction() async throws {
        try await withServer(poolSize: 1) { pool in
            try await pool.session { session in
                _ = try Self.sum(1, session)
                try session.simple("DEALLOCATE ALL")
            }
            let sum = try await pool.transaction { session in try Self.sum(2, session) }
            #expect(sum == 3)
        }
    }

    private static func sum(_ number: Int64, _ session: PostgresSession) throws(PostgresError) -> Int64 {
        try session.execute("SELECT \(number) + 1 AS sum").only()["sum"]
    }

    @Test("A session prepares a statement again whose result changed its shape") func changedShape() async throws {
        try await withServer { session in
            try session.simple("CREATE TEMPORARY TABLE shape (a int4); INSERT INTO shape VALUES (1)")
            let before = try session.execute("SELECT * FROM shape").only()
            #expect(throws: PostgresError.self) { let _: String = try before["b"] }
            try session.simple("ALTER TABLE shape ADD COLUMN b text DEFAULT 'b'")
            for _ in 0..<2 {
                let after = try session.execute("SELECT * FROM shape").only()
                let (a, b): (Int32, String) = (try after["a"], try after["b"])
                #expect(a == 1 && b == "b")
            }
        }
    }

    @Test("A session does not retry an unsupported feature for ever") func unsupportedFeature() async throws {
        try await withServer { session in
            try session.execute(
                """
                CREATE FUNCTION pg_temp.unsupported() RETURNS void LANGUAGE plpgsql
                AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '0A000'; END $$
                """
            )
            for _ in 0..<2 {
                let error = #expect(throws: PostgresError.self) { try session.execute("SELECT pg_temp.unsupported()") }
                #expect(error?.code == .sqlState(.featureNotSupported))
            }
        }
    }

    @Test("`simple` runs several commands in one string") func severalCommands() async throws {
        try await withServer { session in
            try session.simple("CREATE TEMPORARY TABLE a (n int4); INSERT INTO a VALUES (1); INSERT INTO a VALUES (2); SELECT * FROM a")
            let before = try session.count("SELECT count(*) FROM a")
            #expect(before == 2)
            let error = #expect(throws: PostgresError.self) { try session.simple("INSERT INTO a VALUES (3); SELECT 1 / 0") }
            #expect(error?.sqlState == SQLState("22012"))
            let after = try session.count("SELECT count(*) FROM a")
            #expect(after == 2)
        }
    }

    @Test("A session refuses COPY, and the connection still works", arguments: [true, false])
    func refusesCopy(_ isSimple: Bool) async throws {
        try await withServer(poolSize: 1) { pool in
            let error = try await postgresError {
                try await pool.session { session in
                    if isSimple { try session.simple("COPY (SELECT 1) TO STDOUT") } else { try session.execute("COPY pg_class FROM STDIN") }
                }
            }
            #expect(error.message.contains("COPY"))
            try await pool.session { session in try session.execute("SELECT 1") }
        }
    }

    @Test("The session settings apply") func settingsApply() async throws {
        let uri = try TestServer.uri()
        var configuration = try PostgresConfiguration(uri: uri)
        configuration.applicationName = "push settings"
        configuration.connectTimeout = TestServer.connectTimeout
        let pool = PostgresPool(configuration)
        let settings: [String] = try await pool.session { session in
            try session.execute(
                """
                SELECT ARRAY[current_setting('statement_timeout'), current_setting('lock_timeout'),
                    current_setting('idle_in_transaction_session_timeout'), current_setting('application_name'),
                    current_setting('client_encoding'), current_setting('TimeZone')] AS settings
                """
            ).only()["settings"]
        }
        await pool.close()
        #expect(settings == ["2s", "500ms", "5s", "push settings", "UTF8", "UTC"])
    }

    private func withServer(_ body: @escaping @Sendable (PostgresSession) throws -> Void) async throws {
        try await withServer(poolSize: 1) { pool in try await pool.session(body) }
    }

    private func withServer(poolSize: Int, _ body: (PostgresPool) async throws -> Void) async throws {
        try await withPool(TestServer.uri(), { $0.poolSize = poolSize }, body)
    }
}
