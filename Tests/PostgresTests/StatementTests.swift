import Postgres
import TestDatabase
import Testing

@Suite("Statements are prepared once and prepared again when need be", .timeLimit(.minutes(5)))
struct StatementTests {
    private static let prepared: PostgresStatement = "SELECT statement, name FROM pg_prepared_statements ORDER BY name"

    @Test func aStatementIsPreparedOncePerConnection() async throws {
        try await withServer { session in
            for number in 0..<5 { try session.execute("SELECT $1 + 1", [.int64(Int64(number))]) }
            try session.pipeline([("SELECT $1 + 2", [.int64(1)]), ("SELECT $1 + 2", [.int64(2)]), ("SELECT $1 + 1", [.int64(2)])])
            let names = try session.execute(Self.prepared).filter { row in try row.text(0).contains("$1") }
            #expect(names.count == 2)
        }
    }

    @Test func aNullNeedsNoStatementOfItsOwn() async throws {
        try await withServer { session in
            try session.execute("SELECT $1 + 1", [.optionalInt64(nil)])
            try session.execute("SELECT $1 + 1", [.int64(1)])
            try session.execute("SELECT $1 + 1", [.null])
            try #expect(session.execute(Self.prepared).filter { row in try row.text(0).contains("$1") }.count == 1)
            // Another type is another statement.
            try #expect(session.execute("SELECT $1 + 1", [.int32(.max - 1)]).only().int32(0) == .max)
        }
    }

    @Test func aForgottenStatementIsPreparedAgain() async throws {
        try await withServer { session in
            try session.execute("SELECT $1 + 1", [.int64(1)])
            try session.simple("DEALLOCATE ALL")
            try #expect(session.execute("SELECT $1 + 1", [.int64(2)]).only().int64(0) == 3)
        }
    }

    @Test func aForgottenStatementIsPreparedAgainInATransactionThatIsRunAnew() async throws {
        try await withServer(poolSize: 1) { pool in
            try await pool.session { session in
                try session.execute("SELECT $1 + 1", [.int64(1)])
                try session.simple("DEALLOCATE ALL")
            }
            let sum = try await pool.transaction { session in try session.execute("SELECT $1 + 1", [.int64(2)]).only().int64(0) }
            #expect(sum == 3)
        }
    }

    @Test func aStatementWhoseResultChangedShapeIsPreparedAgain() async throws {
        try await withServer { session in
            try session.simple("CREATE TEMPORARY TABLE shape (a int4); INSERT INTO shape VALUES (1)")
            try #expect(session.execute("SELECT * FROM shape").only().columnCount == 1)
            try session.simple("ALTER TABLE shape ADD COLUMN b text DEFAULT 'b'")
            try #expect(session.execute("SELECT * FROM shape").only().text(1) == "b")
            try #expect(session.execute("SELECT * FROM shape").only().columnCount == 2)
        }
    }

    @Test func somethingThatIsNotSupportedIsNotTriedForEver() async throws {
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

    @Test func severalCommandsInOneStringGoThroughSimple() async throws {
        try await withServer { session in
            try session.simple("CREATE TEMPORARY TABLE a (n int4); INSERT INTO a VALUES (1); INSERT INTO a VALUES (2); SELECT * FROM a")
            try #expect(session.execute("SELECT count(*) FROM a").only().int64(0) == 2)
            let error = #expect(throws: PostgresError.self) { try session.simple("INSERT INTO a VALUES (3); SELECT 1 / 0") }
            #expect(error?.sqlState == SQLState("22012"))
            try #expect(session.execute("SELECT count(*) FROM a").only().int64(0) == 2)
        }
    }

    @Test(arguments: [true, false])
    func copyIsRefusedAndCannotWedgeTheConnection(_ isSimple: Bool) async throws {
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

    @Test func theSessionSettingsAreInForce() async throws {
        let uri = try TestServer.uri()
        var configuration = try PostgresConfiguration(uri: uri)
        configuration.applicationName = "push settings"
        configuration.connectTimeout = TestServer.connectTimeout
        let pool = PostgresPool(configuration)
        let settings = try await pool.session { session in
            let row = try session.execute(
                """
                SELECT current_setting('statement_timeout'), current_setting('lock_timeout'),
                       current_setting('idle_in_transaction_session_timeout'), current_setting('application_name'),
                       current_setting('client_encoding'), current_setting('TimeZone')
                """
            ).only()
            return try (0..<row.columnCount).map { column in try row.text(column) }
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
