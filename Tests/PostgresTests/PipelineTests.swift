import Postgres
import TestDatabase
import Testing

@Suite("A pipeline is one round trip and all or nothing", .timeLimit(.minutes(5)))
struct PipelineTests {
    private static let count: PostgresQuery = "SELECT count(*) FROM item"

    private static func insert(_ id: Int64) -> PostgresQuery { "INSERT INTO item (id) VALUES (\(id))" }

    @Test("The results of a pipeline come in order", .database) func resultOrder() async throws {
        try await withTable { pool in
            let counts = try await pool.session { session in
                try session.pipeline([Self.count, Self.insert(1), Self.insert(2), Self.count])
                    .map { rows in try rows.first?["count"] ?? Int64(rows.affected) }
            }
            #expect(counts == [0, 1, 1, 2])
        }
    }

    @Test("An error in a pipeline commits nothing and is the reported one", .database) func laterError() async throws {
        try await withTable { pool in
            try await pool.session { session in
                let error = #expect(throws: PostgresError.self) {
                    try session.pipeline([
                        Self.insert(1), Self.insert(1), "SELECT 1 / 0", Self.insert(2),
                    ])
                }
                #expect(error?.code == .sqlState(.uniqueViolation))
                #expect(error?.constraint == "item_pkey")
                #expect(error?.message == #"duplicate key value violates unique constraint "item_pkey""#)
                let count = try session.count(Self.count)
                #expect(count == 0)
                // Statements of the failed pipeline, prepared or not, work now.
                try #expect(session.pipeline([Self.insert(1), "SELECT 1 / 1"]).count == 2)
            }
        }
    }

    @Test("A statement that cannot be prepared fails the whole pipeline", .database) func unprepared() async throws {
        try await withTable { pool in
            try await pool.session { session in
                let error = #expect(throws: PostgresError.self) {
                    try session.pipeline([Self.insert(1), "SELECT * FROM nowhere", Self.count])
                }
                #expect(error?.code == .sqlState(.undefinedTable))
                let count = try session.count(Self.count)
                #expect(count == 0)
            }
        }
    }

    @Test("A pipeline in a transaction is part of it", .database) func insideTransaction() async throws {
        try await withTable { pool in
            let error = try await postgresError {
                try await pool.transaction { session in
                    try session.pipeline([Self.insert(1), Self.insert(2)])
                    try session.pipeline([Self.insert(3), Self.insert(1)])
                }
            }
            #expect(error.code == .sqlState(.uniqueViolation))
            let count = try await pool.session { session in try session.count(Self.count) }
            #expect(count == 0)
            #expect(pool.gauges == PostgresPool.Gauges(idle: 1, busy: 0, waiting: 0))
        }
    }

    @Test("Large requests and large answers do not block each other", .database) func largePipeline() async throws {
        try await withTable { pool in
            let text = String(repeating: "x", count: 100_000)
            let total = try await pool.session { session in
                let answers = try session.pipeline(Array(repeating: "SELECT \(text) AS text", count: 200))
                return try answers.reduce(0) { sum, rows in
                    let answer: String = try rows.only()["text"]
                    return sum + answer.utf8.count
                }
            }
            #expect(total == 200 * 100_000)
        }
    }

    @Test("An empty pipeline does nothing", .database) func emptyPipeline() async throws {
        try await withTable { pool in
            try await pool.session { session in try #expect(session.pipeline([]).isEmpty) }
        }
    }

    private func withTable(_ body: (PostgresPool) async throws -> Void) async throws {
        let pool = try #require(TestDatabase.current).pool
        try await pool.session { session in try session.simple("CREATE TABLE item (id int8 PRIMARY KEY)") }
        try await body(pool)
    }
}
