import Postgres
import TestDatabase
import TestSupport
import Testing

/// A connection may break at any byte. The pool must report the break in time, and report correctly what was committed.
@Suite("A connection to PostgreSQL that breaks after any number of bytes", .timeLimit(.minutes(5)))
struct ByteSweepTests {
    typealias Way = LinkConditions.Way

    @Test("A connection that breaks early is an error, and the pool makes the next one", arguments: [true, false])
    func earlyBreak(isTowardsServer: Bool) async throws {
        try await withLink(to: TestServer.uri()) { uri, link in
            for bytes in 0...400 {
                link.set(Self.conditions(isTowardsServer, .ending(after: bytes, .reset)))
                try await withPool(uri) { pool in
                    do {
                        try await Self.select(pool)
                    } catch let error as PostgresError {
                        // The break may come in the middle of the statement. The outcome of a single statement is then unknown.
                        #expect(error.isUnavailable, "after \(bytes) bytes: \(error)")
                    }
                }
                // A pool that just failed does not try again at once, so use another one.
                link.set(.forwarding)
                try await withPool(uri) { pool in try await Self.select(pool) }
            }
        }
    }

    @Test("A broken connection ends its transaction, and the pool reports its outcome correctly", .database, arguments: [true, false])
    func transactionOutcome(isTowardsServer: Bool) async throws {
        let database = try #require(TestDatabase.current)
        try await database.pool.session { session in try session.simple("CREATE TABLE item (id int8 PRIMARY KEY)") }
        try await withLink(to: database.uri) { uri, link in
            var committed: Set<Int64> = []
            var doubtful: Set<Int64> = []
            try await withPool(uri, { $0.poolSize = 1 }) { pool in
                for bytes in 0...400 as ClosedRange<Int64> {
                    link.set(.forwarding)
                    // The link breaks an existing, working connection.
                    while true {
                        do {
                            try await Self.select(pool)
                            break
                        } catch let error as PostgresError { #expect(error.isUnavailable, "\(error)") }
                    }
                    link.set(Self.conditions(isTowardsServer, .ending(after: Int(bytes), .reset)))
                    do {
                        try await pool.transaction { session in
                            try session.execute("INSERT INTO item VALUES (\(bytes))")
                        }
                        committed.insert(bytes)
                    } catch let error as PostgresError {
                        #expect(error.isUnavailable, "after \(bytes) bytes: \(error)")
                        if error.isOutcomeUnknown { doubtful.insert(bytes) }
                    }
                }
            }
            let there: Set<Int64> = try await database.pool.session { session in
                Set(try session.execute("SELECT id FROM item").column("id"))
            }
            #expect(committed.isSubset(of: there), "reported as committed and lost")
            #expect(there.isSubset(of: committed.union(doubtful)), "reported as failed and committed")
            #expect(!doubtful.isEmpty || isTowardsServer)
        }
    }

    @Test("The pool gives up a silent connection at its timeout", arguments: [true, false])
    func silentConnection(isTowardsServer: Bool) async throws {
        try await withLink(to: TestServer.uri()) { uri, link in
            for bytes in stride(from: 0, through: 400, by: 57) {
                link.set(Self.conditions(isTowardsServer, .ending(after: bytes, .silence)))
                try await withPool(uri, { $0.connectTimeout = .milliseconds(200) }) { pool in
                    do {
                        try await pool.session(deadline: .milliseconds(400)) { session in
                            try session.execute("SELECT 1")
                        }
                    } catch let error as PostgresError {
                        #expect(error.isUnavailable, "after \(bytes) bytes: \(error)")
                    }
                    link.set(.forwarding)
                }
            }
        }
    }

    private static func conditions(_ isTowardsServer: Bool, _ way: Way) -> LinkConditions {
        isTowardsServer ? LinkConditions(toServer: way) : LinkConditions(toClient: way)
    }

    private static func select(_ pool: PostgresPool) async throws {
        try await pool.session { session in try session.execute("SELECT 1") }
    }

    private func withLink(to uri: String, _ body: (String, TestSupport.FaultProxy) async throws -> Void) async throws {
        let server = try ServerURI(uri)
        let link = try TestSupport.FaultProxy(port: Int(server.port))
        defer { link.stop() }
        try await body(server.with(port: UInt16(link.port)), link)
    }
}
