import Postgres
import TestDatabase
import Testing
import TokenService

@Suite("The migration that gives installations their order", .timeLimit(.minutes(5)))
struct WalkOrderMigrationTests {
    private static let before = 12

    @Test("Every row is there afterwards, with every index and its installation's place; numbers go on where they were") func rows()
        async throws
    {
        let migrations = try Schema.migrator().migrations
        try await withTestDatabase { pool, _ in
            try await Migrator(migrations: Array(migrations.prefix(Self.before))).migrate(pool)
            try await pool.session { session in try session.simple(Self.fill) }
            let (rows, rules) = try await pool.session { session in (try Self.tokens(session), try Self.rules(session)) }
            #expect(rows.count == 800)
            #expect(try await Migrator(migrations: Array(migrations.prefix(Self.before + 1))).migrate(pool) == [Self.before + 1])
            try await pool.session { session in
                #expect(try Self.tokens(session) == rows)
                var expected = rules
                expected["tokens_one_active"] = expected["tokens_one_active"]?.replacing(
                    "(app_id, installation, ", with: "(app_id, ordinal, ")
                #expect(try Self.rules(session).filter { $0.key != "tokens_app_id_installation_fkey" } == expected)
                let astray = try session.execute(
                    """
                    SELECT count(*) FROM tokens t JOIN installations i ON i.app_id = t.app_id AND i.id = t.installation
                    WHERE t.ordinal IS DISTINCT FROM i.ordinal
                    """)
                #expect(try astray.only().int64(0) == 0)
                let order = try session.execute(
                    "SELECT abs(correlation) > 0.99 FROM pg_stats WHERE attname = 'ordinal' AND tablename IN ('installations', 'tokens')")
                #expect(try order.map { row in try row.bool(0) } == [true, true])
                let next = try session.execute(
                    """
                    INSERT INTO tokens (app_id, environment, purpose, token, installation, registered_at)
                    SELECT app_id, 'sandbox', 'voip', 'new', id, now() FROM installations LIMIT 1 RETURNING id
                    """)
                #expect(try next.only().int64(0) == 801)
            }
        }
    }

    /// 600 installations whose ids have no order, each with a live token, some with one that is over or in quarantine.
    private static let fill = """
        INSERT INTO apps (slug, bundle_id, device_policy, environments) VALUES ('shop', 'com.example.shop', 'multi', '{production,sandbox}');
        INSERT INTO installations (app_id, id, owner, created_at, registered_at)
        SELECT (SELECT id FROM apps), md5(n::text)::uuid, 'user-' || n, now(), now() FROM generate_series(1, 600) AS n;
        INSERT INTO tokens (app_id, environment, purpose, token, installation, registered_at, proven_at)
        SELECT app_id, CASE WHEN owner LIKE '%7' THEN 'sandbox' ELSE 'production' END, 'alert', sha256(uuid_send(id)), id, now(),
            CASE WHEN owner LIKE '%3' THEN now() END
        FROM installations;
        INSERT INTO tokens (app_id, environment, purpose, token, installation, registered_at, state, retired_at, retired_reason, quarantined_at)
        SELECT app_id, 'production', 'voip', md5(owner)::bytea, id, now(), 'retired', now(), 'rejected', CASE WHEN owner LIKE '%1' THEN now() END
        FROM installations ORDER BY id LIMIT 200;
        """

    private static func tokens(_ session: PostgresSession) throws -> [String] {
        try session.execute(
            """
            SELECT concat_ws(' ', id, app_id, environment, purpose, token, installation, state, registered_at, retired_at, retired_reason,
                quarantined_at, proven_at) FROM tokens ORDER BY id
            """
        ).map { row in try row.text(0) }
    }

    /// Indexes and constraints of the tokens, as PostgreSQL writes them.
    private static func rules(_ session: PostgresSession) throws -> [String: String] {
        let rows = try session.execute(
            """
            SELECT indexname::text, indexdef FROM pg_indexes WHERE tablename = 'tokens'
            UNION ALL
            SELECT conname::text, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'tokens'::regclass AND contype NOT IN ('p', 'u', 'f')
            """)
        return Dictionary(uniqueKeysWithValues: try rows.map { row in (try row.text(0), try row.text(1)) })
    }
}
