import Postgres
import Synchronization
import TestDatabase
import Testing

@Suite("COMMIT may travel with the last statements", .timeLimit(.minutes(5)))
struct CommitTests {
    private static let count: PostgresQuery = "SELECT count(*) FROM note"

    private static func insert(_ id: Int64) -> PostgresQuery { "INSERT INTO note (id) VALUES (\(id)) RETURNING id" }

    @Test("COMMIT includes the statements before it and with it", .database) func commitsAll() async throws {
        try await withNotes { pool in
            let answers: [Int64] = try await pool.transaction { session in
                try session.execute(Self.insert(1))
                return try session.commit(with: [Self.insert(2), Self.insert(3)]).map { try $0.only()["id"] }
            }
            #expect(answers == [2, 3])
            #expect(try await count(pool) == 3)
            // Also without a statement before.
            try await pool.transaction { session in _ = try session.commit(with: [Self.insert(4)]) }
            #expect(try await count(pool) == 4)
        }
    }

    @Test("A statement that fails together with COMMIT commits nothing", .database) func failingStatement() async throws {
        try await withNotes { pool in
            let error = try await postgresError {
                try await pool.transaction { session in
                    try session.execute(Self.insert(1))
                    try session.commit(with: [Self.insert(2), Self.insert(2)])
                }
            }
            #expect(error.code == .sqlState(.uniqueViolation))
            #expect(!error.isOutcomeUnknown)
            #expect(try await count(pool) == 0)
        }
    }

    @Test("A swallowed earlier error fails the COMMIT", .database) func swallowedError() async throws {
        try await withNotes { pool in
            let error = try await postgresError {
                try await pool.transaction { session in
                    try session.execute(Self.insert(1))
                    #expect(throws: PostgresError.self) { try session.execute("SELECT 1 / 0") }
                    try session.commit(with: [])
                }
            }
            #expect(error.sqlState == SQLState("22012"))
            #expect(try await count(pool) == 0)
        }
    }

    @Test("No statement may follow COMMIT, and COMMIT needs a transaction", .database) func commitIsLast() async throws {
        try await withNotes { pool in
            let late = try await postgresError {
                try await pool.transaction { session in
                    try session.commit(with: [Self.insert(1)])
                    try session.execute(Self.insert(2))
                }
            }
            #expect(late.code == .misuse)
            #expect(try await count(pool) == 1)
            let outside = try await postgresError { try await pool.session { session in _ = try session.commit(with: []) } }
            #expect(outside.code == .misuse)
        }
    }

    @Test("A conflict at COMMIT runs the whole body again", .database) func runsAgain() async throws {
        try await withNotes { pool in
            try await pool.session { session in _ = try session.execute(Self.insert(1)) }
            let attempts = Mutex(0)
            let (hasRead, mayWrite) = (Signal(), Signal())
            async let ours: Void = pool.transaction(isolation: .repeatableRead) { session in
                let isFirst = attempts.withLock {
                    $0 += 1; return $0 == 1
                }
                _ = try session.execute(Self.count)
                if isFirst {
                    hasRead.send()
                    mayWrite.block()
                }
                _ = try session.commit(with: ["UPDATE note SET id = id + 10"])
            }
            await hasRead.wait()
            try await pool.session { session in _ = try session.execute("UPDATE note SET id = id + 1") }
            mayWrite.send()
            try await ours
            #expect(attempts.withLock { $0 } == 2)
            let id: Int64 = try await pool.session { session in try session.execute("SELECT id FROM note").only()["id"] }
            #expect(id == 12)
        }
    }

    private func withNotes(_ body: (PostgresPool) async throws -> Void) async throws {
        let pool = try #require(TestDatabase.current).pool
        try await pool.session { session in try session.simple("CREATE TABLE note (id bigint PRIMARY KEY)") }
        try await body(pool)
    }

    private func count(_ pool: PostgresPool) async throws -> Int64 {
        try await pool.session { session in try session.count(Self.count) }
    }
}
