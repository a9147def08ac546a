import Postgres
import TestDatabase
import TestSupport
import Testing

@Suite("What fails is told apart", .timeLimit(.minutes(5)))
struct FailureTests {
    @Test func aTerminatedSessionKeepsItsFirstCode() async throws {
        try await withServer { pool in
            let error = try await postgresError {
                try await pool.session { session in try session.execute("SELECT pg_terminate_backend(pg_backend_pid())") }
            }
            #expect(error.sqlState == .adminShutdown)
            #expect(error.code == .connectionLost(outcomeUnknown: true))
            #expect(error.message == "terminating connection due to administrator command")
            // The pool goes on with another connection.
            try await pool.session { session in try session.execute("SELECT 1") }
        }
    }

    @Test func insideATransactionALostStatementIsKnownToBeUndone() async throws {
        try await withServer { pool in
            let error = try await postgresError {
                try await pool.transaction { session in
                    try session.execute("SELECT 1")
                    try session.execute("SELECT pg_terminate_backend(pg_backend_pid())")
                }
            }
            #expect(error.sqlState == .adminShutdown)
            #expect(error.code == .connectionLost(outcomeUnknown: false))
            #expect(error.isRetriable && error.isUnavailable)
        }
    }

    @Test func afterALossTheSessionSaysSoAgain() async throws {
        try await withServer { pool in
            try await pool.session { session in
                #expect(throws: PostgresError.self) { try session.simple("SELECT pg_terminate_backend(pg_backend_pid())") }
                let error = #expect(throws: PostgresError.self) { try session.execute("SELECT 1") }
                #expect(error?.sqlState == .adminShutdown)
            }
        }
    }

    @Test func aConnectionThatDiedWhileIdleIsNoticedAtCheckOut() async throws {
        try await withServer { pool in
            let dead = try await pool.session { session in try session.processID() }
            try await withServer { other in
                // Waits until the backend is gone.
                _ = try await other.session { session in try session.execute("SELECT pg_terminate_backend(\(dead), 10000)") }
            }
            let next = try await pool.session { session in try session.processID() }
            #expect(next != dead)
        }
    }

    @Test func aStatementThatTakesTooLongIsCancelledByTheServer() async throws {
        try await withServer({ $0.statementTimeout = .milliseconds(50) }) { pool in
            try await pool.session { session in
                let error = #expect(throws: PostgresError.self) { try session.execute("SELECT pg_sleep(30)") }
                #expect(error?.code == .sqlState(.queryCanceled))
                #expect(error?.isUnavailable == true)
                try session.execute("SELECT 1")
            }
        }
    }

    @Test func aLockThatIsNotFreeIsAnErrorAfterTheLockTimeout() async throws {
        try await withServer({ $0.lockTimeout = .milliseconds(50) }) { pool in
            let key = Int64.random(in: .min ... .max)
            try await pool.session { session in
                try session.execute("SELECT pg_advisory_lock(\(key))")
                session.discardConnection()
                // Another connection of the same pool, from this one's thread.
                let (done, code) = (Signal(), Recorder<PostgresError.Code>())
                Task {
                    let error = await #expect(throws: PostgresError.self) {
                        try await pool.transaction { session in try session.execute("SELECT pg_advisory_xact_lock(\(key))") }
                    }
                    if let error { code.record(error.code) }
                    done.send()
                }
                done.block()
                #expect(code.records == [.sqlState(.lockNotAvailable)])
            }
        }
    }

    @Test(.database) func aServerThatBecameReadOnlyIsLeft() async throws {
        let database = try #require(TestDatabase.current)
        let (first, error) = try await database.pool.session { session in
            try session.simple("CREATE TABLE a (n int4); SET default_transaction_read_only = on")
            let pid = try session.processID()
            return (pid, #expect(throws: PostgresError.self) { try session.execute("INSERT INTO a VALUES (1)") })
        }
        #expect(error?.code == .sqlState(.readOnlyTransaction))
        #expect(error?.isRetriable == true)
        let second = try await database.pool.session { session in try session.processID() }
        #expect(second != first)
    }

    /// The server's DETAIL quotes the row, its primary message for class 22 the value; neither may reach a log.
    @Test(.database) func noErrorShowsData() async throws {
        let pool = try #require(TestDatabase.current).pool
        try await pool.session { session in
            try session.simple("CREATE TABLE person (name text UNIQUE, age int4 CHECK (age > 0))")
            try session.execute("INSERT INTO person VALUES ('sesame', 1)")
            let secret = "sesame"
            let queries: [PostgresQuery] = [
                "INSERT INTO person VALUES (\(secret), 2)", "INSERT INTO person VALUES (\(secret), -1)", "SELECT \(secret)::int4",
                "SELECT \(secret)::text::uuid", "SELECT \(json: "{sesame")", "SELECT \(secret)::text::timestamptz",
            ]
            for query in queries {
                let error = try #require(#expect(throws: PostgresError.self) { try session.execute(query) })
                #expect(!"\(error)".contains("sesame") && error.sqlState != nil)
            }
        }
    }

    @Test func isHealthyTellsWhetherTheDatabaseAnswers() async throws {
        // An answer that takes over a second is none: on a busy machine the first may be late.
        try await withServer { pool in
            var answers: [Bool] = []
            while answers.last != true, answers.count < 30 { answers.append(await pool.isHealthy()) }
            #expect(answers.last == true)
        }
        try await withPool("postgresql://postgres@127.0.0.1:\(FreePorts.closed)/postgres") { pool in
            #expect(await pool.isHealthy() == false)
        }
    }

    private func withServer(
        _ change: (inout PostgresConfiguration) -> Void = { _ in }, _ body: (PostgresPool) async throws -> Void
    ) async throws {
        try await withPool(TestServer.uri(), change, body)
    }
}
