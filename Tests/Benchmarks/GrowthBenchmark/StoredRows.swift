import BenchmarkSupport
import Foundation

/// The rows that the service has stored: a large app and a small one, notifications to one user each, one notification with millions of
/// receipts, and entries of indexes that are dead but that an open snapshot keeps.
struct StoredRows {
    static let app = "growth"
    static let smallApp = "growth-small"
    static let smallDevices = 1000
    /// Installations with the tag `rare`, at every size.
    static let rare = 100
    /// Rows that one statement inserts.
    private static let chunk = 250_000
    private static let snapshotName = "growth-snapshot"

    private let database: Database
    private let webhook: String
    private let app: Int
    /// The notification with very many receipts.
    let large: String
    private(set) var installations = 0
    private(set) var receipts = 0
    private var snapshot: Process?

    init(_ database: Database, webhook: String) throws {
        self.database = database
        self.webhook = webhook
        app = try database.integer("SELECT id FROM apps WHERE slug = '\(Self.app)'")
        large = try database.psql("SELECT new_id()").trimmingCharacters(in: .whitespacesAndNewlines)
        try database.psql(Self.notification(large, app: app))
        let small = try database.integer("SELECT id FROM apps WHERE slug = '\(Self.smallApp)'")
        try database.psql(Self.registry(app: small, prefix: "s", 0, Self.smallDevices))
    }

    /// So many receipts has the large notification, and so many dead entries do the jobs' indexes get.
    private var heap: Int { min(installations, max(100_000, installations / 2)) }

    /// Fills up, and leaves the tables as a quiet night would: vacuumed and analyzed.
    mutating func grow(to size: Int) throws {
        try release()
        for start in stride(from: installations, to: size, by: Self.chunk) {
            let end = min(size, start + Self.chunk)
            try database.psql(Self.registry(app: app, prefix: "i", start, end))
            try database.psql(Self.notifications(app: app, start, end))
            progress("  \(end) installations")
        }
        installations = size
        for start in stride(from: receipts, to: heap, by: Self.chunk) {
            try database.psql(receiptsOfLarge(start, min(heap, start + Self.chunk)))
        }
        receipts = heap
        try database.psql(
            """
            UPDATE notifications SET total = \(receipts), pending = 0, jobs = \(receipts / 100), state = 'completed', completed_at = now(),
                outcomes = ARRAY[ROW('accepted', 200, NULL, \(receipts))::outcome_count]
            WHERE id = '\(large)'
            """)
        try database.settle()
    }

    /// Opens a snapshot, as a dump of the database does, and makes rows that leave the partial indexes of waiting work behind it. Each
    /// chunk is one transaction, so that no process of the service ever sees work there.
    mutating func makeDeadEntries() throws {
        try openSnapshot()
        for start in stride(from: 0, to: heap, by: Self.chunk) {
            let count = min(heap, start + Self.chunk) - start
            try database.psql(deadEntries(count, after: start / 10))
        }
        try database.psql("ANALYZE jobs, fan_outs, cancellations, fences, webhook_messages")
    }

    /// The server ends the snapshot. A process that Foundation starts from a thread of Dispatch inherits its signal mask, so SIGTERM waits
    /// in psql for ever.
    mutating func release() throws {
        guard let process = snapshot else { return }
        try database.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '\(Self.snapshotName)'")
        process.waitUntilExit()
        snapshot = nil
    }

    private mutating func openSnapshot() throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "PGAPPNAME=\(Self.snapshotName)", "psql", "-X", "-q", "-d", database.url, "-c", "BEGIN ISOLATION LEVEL REPEATABLE READ",
            "-c", "SELECT count(*) FROM apps", "-c", "SELECT pg_sleep(86400)",
        ]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        snapshot = process
        try wait("a snapshot is open", database) {
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = '\(Self.snapshotName)' AND query LIKE '%pg_sleep%'"
        }
    }

    // MARK: SQL

    /// One of two installations has the tag `common`; a user has two installations.
    private static func registry(app: Int, prefix: String, _ first: Int, _ end: Int) -> String {
        """
        WITH made AS (
            INSERT INTO installations (app_id, id, owner, locale, time_zone, app_version, permission, tags, created_at, registered_at)
            SELECT \(app), md5('\(prefix)' || n)::uuid, '\(prefix)' || n / 2, 'de_AT', 'Europe/Vienna', '4.11.0', 'authorized',
                CASE WHEN n < \(rare) THEN '{rare,common}'::text[] WHEN n % 2 = 0 THEN '{common}' ELSE '{}' END, now(), now()
            FROM generate_series(\(first)::bigint, \(end - 1)) AS n RETURNING id, ordinal, owner
        ), filled AS (
            INSERT INTO tokens (app_id, environment, purpose, token, installation, ordinal, registered_at, proven_at)
            SELECT \(app), 'production', 'alert', sha256(uuid_send(id)), id, ordinal, now(), now() FROM made
        ), fenced AS (
            INSERT INTO fences (app_id, installation, epochs_below, created_at, free_from, published_at)
            SELECT \(app), id, 1, now(), now(), now() FROM made WHERE ordinal % 10 = 0
        )
        INSERT INTO installation_history (app_id, installation, at, event, owner_epoch, owner)
        SELECT \(app), id, now(), 'registered', 1, owner FROM made
        """
    }

    private static func notification(_ id: String, app: Int) -> String {
        """
        INSERT INTO notifications (id, app_id, lane, push_type, purpose, topic, priority, apns_expiration, on_unknown, payload, traceparent,
            accepted_at, expires_at, state, total, pending, completed_at)
        VALUES ('\(id)', \(app), 'bulk', 'alert', 'alert', 'com.example.growth', 10,
            extract(epoch FROM now())::bigint + 86400, 'resend', '{"aps":{"alert":"hello"}}', '', now(), now() + interval '1 day',
                'completed',
            0, 0, now());
        INSERT INTO fan_outs (notification, app_id, lane, target, due_at, ended_at) VALUES ('\(id)', \(app), 'bulk', 'all', now(), now())
        """
    }

    /// A completed notification to one user for each twentieth installation.
    private static func notifications(app: Int, _ first: Int, _ end: Int) -> String {
        """
        WITH made AS (
            INSERT INTO notifications (id, app_id, target_user, lane, push_type, purpose, topic, priority, on_unknown, payload, traceparent,
                accepted_at, expires_at, state, total, pending, jobs, completed_at, outcomes)
            SELECT overlay(md5('n' || n)::uuid::text PLACING left(first_id_at(now())::text, 14)
                FROM 1)::uuid, \(app), 'i' || n / 2, 'now', 'alert',
                'alert', 'com.example.growth', 10, 'resend', '{"aps":{"alert":"hello"}}', '', now(), now() + interval '1 day', 'completed',
                    1,
                0, 1, now(), ARRAY[ROW('accepted', 200, NULL, 1)::outcome_count]
            FROM generate_series(\(first)::bigint, \(end - 1), 20) AS n RETURNING id, target_user
        ), filled AS (
            INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, ended, free_from, published_at)
            SELECT id, 0, \(app), 'now', '', now(), int8send(1000000000000), ~B'0'::bit(100), now(), now() FROM made
        ), keyed AS (
            INSERT INTO idempotency_records (app_id, api_key_id, key, day, fingerprint, notification)
            SELECT \(app), 'key', 'k' || id, date_trunc('day', now(), 'UTC'), sha256(uuid_send(id)), id FROM made
        )
        INSERT INTO receipts (notification, number, position, token_id, installation, owner_epoch, environment, class, status, attempts,
            updated_at)
        SELECT id, 0, 0, 1000000000000, md5('i' || substr(target_user, 2)::bigint * 2)::uuid, 1, 'production', 'accepted', 200, 1, now()
            FROM made
        """
    }

    private func receiptsOfLarge(_ first: Int, _ end: Int) -> String {
        """
        INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, ended, free_from, published_at)
        SELECT '\(large)', n, \(app), 'bulk', '', now(), (SELECT string_agg(int8send(1000000000000 + n * 100 + m), ''::bytea)
            FROM generate_series(0, 99) AS m),
            ~B'0'::bit(100), now(), now()
        FROM generate_series(\(first / 100)::bigint, \(end / 100 - 1)) AS n ON CONFLICT DO NOTHING;
        INSERT INTO receipts (notification, number, position, token_id, installation, owner_epoch, environment, class, status, attempts,
            updated_at)
        SELECT '\(large)', n / 100, n % 100, 1000000000000 + n, gen_random_uuid(), 1, 'production', 'accepted', 200, 1, now()
        FROM generate_series(\(first)::bigint, \(end - 1)) AS n ON CONFLICT DO NOTHING
        """
    }

    /// - Parameter first: Fences that were made before. Each is of another installation, none of which the workload touches.
    private func deadEntries(_ count: Int, after first: Int) -> String {
        let few = count / 10
        // What a night's dump leaves is older than a minute.
        let past = "now() - interval '10 minutes'"
        return """
            BEGIN;
            INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, ended, free_from)
            SELECT new.id, n, \(app), CASE n % 3 WHEN 0 THEN 'now' WHEN 1 THEN 'soon' ELSE 'bulk' END, '', \(past), int8send(1000000000000),
                ~B'0'::bit(100), \(past)
            FROM (SELECT new_id() AS id LIMIT 1) AS new, generate_series(1, \(count)) AS n;
            UPDATE jobs SET published_at = now() WHERE published_at IS NULL AND xmin = pg_current_xact_id()::xid;
            INSERT INTO fan_outs (notification, app_id, lane, target, due_at, free_from)
            SELECT new_id(), \(app), CASE n % 2 WHEN 0 THEN 'now' ELSE 'bulk' END, 'all', \(past), \(past)
                FROM generate_series(1, \(few)) AS n;
            UPDATE fan_outs SET free_from = NULL, ended_at = now() WHERE free_from IS NOT NULL AND xmin = pg_current_xact_id()::xid;
            INSERT INTO cancellations (notification, at, reason, hasten_from)
            SELECT new_id(), \(past), 'cancelled', \(past) FROM generate_series(1, \(few)) AS n;
            UPDATE cancellations SET published_at = now(), hastened_at = now()
            WHERE published_at IS NULL AND xmin = pg_current_xact_id()::xid;
            INSERT INTO fences (app_id, installation, epochs_below, created_at, free_from)
            SELECT \(app), md5('i' || (2 * (\(first) + n) + 1) % \(installations))::uuid, 1, \(past), \(past)
            FROM generate_series(0, \(few - 1)) AS n;
            UPDATE fences SET published_at = now() WHERE published_at IS NULL AND xmin = pg_current_xact_id()::xid;
            INSERT INTO webhook_messages (webhook, id, topic, body, created_at, due_at)
            SELECT '\(webhook)', new_id(), 'webhook.ping', '{}', \(past), \(past) FROM generate_series(1, \(few)) AS n;
            UPDATE webhook_messages SET state = 'delivered', settled_at = now() WHERE state = 'pending'
                AND xmin = pg_current_xact_id()::xid;
            COMMIT
            """
    }
}

/// - Parameter count: A query that answers 0 until it is so.
func wait(_ what: String, _ database: Database, seconds: Double = 120, _ count: () -> String) throws {
    let end = ContinuousClock.now + .seconds(seconds)
    while ContinuousClock.now < end {
        if try database.integer(count()) > 0 { return }
        Thread.sleep(forTimeInterval: 0.1)
    }
    throw BenchmarkError("\(Int(seconds)) s have passed and it is not so that \(what)")
}
