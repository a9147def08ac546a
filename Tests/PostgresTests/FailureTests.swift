import Postgres
import TestDatabase
import TestSupport
import Testing

@Suite("The module distinguishes failures", .timeLimit(.minutes(5)))
struct FailureTests {
    @Test("A terminated session keeps its first error code") func firstCode() async throws {
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

    @Test("A lost statement in a transaction is known to be undone") func lostStatement() async throws {
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

    @Test("A session whose connection is lost reports it again") func reportsAgain() async throws {
        try await withServer { pool in
            try await pool.session { session in
                #expect(throws: PostgresError.self) { try session.simple("SELECT pg_terminate_backend(pg_backend_pid())") }
                let error = #expect(throws: PostgresError.self) { try session.execute("SELECT 1") }
                #expect(error?.sqlState == .adminShutdown)
            }
        }
    }

    @Test("The pool notices a connection that died while idle at check-out") func diedIdle() async throws {
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

    @Test("The server cancels a statement that takes too long") func slowStatement() async throws {
        // Time enough for the statement that comes after.
        try await withServer({ $0.statementTimeout = .seconds(2) }) { pool in
            try await pool.session { session in
                let error = #expect(throws: PostgresError.self) { try session.execute("SELECT pg_sleep(30)") }
                #expect(error?.code == .sqlState(.queryCanceled))
                #expect(error?.isUnavailable == true)
                try session.execute("SELECT 1")
            }
        }
    }

    @Test("A lock that is not free is an error after the lock timeout") func busyLock() async throws {
        try await withServer({ $0.lockTimeout = .milliseconds(50) }) { pool in
            let key = Int64.random(in: .min ... .max)
            try await pool.session { session in
                try session.execute("SELECT pg_advisory_lock(\(key))")
                session.discardConnection()
                // Another connection of the same pool waits for the lock, started from the first one's thread.
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

    @Test("The pool leaves a server that became read-only", .database) func becameReadOnly() async throws {
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

    /// The server's DETAIL quotes the row, and its primary message for class 22 quotes the value. Neither may reach a log.
    @Test("No error shows data", .database) func hiddenData() async throws {
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

    @Test("`isHealthy` reports whether the database answers") func health() async throws {
        // An answer that takes over a second counts as none. On a busy machine the first may be late.
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
