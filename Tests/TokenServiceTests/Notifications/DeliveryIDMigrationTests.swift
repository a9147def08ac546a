import Postgres
import TestDatabase
import Testing
import TokenService

@Suite("The migration that gives deliveries ids in the order of their notifications", .timeLimit(.minutes(5)))
struct DeliveryIDMigrationTests {
    private static let before = 15
    private static let earlier = "0190a000-0000-7000-8000-000000000001"
    private static let later = "0190a000-0000-7000-8000-000000000002"

    private static let accepted = """
        INSERT INTO apps (slug, bundle_id, device_policy, environments) VALUES ('shop', 'com.example.shop', 'multi', '{production}');
        INSERT INTO notifications (id, app_id, target_user, lane, push_type, topic, priority, on_unknown, payload, traceparent,
            accepted_at, expires_at, state, total, pending)
        SELECT '\(earlier)', id, 'ada', 'now', 'alert', bundle_id, 10, 'resend', '{}', '', now(), now(), 'completed', 0, 0 FROM apps;
        """

    @Test("What was accepted before keeps its ids; later ones have their notification's upper half, and are distinct") func ids()
        async throws
    {
        let migrations = try Schema.migrator().migrations
        try await withTestDatabase { pool, _ in
            try await Migrator(migrations: Array(migrations.prefix(Self.before))).migrate(pool)
            let kept = try await pool.session { session in
                try session.simple(Self.accepted)
                return try Self.ids(of: Self.earlier, session)
            }
            #expect(try await Migrator(migrations: Array(migrations.prefix(Self.before + 1))).migrate(pool) == [Self.before + 1])
            try await pool.session { session in
                #expect(try Self.ids(of: Self.earlier, session) == kept)
                let ids = try Self.ids(of: Self.later, session)
                #expect(ids.allSatisfy { $0.hasPrefix("0190a000-0000-7000-") && "89ab".contains($0.dropFirst(19).first ?? "-") })
                #expect(Set(ids).count == ids.count)
                #expect(try Self.ids(of: Self.later, session) == ids)
                let none = try session.execute(
                    "SELECT delivery_id($1::text::uuid, NULL) IS NULL AND delivery_id($2::text::uuid, NULL) IS NULL",
                    [.text(Self.earlier), .text(Self.later)])
                #expect(try none.only().bool(0))
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

    private static func ids(of notification: String, _ session: PostgresSession) throws -> [String] {
        let rows = try session.execute(
            "SELECT delivery_id($1::text::uuid, n)::text FROM generate_series(1, 1000) AS n", [.text(notification)])
        return try rows.map { row in try row.text(0) }
    }
}
