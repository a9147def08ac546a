import Postgres
import Synchronization
import TestDatabase
import Testing

@Suite("COMMIT may travel with the last statements", .timeLimit(.minutes(5)))
struct CommitTests {
    private static let insert: PostgresStatement = "INSERT INTO note (id) VALUES ($1) RETURNING id"
    private static let count: PostgresStatement = "SELECT count(*) FROM note"

    @Test(.database) func whatWasDoneBeforeAndWithItIsCommitted() async throws {
        try await withNotes { pool in
            let answers = try await pool.transaction { session in
                try session.execute(Self.insert, [.int64(1)])
                return try session.commit(with: [(Self.insert, [.int64(2)]), (Self.insert, [.int64(3)])]).map { try $0.only().int64(0) }
            }
            #expect(answers == [2, 3])
            #expect(try await count(pool) == 3)
            // And where nothing came before.
            try await pool.transaction { session in _ = try session.commit(with: [(Self.insert, [.int64(4)])]) }
            #expect(try await count(pool) == 4)
        }
    }

    @Test(.database) func aStatementThatFailsThenCommitsNothing() async throws {
        try await withNotes { pool in
            let error = try await postgresError {
                try await pool.transaction { session in
                    try session.execute(Self.insert, [.int64(1)])
                    try session.commit(with: [(Self.insert, [.int64(2)]), (Self.insert, [.int64(2)])])
                }
            }
            #expect(error.code == .sqlState(.uniqueViolation))
            #expect(!error.isOutcomeUnknown)
            #expect(try await count(pool) == 0)
        }
    }

    @Test(.database) func anErrorThatWasSwallowedBeforeCannotPassForACommit() async throws {
        try await withNotes { pool in
            let error = try await postgresError {
                try await pool.transaction { session in
                    try session.execute(Self.insert, [.int64(1)])
                    #expect(throws: PostgresError.self) { try session.execute("SELECT 1 / 0") }
                    try session.commit(with: [])
                }
            }
            #expect(error.sqlState == SQLState("22012"))
            #expect(try await count(pool) == 0)
        }
    }

    @Test(.database) func nothingMayFollowAndNothingIsCommittedOutsideATransaction() async throws {
        try await withNotes { pool in
            let late = try await postgresError {
                try await pool.transaction { session in
                    try session.commit(with: [(Self.insert, [.int64(1)])])
                    try session.execute(Self.insert, [.int64(2)])
                }
            }
            #expect(late.code == .misuse)
            #expect(try await count(pool) == 1)
            let outside = try await postgresError { try await pool.session { session in _ = try session.commit(with: []) } }
            #expect(outside.code == .misuse)
        }
    }

    @Test(.database) func aConflictThenRunsTheWholeBodyAgain() async throws {
        try await withNotes { pool in
            try await pool.session { session in _ = try session.execute(Self.insert, [.int64(1)]) }
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
                _ = try session.commit(with: [("UPDATE note SET id = id + 10", [])])
            }
            await hasRead.wait()
            try await pool.session { session in _ = try session.execute("UPDATE note SET id = id + 1") }
            mayWrite.send()
            try await ours
            #expect(attempts.withLock { $0 } == 2)
            #expect(try await pool.session { session in try session.execute("SELECT id FROM note").only().int64(0) } == 12)
        }
    }

    private func withNotes(_ body: (PostgresPool) async throws -> Void) async throws {
        let pool = try #require(TestDatabase.current).pool
        try await pool.session { session in try session.simple("CREATE TABLE note (id bigint PRIMARY KEY)") }
        try await body(pool)
    }

    private func count(_ pool: PostgresPool) async throws -> Int64 {
        try await pool.session { session in try session.execute(Self.count).only().int64(0) }
    }
}
