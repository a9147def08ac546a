import Postgres
import TestDatabase
import Testing

@Suite("A server that stops answering blocks no caller", .timeLimit(.minutes(5)))
struct FaultTests {
    @Test("A server that accepts and never answers fails the connect") func muteServer() async throws {
        try await withProxy(.silence, { $0.connectTimeout = .milliseconds(100) }) { pool, proxy in
            let error = try await postgresError { try await pool.session { session in try session.execute("SELECT 1") } }
            #expect(error.code == .connectionFailed)
            #expect(error.message.contains("no answer within the connect timeout"))
            // The proxy's thread may be late.
            while proxy.connections == 0 { await Task.yield() }
            #expect(proxy.connections == 1)
        }
    }

    @Test("The caller's deadline covers connecting") func coversConnecting() async throws {
        try await withProxy(.silence) { pool, _ in
            let error = try await postgresError {
                try await pool.session(deadline: .milliseconds(50)) { session in try session.execute("SELECT 1") }
            }
            #expect(error.code == .connectionFailed)
        }
    }

    @Test("The pool closes a connection that freezes during a statement at the deadline") func frozenStatement() async throws {
        try await withProxy(.freeze(at: "frozen")) { pool, proxy in
            try await pool.session { session in try session.execute("SELECT 1") }
            let error = try await postgresError {
                // Time enough to send the statement.
                try await pool.session(deadline: .seconds(5)) { session in try session.execute("SELECT 'frozen'") }
            }
            #expect(error.code == .deadlineExceeded(outcomeUnknown: true))
            #expect(error.description.contains("the connection was closed"))
            try await pool.session { session in try session.execute("SELECT 1") }
            #expect(proxy.connections == 2)
        }
    }

    @Test("Without a deadline the operation timeout applies") func operationTimeout() async throws {
        let change: (inout PostgresConfiguration) -> Void = {
            // Time enough for BEGIN.
            $0.statementTimeout = .seconds(2)
            $0.answerGrace = .seconds(1)
        }
        try await withProxy(.freeze(at: "frozen"), change) { pool, _ in
            let error = try await postgresError {
                try await pool.transaction { session in try session.execute("SELECT 'frozen'") }
            }
            #expect(error.code == .deadlineExceeded(outcomeUnknown: false))
            let simple = try await postgresError { try await pool.session { session in try session.simple("SELECT 'frozen'") } }
            #expect(simple.code == .deadlineExceeded(outcomeUnknown: true))
        }
    }

    @Test("A frozen COMMIT has an unknown outcome") func frozenCommit() async throws {
        try await withProxy(.freeze(at: Self.commit)) { pool, _ in
            try await pool.session { session in try session.execute("SELECT 1") }
            let error = try await postgresError {
                // Time enough for everything before the COMMIT.
                try await pool.transaction(deadline: .seconds(5)) { session in try session.execute("SELECT 1") }
            }
            #expect(error.code == .deadlineExceeded(outcomeUnknown: true))
            #expect(error.isOutcomeUnknown && !error.isRetriable)
        }
    }

    @Test("After a deadline between two statements the session sends nothing more") func passedDeadline() async throws {
        try await withPool(TestServer.uri()) { pool in
            try await pool.session { session in try session.execute("SELECT 1") }
            let error = try await postgresError {
                try await pool.transaction(deadline: .seconds(2)) { session in
                    while true { try session.execute("SELECT 1") }
                }
            }
            #expect(error.code == .deadlineExceeded(outcomeUnknown: false))
        }
    }

    @Test("A lost answer to COMMIT is an unknown outcome", .database, arguments: [true, false])
    func lostCommit(_ reachesTheServer: Bool) async throws {
        let database = try #require(TestDatabase.current)
        try await database.pool.session { session in try session.simple("CREATE TABLE item (id int8 PRIMARY KEY)") }
        let fault: FaultProxy.Fault = reachesTheServer ? .cutAfterAnswer(to: Self.commit) : .cutBefore(Self.commit)
        try await withProxy(fault, uri: database.uri) { pool, _ in
            let error = try await postgresError {
                try await pool.transaction { session in try session.execute("INSERT INTO item VALUES (1)") }
            }
            #expect(error.code == .connectionLost(outcomeUnknown: true))
            #expect(error.operation == "COMMIT")
            #expect(!error.isRetriable && error.isUnavailable)
        }
        // The outcome is unknown indeed: the row is there in one case only.
        let count = try await database.pool.session { session in try session.count("SELECT count(*) FROM item") }
        #expect(count == (reachesTheServer ? 1 : 0))
    }

    @Test("A lost answer to a statement that commits itself is an unknown outcome", .database) func lostAutocommit() async throws {
        let database = try #require(TestDatabase.current)
        try await withProxy(.cutAfterAnswer(to: "CREATE TABLE"), uri: database.uri) { pool, _ in
            let error = try await postgresError { try await pool.session { session in try session.execute("CREATE TABLE item (id int8)") } }
            #expect(error.code == .connectionLost(outcomeUnknown: true))
        }
    }

    @Test("A lost statement in a transaction has a known outcome") func lostInTransaction() async throws {
        try await withProxy(.cutAfterAnswer(to: "lost")) { pool, _ in
            let error = try await postgresError {
                try await pool.transaction { session in
                    try session.execute("SELECT 1")
                    try session.execute("SELECT 'lost'")
                }
            }
            #expect(error.code == .connectionLost(outcomeUnknown: false))
            #expect(error.sqlState == nil)
        }
    }

    /// The text as the Parse message carries it. Without the final NUL it would also match `BEGIN … READ COMMITTED`.
    private static let commit = "COMMIT\0"

    private func withProxy(
        _ fault: FaultProxy.Fault, uri: String? = nil, _ change: (inout PostgresConfiguration) -> Void = { _ in },
        _ body: (PostgresPool, FaultProxy) async throws -> Void
    ) async throws {
        let server = try ServerURI(uri ?? TestServer.uri())
        let proxy = try FaultProxy(to: server.port, fault)
        defer { proxy.stop() }
        try await withPool(server.with(port: proxy.port), change) { pool in try await body(pool, proxy) }
    }
}
