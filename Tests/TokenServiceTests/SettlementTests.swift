import Logging
import Observability
import Postgres
import PushModel
import TestSupport
import Testing

@testable import TokenService

@Suite("What was published is written down in bounded batches; a locked row waits alone", .serialized, .timeLimit(.minutes(5)))
struct SettlementTests {
    /// A service that publishes nothing by itself, and the settlements of one that does, with a pool of their own.
    private static func run(
        lockTimeout: Duration = .milliseconds(100),
        _ body: @escaping @Sendable (RunningService, PublishSettlements) async throws -> Void
    ) async throws {
        try await RunningService.run(.init(settings: ["RELAY_INTERVAL_MS": "60000"], without: { $0 is Relay })) { running in
            var impatient = running.pool.configuration
            impatient.lockTimeout = lockTimeout
            let pool = PostgresPool(impatient)
            let settlements = PublishSettlements(
                pool: pool, lease: .seconds(3600), backlog: PublishBacklog(limit: 100_000),
                metrics: TokenServiceMetrics(registry: PrometheusMetrics()), logger: Logger(label: "test", factory: { _ in LogLines() }),
                onSettled: {})
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await settlements.run() }
                defer { group.cancelAll() }
                try await body(running, settlements)
            }
            await pool.close()
        }
    }

    /// Notifications that are not marked as published, and a row of the outbox that they are in.
    private static func notifications(_ count: Int, _ running: RunningService) async throws -> (ids: [PushID], row: Int64) {
        let shop = try await running.client.makeApp()
        try await shop.register(installation(1), user: "ada", token: token(1))
        var ids: [PushID] = []
        for _ in 1...count { ids.append(try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id").flatMap { PushID($0) })) }
        _ = try await eventually {
            try await running.count("SELECT count(*) FROM notifications WHERE published_at IS NULL") == 0 ? true : nil
        }
        try await running.execute("UPDATE notifications SET published_at = NULL, state = 'accepted'")
        let row = try await running.count(
            "INSERT INTO outbox (notifications, lease_until) VALUES ($1::uuid[], now() + interval '1 hour') RETURNING id", [.ids(ids)])
        return (ids.sorted(), row)
    }

    private static func unpublished(_ running: RunningService) async throws -> Int64 {
        try await running.count("SELECT count(*) FROM notifications WHERE published_at IS NULL")
    }

    @Test("A locked notification waits alone; its outbox row stays open until it is written down") func lockedNotification() async throws {
        try await Self.run { running, settlements in
            let (ids, row) = try await Self.notifications(20, running)
            try await running.holding("SELECT id FROM notifications WHERE id = $1 FOR UPDATE", [.id(ids[3])]) {
                settlements.ended(ids[..<18].map { (id: $0, isPublished: true, outbox: row) })
                _ = try await eventually { try await Self.unpublished(running) == 3 ? true : nil }
                // What ends later does not wait either.
                settlements.ended(ids[18...].map { (id: $0, isPublished: true, outbox: nil) })
                _ = try await eventually { try await Self.unpublished(running) == 1 ? true : nil }
                #expect(try await running.count("SELECT count(*) FROM outbox") == 1)
            }
            _ = try await eventually { try await Self.unpublished(running) == 0 ? true : nil }
            _ = try await eventually { try await running.count("SELECT count(*) FROM outbox") == 0 ? true : nil }
        }
    }

    @Test("One transaction writes a bounded number of settlements") func bound() async throws {
        try await Self.run { running, settlements in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await running.execute(
                """
                INSERT INTO fences (app_id, installation, epochs_below, created_at)
                SELECT app_id, id, 1, now() FROM installations CROSS JOIN generate_series(1, $1)
                """, [.int32(Int32(PublishSettlements.maximumBatch * 2 + 1))])
            let ids = try await running.pool.session { session in
                try session.execute("SELECT id FROM fences ORDER BY id").map { row in try row.int64(0) }
            }
            settlements.published(fences: ids)
            _ = try await eventually {
                try await running.count("SELECT count(*) FROM fences WHERE published_at IS NULL") == 0 ? true : nil
            }
            #expect(try await running.count("SELECT count(DISTINCT published_at) FROM fences") == 3)
        }
    }
}
