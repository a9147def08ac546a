import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenServiceKit
@testable import TokenServiceOutcomes
@testable import TokenServiceSending

@Suite("How a notification counts its outcomes", .serialized, .timeLimit(.minutes(5)))
struct OutcomeCountTests {
    /// As the service adds them, one after the other.
    private static func added(_ reasons: [String], _ session: PostgresSession) throws -> [String] {
        try session.execute(
            """
            WITH RECURSIVE step AS (
                SELECT 0 AS number, '{}'::outcome_count[] AS counts
                UNION ALL
                SELECT number + 1, with_outcomes(counts, ARRAY[ROW('rejected', 400, (\(reasons)::text[])[number + 1], 1)::outcome_count])
                FROM step WHERE number < \(reasons.count)
            )
            SELECT concat_ws(' ', o.class, o.status, o.reason, o.count) AS line
            FROM (SELECT counts FROM step ORDER BY number DESC LIMIT 1) AS last CROSS JOIN LATERAL unnest(last.counts) AS o
            """
        ).column("line")
    }

    @Test("Equal ends add up, and what a replay takes back is gone; of very many reasons the later ones count without their word")
    func bounded() async throws {
        try await RunningService.run { running in
            try await running.pool.session { session in
                #expect(try Self.added(["a", "b", "a"], session) == ["rejected 400 a 2", "rejected 400 b 1"])
                let left: [String] = try session.execute(
                    """
                    SELECT o.class AS class FROM unnest(with_outcomes(
                        ARRAY[ROW('failed', 503, 'x', 1)::outcome_count, ROW('accepted', 200, NULL, 1)::outcome_count],
                        ARRAY[ROW('failed', 503, 'x', -1)::outcome_count])) AS o
                    """
                ).column("class")
                #expect(left == ["accepted"])
                let many = try Self.added((1...80).map { "r\($0)" } + ["r7"], session)
                let atOnce: [String] = try session.execute(
                    """
                    SELECT concat_ws(' ', o.class, o.status, o.reason, o.count) AS line FROM unnest(with_outcomes('{}', (
                        SELECT array_agg(ROW('rejected', 400, 'r' || n, 1)::outcome_count) FROM generate_series(1, 80) AS n))) AS o
                    """
                ).column("line")
                #expect(atOnce.count == 51 && atOnce.contains("rejected 400 30"))
                // It had counted without its word.
                let back: [String] = try session.execute(
                    """
                    SELECT concat_ws(' ', o.class, o.status, o.reason, o.count) AS line FROM unnest(with_outcomes(
                        ARRAY[ROW('rejected', 400, NULL, 3)::outcome_count], ARRAY[ROW('rejected', 400, 'x', -1)::outcome_count])) AS o
                    """
                ).column("line")
                #expect(back == ["rejected 400 2"])
                #expect(many.count == 51 && many.contains("rejected 400 30") && many.contains("rejected 400 r7 2"))
            }
        }
    }

    /// PostgreSQL decides by the row that the statement waited for, and by nothing else that is new.
    @Test("The last page of a fan-out that has expired counts an outcome that it waited for") func lastPage() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let id = try #require(try await shop.send(#"{"all":true}"#).json.text("id").flatMap { PushID($0) })
            let now = UnixTime.milliseconds()
            try await running.pool.transaction { session in
                let store = FanOutStore(session: session)
                let audience = try #require(try store.fanOut(of: id))
                let page = try store.page(of: audience, names: DeliveryNames(id), now: now)
                #expect(page.count == 1 && !page.isLast)
                try store.commit(page, of: audience, leaseSeconds: 3600, now: now)
            }
            try await running.execute("UPDATE notifications SET expires_at = now() - interval '1 second'")
            let event = OutcomeEvent(
                id: .random(), source: "/push/dispatcher/test", time: now, app: try #require(AppSlug("shop")), outcome: .accepted,
                isFinal: true,
                deliveries: [
                    OutcomeEvent.Delivery(
                        id: DeliveryNames(id).id(job: 0, position: 0), notification: id, installation: installation(1), attempt: 1,
                        ownerEpoch: 1, status: 200)
                ])
            let last = try await running.pool.transaction { session in
                let (store, batch) = (OutcomeStore(session: session), OutcomeBatch([event]))
                let finished = try store.finish(batch.final, of: try store.origins(of: batch))
                #expect(try store.countInNotifications(finished).isEmpty)
                let last = Task {
                    try await running.pool.transaction { session in
                        let store = FanOutStore(session: session)
                        let audience = try #require(try store.fanOut(of: id))
                        let page = try store.page(of: audience, names: DeliveryNames(id), now: UnixTime.milliseconds())
                        #expect(page.count == 0 && page.isLast)
                        try store.commit(page, of: audience, leaseSeconds: 3600, now: now)
                    }
                }
                // The page waits for this transaction.
                while try session.execute("SELECT FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'").isEmpty {}
                return last
            }
            try await last.value
            let status = try await shop.status(id.description)
            #expect(status.text("state") == "completed" && status["counts"]?.number("accepted") == 1)
        }
    }
}
