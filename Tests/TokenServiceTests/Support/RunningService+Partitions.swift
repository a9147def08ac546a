import Postgres
import PushModel
import TokenServiceUpkeep

extension RunningService {
    /// A period of what belongs to notifications, `…_passed`: from 20 days ago until 10 days ago.
    func makePassedPeriod() async throws {
        try await patiently(
            """
            DO $$
            DECLARE t partitioned_tables;
            BEGIN
                FOR t IN SELECT * FROM partitioned_tables WHERE family = 'notifications' LOOP
                    PERFORM new_partition(t.table_name, t.table_name || '_passed'),
                        attach_partition(t, t.table_name || '_passed', now() - interval '20 days', now() - interval '10 days');
                END LOOP;
            END $$
            """)
    }

    /// Drops every period that a process has made.
    func dropPeriods() async throws {
        try await patiently(
            """
            DO $$
            DECLARE doomed text;
            BEGIN
                FOR doomed IN SELECT p.name FROM partitions p LOOP
                    EXECUTE format('DROP TABLE %I', doomed);
                END LOOP;
            END $$
            """)
    }

    /// Nothing of the service waits for it: it may wait for the service.
    private func patiently(_ statement: String) async throws {
        try await pool.session { session in
            try session.simple("SET lock_timeout = '20s'")
            // It locks several tables, as statements of the service do in another order. If PostgreSQL ends this one, it runs again.
            while true {
                do {
                    try session.simple(statement)
                    break
                } catch let error as PostgresError where error.isConflict {}
            }
            try session.simple("RESET lock_timeout")
        }
    }

    /// A notification that was accepted so long ago, with a job to every token, a receipt, a counter and a variant.
    /// - Parameter expiresInDays: May be negative.
    func insert(_ state: String, acceptedDaysAgo: Int64, expiresInDays: Int64) async throws -> PushID {
        let now = UnixClock.now()
        let day: Int64 = 86_400_000
        let id = PushID.timeOrdered(milliseconds: now - acceptedDaysAgo * day)
        try await pool.session { session in
            try session.pipeline([
                """
                INSERT INTO notifications (id, app_id, target_user, lane, push_type, purpose, topic, priority, on_unknown, payload,
                    traceparent,
                    accepted_at, expires_at, state, total, pending, jobs)
                SELECT \(id), a.id, 'ada', 'now', 'alert', 'alert', 'com.example.shop', 10, 'resend', '{}', '',
                    \(milliseconds: now - acceptedDaysAgo * day)::timestamptz, \(milliseconds: now + expiresInDays * day)::timestamptz,
                    \(state), t.count, t.count, 1
                FROM apps a, (SELECT count(*)::int AS count FROM tokens) AS t
                """,
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from, published_at)
                SELECT \(id), 0, 1, 'now', '', now(), string_agg(int8send(id), ''::bytea ORDER BY id), now(), now() FROM tokens
                """,
                """
                INSERT INTO receipts (notification, number, position, token_id, installation, owner_epoch, environment, updated_at)
                SELECT \(id), 0, 0, min(id), '00000000-0000-4000-8000-000000000001', 1, 'production', now() FROM tokens
                """,
                """
                INSERT INTO device_receipts (notification, number, position, event, app_id, installation, owner_epoch, at)
                VALUES (\(id), 0, 0, 'shown', 1, '00000000-0000-4000-8000-000000000001', 1, now())
                """,
                "INSERT INTO notification_variants (notification, locale, payload) VALUES (\(id), 'de', '{}')",
                """
                INSERT INTO fan_outs (notification, app_id, lane, target, entries, due_at, ended_at)
                VALUES (\(id), 1, 'now', 'user', 1, now(), now())
                """,
                "INSERT INTO targets (notification, place, app_id, owner) VALUES (\(id), 1, 1, 'grace')",
                """
                INSERT INTO cancellations (notification, at, reason)
                SELECT id, now(), 'cancelled' FROM notifications WHERE id = \(id) AND state <> 'scheduled'
                """,
            ])
        }
        return id
    }

    /// As the housekeeping does it.
    /// - Returns: the partitions that are gone.
    @discardableResult
    func dropPassed(retentionDays: Int, lockTimeout: Duration? = nil) async throws -> [String] {
        var dropped: [String] = []
        while true {
            let next = try await pool.transaction { session in
                if let lockTimeout {
                    try session.execute("SELECT set_config('lock_timeout', \("\(lockTimeout.components.seconds)s"), true)")
                }
                return try PartitionStore(session: session).dropNext(.notifications, retentionDays: retentionDays)
            }
            guard !next.isEmpty else { return dropped }
            dropped += next
        }
    }

    func ids(_ query: PostgresQuery) async throws -> [PushID] {
        try await pool.session { session in try session.execute(query).column("id") }
    }
}
