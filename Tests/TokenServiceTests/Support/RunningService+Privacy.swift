import Postgres
import PushModel
import TestSupport
import Testing

extension APITestClient {
    func erase(_ user: String) async throws -> Answer {
        try await post("/v1/apps/shop/users/\(user)/erase", #"{"confirm":"\#(user)"}"#)
    }

    func with(port: Int) -> APITestClient { APITestClient(port: port, key: key, databaseURI: databaseURI) }
}

extension RunningService {
    /// Many installations of one user, each with a token and two lines of history, one of which names no user.
    func fill(user: String, count: Int) async throws {
        try await execute(
            """
            INSERT INTO installations (app_id, id, owner, created_at, registered_at)
            SELECT a.id, gen_random_uuid(), \(user), now(), now() FROM apps a, generate_series(1, \(count))
            """)
        try await execute(
            """
            INSERT INTO tokens (app_id, environment, purpose, token, installation, ordinal, registered_at)
            SELECT app_id, 'production', 'alert', sha256(uuid_send(id)), id, ordinal, now() FROM installations WHERE owner = \(user)
            """)
        try await execute(
            """
            INSERT INTO installation_history (app_id, installation, at, event, owner)
            SELECT app_id, id, now(), 'registered', named FROM installations, unnest(ARRAY[\(user), NULL]) AS named WHERE owner = \(user)
            """)
    }

    /// Lines of one installation's history that name Ada.
    func fillHistory(_ count: Int) async throws {
        try await execute(
            """
            INSERT INTO installation_history (app_id, installation, at, event, owner)
            SELECT a.id, \(installation(1)), now(), 'registered', 'ada' FROM apps a, generate_series(1, \(count))
            """)
    }

    func expectNothing(of user: String, shells: Int64) async throws {
        #expect(try await count("SELECT count(*) FROM installations WHERE owner = \(user)") == 0)
        #expect(try await count("SELECT count(*) FROM installation_history WHERE owner = \(user)") == 0)
        #expect(try await count("SELECT count(*) FROM notifications WHERE target_user = \(user)") == 0)
        #expect(try await count("SELECT count(*) FROM targets WHERE owner = \(user)") == 0)
        #expect(try await count("SELECT count(*) FROM quiet_hours WHERE owner = \(user)") == 0)
        #expect(try await count("SELECT count(*) FROM erasures") == 0)
        #expect(
            try await count(
                """
                SELECT count(*) FROM installations WHERE signed_out_reason = 'erased' AND deregistered_at IS NOT NULL AND owner_epoch > 1
                    AND num_nonnulls(owner, throttled_until, stale_since, locale, time_zone, app_version, os_version, device_model,
                        permission) = 0
                """) == shells)
        let leftOvers: [PostgresQuery] = [
            "SELECT count(*) FROM tokens t JOIN installations i ON i.id = t.installation WHERE i.signed_out_reason = 'erased'",
            "SELECT count(*) FROM receipts r JOIN installations i ON i.id = r.installation WHERE i.signed_out_reason = 'erased'",
            """
            SELECT count(*) FROM installation_history h JOIN installations i ON i.id = h.installation WHERE i.signed_out_reason = 'erased'
            """,
            "SELECT count(*) FROM addressees a JOIN installations i ON i.id = a.installation WHERE i.signed_out_reason = 'erased'",
            "SELECT count(*) FROM idempotency_records r LEFT JOIN notifications n ON n.id = r.notification WHERE n.id IS NULL",
        ]
        for query in leftOvers { #expect(try await count(query) == 0) }
        try await expectConsistentCounters()
    }

    func expectConsistentCounters() async throws {
        #expect(
            try await count(
                """
                SELECT count(*) FROM notifications n
                LEFT JOIN LATERAL (
                    SELECT count(*) AS total, count(*) FILTER (WHERE class IS NULL) AS pending FROM deliveries WHERE notification = n.id
                ) AS d ON true
                CROSS JOIN LATERAL (SELECT coalesce(sum(count), 0) AS ended FROM unnest(n.outcomes)) AS o
                WHERE n.total <> n.pending + o.ended OR n.receipts = 'all' AND (n.total < d.total OR n.pending <> d.pending
                    OR n.state NOT IN ('accepted', 'scheduled', 'expanding') AND (n.pending = 0) <> (n.completed_at IS NOT NULL))
                """) == 0)
    }
}

extension PostgresPool {
    /// Holds rows locked, from its signal `held` until `release` comes.
    func transactionHeld(by query: PostgresQuery, _ held: Signal<Void>, until release: Signal<Void>) async throws {
        let isReleased = Box<Bool>()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                try await self.transaction { session in
                    try session.execute(query)
                    held.send(())
                    while isReleased.value != true { try session.execute("SELECT pg_sleep(0.02)") }
                }
            }
            try await release.next()
            isReleased.open(true)
            try await group.waitForAll()
        }
    }
}
