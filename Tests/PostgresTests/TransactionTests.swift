import Postgres
import Synchronization
import TestDatabase
import Testing

@Suite("A transaction commits as a whole or not at all", .timeLimit(.minutes(5)))
struct TransactionTests {
    private static func read(_ id: Int64) -> PostgresQuery { "SELECT balance FROM account WHERE id = \(id)" }

    private static func add(_ amount: Int64, to id: Int64) -> PostgresQuery {
        "UPDATE account SET balance = balance + \(amount) WHERE id = \(id)"
    }

    private static func write(_ balance: Int64, to id: Int64) -> PostgresQuery {
        "UPDATE account SET balance = \(balance) WHERE id = \(id)"
    }

    private struct Refusal: Error, Equatable {}

    @Test("A transaction commits when its body returns", .database) func commits() async throws {
        try await withAccounts { pool in
            try await pool.transaction { session in
                try session.execute(Self.add(5, to: 1))
                try session.execute(Self.add(-5, to: 2))
            }
            try await expect(pool, [105, 95])
        }
    }

    @Test("An error of the body rolls back and is thrown unchanged", .database) func bodyError() async throws {
        try await withAccounts { pool in
            await #expect(throws: Refusal()) {
                try await pool.transaction { session in
                    try session.execute(Self.add(5, to: 1))
                    throw Refusal()
                }
            }
            try await expect(pool, [100, 100])
        }
    }

    @Test("A swallowed error fails the transaction", .database) func swallowedError() async throws {
        try await withAccounts { pool in
            let error = try await postgresError {
                try await pool.transaction { session in
                    try session.execute(Self.add(5, to: 1))
                    #expect(throws: PostgresError.self) { try session.execute("SELECT 1 / 0") }
                    #expect(throws: PostgresError.self) { try session.execute(Self.read(1)) }
                }
            }
            #expect(error.sqlState == SQLState("22012"))
            try await expect(pool, [100, 100])
        }
    }

    @Test("A deferred constraint fails the COMMIT", .database) func deferredConstraint() async throws {
        try await withAccounts { pool in
            let error = try await postgresError {
                try await pool.transaction { session in try session.execute("UPDATE account SET twin = 3 WHERE id = 1") }
            }
            #expect(error.code == .sqlState(.foreignKeyViolation))
            #expect(error.operation == "COMMIT")
            #expect(!error.isOutcomeUnknown && !error.isRetriable)
        }
    }

    @Test("A session refuses a transaction inside another", .database) func nested() async throws {
        try await withAccounts { pool in
            let error = try await postgresError {
                try await pool.transaction { session in
                    try session.execute(Self.add(5, to: 1))
                    try session.transaction { _ in }
                }
            }
            #expect(error.code == .misuse)
            try await expect(pool, [100, 100])
        }
    }

    @Test("SQL that ends the transaction is an error", .database) func endedBySQL() async throws {
        try await withAccounts { pool in
            let error = try await postgresError {
                try await pool.transaction { session in try session.simple("COMMIT; SELECT 1") }
            }
            #expect(error.code == .misuse)
        }
    }

    @Test("An empty transaction returns its value", .database) func emptyBody() async throws {
        try await withAccounts { pool in
            let seven = try await pool.transaction { _ in 7 }
            #expect(seven == 7)
        }
    }

    @Test("A transaction has the wanted isolation", .database) func isolationLevels() async throws {
        try await withAccounts { pool in
            for (isolation, name) in [
                (TransactionIsolation.readCommitted, "read committed"), (.repeatableRead, "repeatable read"),
                (.serializable, "serializable"),
            ] {
                let seen: String = try await pool.transaction(isolation: isolation) { session in
                    try session.execute("SELECT current_setting('transaction_isolation') AS level").only()["level"]
                }
                #expect(seen == name)
            }
        }
    }

    @Test("A serialization failure runs the whole body again", .database) func serializationRerun() async throws {
        try await withAccounts { pool in
            let attempts = Mutex(0)
            let (hasRead, mayWrite) = (Signal(), Signal())
            async let ours: Void = pool.transaction(isolation: .repeatableRead) { session in
                let isFirst = attempts.withLock {
                    $0 += 1; return $0 == 1
                }
                let balance: Int64 = try session.execute(Self.read(1)).only()["balance"]
                if isFirst {
                    hasRead.send()
                    mayWrite.block()
                }
                try session.execute(Self.write(balance + 1, to: 1))
            }
            await hasRead.wait()
            try await pool.transaction { session in try session.execute(Self.add(10, to: 1)) }
            mayWrite.send()
            try await ours
            #expect(attempts.withLock { $0 } == 2)
            try await expect(pool, [111, 100])
        }
    }

    @Test("Both transactions of a deadlock commit", .database) func deadlock() async throws {
        try await withAccounts { pool in
            let (first, second) = (Signal(), Signal())
            async let there = transfer(pool, from: 1, to: 2, says: first, waitsFor: second)
            async let back = transfer(pool, from: 2, to: 1, says: second, waitsFor: first)
            let attempts = try await there + back
            #expect(attempts > 2)
            try await expect(pool, [100, 100])
        }
    }

    /// Locks one account. The first attempt locks the other account only when the other transfer holds it. Returns the number of attempts.
    private func transfer(_ pool: PostgresPool, from: Int64, to: Int64, says: Signal, waitsFor: Signal) async throws -> Int {
        let attempts = Mutex(0)
        try await pool.transaction { session in
            let isFirst = attempts.withLock {
                $0 += 1; return $0 == 1
            }
            try session.execute(Self.add(-1, to: from))
            if isFirst {
                says.send()
                waitsFor.block()
            }
            try session.execute(Self.add(1, to: to))
        }
        return attempts.withLock { $0 }
    }

    @Test("A transaction retries a conflict that its body hides", .database) func hiddenConflict() async throws {
        try await withAccounts { pool in
            let attempts = Mutex(0)
            try await pool.transaction { session in
                guard
                    attempts.withLock({
                        $0 += 1; return $0 == 1
                    })
                else { return }
                #expect(throws: PostgresError.self) { try session.simple(Self.conflict) }
                throw Refusal()
            }
            #expect(attempts.withLock { $0 } == 2)
        }
    }

    @Test("A transaction runs again at most five times", .database) func fiveReruns() async throws {
        try await withAccounts { pool in
            let attempts = Mutex(0)
            let error = try await postgresError {
                try await pool.transaction { session in
                    attempts.withLock { $0 += 1 }
                    try session.simple(Self.conflict)
                }
            }
            #expect(error.code == .sqlState(.serializationFailure))
            #expect(error.isRetriable)
            #expect(attempts.withLock { $0 } == 6)
        }
    }

    private static let conflict = "DO $$ BEGIN RAISE EXCEPTION 'conflict' USING ERRCODE = '40001'; END $$"

    private func withAccounts(_ body: (PostgresPool) async throws -> Void) async throws {
        let pool = try #require(TestDatabase.current).pool
        try await pool.session { session in
            try session.simple(
                """
                CREATE TABLE account (
                    id int8 PRIMARY KEY, balance int8 NOT NULL, twin int8 REFERENCES account DEFERRABLE INITIALLY DEFERRED);
                INSERT INTO account VALUES (1, 100), (2, 100)
                """)
        }
        try await body(pool)
    }

    private func expect(_ pool: PostgresPool, _ balances: [Int64], sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let found: [Int64] = try await pool.session { session in
            try session.execute("SELECT balance FROM account ORDER BY id").column("balance")
        }
        #expect(found == balances, sourceLocation: sourceLocation)
    }
}
