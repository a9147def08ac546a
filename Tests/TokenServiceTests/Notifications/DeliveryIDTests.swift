import Postgres
import TestDatabase
import Testing
import TokenService

@Suite("The id of a delivery", .timeLimit(.minutes(1)))
struct DeliveryIDTests {
    private static let notification = "0190a000-0000-7000-8000-000000000002"

    @Test("It has its notification's upper half, is distinct, and is the same each time") func ids() async throws {
        try await withTestDatabase { pool, _ in
            try await Schema.migrator().migrate(pool)
            try await pool.session { session in
                let ids = try Self.ids(session)
                #expect(ids.allSatisfy { $0.hasPrefix("0190a000-0000-7000-") && "89ab".contains($0.dropFirst(19).first ?? "-") })
                #expect(Set(ids).count == 1000)
                #expect(try Self.ids(session) == ids)
            }
        }
    }

    @Test("It is part of the statement that calls it, not a call") func inlined() async throws {
        try await withTestDatabase { pool, _ in
            try await Schema.migrator().migrate(pool)
            let plan = try await pool.session { session in
                let rows = try session.execute("EXPLAIN (VERBOSE) SELECT delivery_id(n.id, n.total) FROM notifications n")
                return try rows.map { row in try row.text(0) }
            }
            #expect(plan.contains { $0.contains("uuid_hash_extended") })
            #expect(!plan.contains { $0.contains("delivery_id(") })
        }
    }

    private static func ids(_ session: PostgresSession) throws -> [String] {
        try session.execute("SELECT delivery_id(\(notification)::uuid, n)::text AS id FROM generate_series(1, 1000) AS n").column("id")
    }
}
