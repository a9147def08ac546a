import Postgres
import PushModel
import StatementSources
import TestDatabase
import Testing

@testable import TokenService
@testable import TokenServiceEvents
@testable import TokenServiceSending

/// A device may have hundreds of tokens, and may report a hundred receipts at once: it must not keep the other devices waiting.
@Suite("What a report of device receipts reads", .timeLimit(.minutes(5)))
struct DeviceReceiptRowsTests {
    private static let (tokens, members, jobs) = (264, 100, 50)

    @Test("A report reads each job's members once, and not once for each token of its device") func rows() async throws {
        try await withTestDatabase(migrations: RunningService.migrationsDirectory(), poolSize: 1) { pool, _ in
            let (read, counted) = try await pool.session { session in
                for (name, value) in TokenServiceConfiguration.planning { try session.simple("SET \(name) = \(value)") }
                for query in Self.world { try session.execute(query) }
                try session.simple("ANALYZE")
                let statement = try #require(try SourceStatement.all().first { $0.name == "DeviceReceiptStore.count" })
                try session.simple("PREPARE counted AS \(statement.sql)")
                try session.simple(Self.reading)
                let read: Int64 = try session.execute("SELECT pg_temp.rows_read(\(Self.jobs)::bigint) AS read").only()["read"]
                let counted: Int64 = try session.execute("SELECT count(*) AS count FROM device_receipts").only()["count"]
                return (read, counted)
            }
            #expect(counted == Int64(Self.jobs))
            // Each step of the plan counts the same members and tokens again. Each token for each member would be 26,400 rows of a job.
            #expect(read < Int64(Self.jobs * 5 * (Self.members + Self.tokens)), "\(read) rows")
        }
    }

    @Test("A transaction takes so many receipts") func weight() throws {
        let receipt = DeviceReceipt(job: JobID(notification: .random(), number: 0), event: .shown, at: 0)
        #expect(DeviceReceiptIntake.weight(of: Array(repeating: receipt, count: DeviceReceipt.maximumListed)) == 100)
        #expect(DeviceReceiptIntake.maximumReceipts == 512)
    }

    /// Jobs of a hundred members each, of which one is the first installation's alert token. It has many more, retired.
    private static let world: [PostgresQuery] = [
        "INSERT INTO apps (slug, bundle_id, device_policy, environments) VALUES ('shop', 'com.example.app', 'multi', '{production}')",
        """
        INSERT INTO installations (app_id, id, owner, registered_at, created_at)
        SELECT a.id, md5(n::text)::uuid, 'u' || n, now(), now() FROM apps a, generate_series(1, \(members)::bigint) AS n
        """,
        """
        INSERT INTO tokens (app_id, environment, purpose, token, installation, ordinal, registered_at, state, retired_at, retired_reason)
        SELECT i.app_id, 'production', 'alert', sha256(convert_to(concat_ws(' ', i.id, n), 'UTF8')), i.id, i.ordinal, now(),
            CASE n WHEN 1 THEN 'active' ELSE 'retired' END, CASE WHEN n > 1 THEN now() END, CASE WHEN n > 1 THEN 'replaced' END
        FROM installations i, generate_series(1, CASE i.owner WHEN 'u1' THEN \(tokens)::bigint ELSE 1 END) AS n
        """,
        """
        INSERT INTO notifications (id, app_id, lane, push_type, purpose, topic, priority, on_unknown, payload, traceparent, device_receipts,
            accepted_at, expires_at, state, total, pending, jobs)
        SELECT new_id(), id, 'now', 'alert', 'alert', 'com.example.app', 10, 'resend', '{}', '', true, now(), now() + interval '1 day',
            'sending', \(members * jobs)::bigint, \(members * jobs)::bigint, \(jobs)::bigint FROM apps
        """,
        """
        INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, published_at, free_from)
        SELECT n.id, number, n.app_id, 'now', '', now(), (
            SELECT string_agg(int8send(id), ''::bytea ORDER BY id) FROM tokens WHERE state = 'active'
        ), now(), now()
        FROM notifications n, generate_series(0, \(jobs - 1)::bigint) AS number
        """,
    ]

    /// The rows that each step of the prepared statement gives on or drops, for one receipt of each job.
    private static let reading = """
        CREATE FUNCTION pg_temp.rows_read(jobs bigint) RETURNS bigint LANGUAGE plpgsql AS $$
        DECLARE
            of_app bigint := (SELECT id FROM apps);
            of_installation uuid := (SELECT id FROM installations WHERE owner = 'u1');
            of_notification uuid := (SELECT id FROM notifications);
            plan json;
        BEGIN
            EXECUTE format(
                'EXPLAIN (ANALYZE, TIMING off, FORMAT JSON) EXECUTE counted(%L, %L, %L, %L, %L, %L, %L, %L, 30)',
                ARRAY(SELECT generate_series(0, jobs - 1)), array_fill(of_app, ARRAY[jobs::int]),
                array_fill(of_installation, ARRAY[jobs::int]), array_fill(1::bigint, ARRAY[jobs::int]),
                array_fill(of_notification, ARRAY[jobs::int]), ARRAY(SELECT generate_series(0, jobs - 1)),
                array_fill('shown'::text, ARRAY[jobs::int]), array_fill(now(), ARRAY[jobs::int])) INTO plan;
            RETURN (
                SELECT sum((node ->> 'Actual Loops')::bigint * (
                    (node ->> 'Actual Rows')::numeric::bigint + coalesce((node ->> 'Rows Removed by Filter')::numeric::bigint, 0)
                        + coalesce((node ->> 'Rows Removed by Join Filter')::numeric::bigint, 0)))
                FROM jsonb_path_query(plan::jsonb, 'strict $.**') AS node WHERE jsonb_typeof(node) = 'object' AND node ? 'Actual Loops');
        END $$;
        """
}
