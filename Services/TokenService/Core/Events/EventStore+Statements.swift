import Postgres

extension EventStore {
    static let take: PostgresStatement = """
        UPDATE event_feeds SET holder = $3, lease_until = now() + make_interval(secs => $4)
        WHERE log = $1 AND sink = $2 AND (holder = $3 OR lease_until <= now()) RETURNING position
        """
    static let advance: PostgresStatement = """
        UPDATE event_feeds SET position = $4, lease_until = now() + make_interval(secs => $5)
        WHERE log = $1 AND sink = $2 AND holder = $3 AND position <= $4
        """
    static let release: PostgresStatement =
        "UPDATE event_feeds SET holder = NULL, lease_until = now() WHERE log = $1 AND sink = $2 AND holder = $3"

    static let notificationHorizon: PostgresStatement = """
        SELECT (SELECT coalesce(max(id), 0) FROM notification_events), pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
            pg_snapshot_xmax(pg_current_snapshot())::text::bigint
        """
    static let installationHorizon: PostgresStatement = """
        SELECT (SELECT coalesce(max(id), 0) FROM installation_history), pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
            pg_snapshot_xmax(pg_current_snapshot())::text::bigint
        """
    static let streamingApps: PostgresStatement = "SELECT id FROM apps WHERE $1 = ANY (event_stream)"

    static let notificationRows: PostgresStatement = """
        SELECT e.id, e.app_id, a.slug, e.notification, e.event, e.at, n.lane, n.push_type, n.accepted_at, n.expires_at, n.total, n.is_walked
        FROM notification_events e JOIN apps a ON a.id = e.app_id
        -- What was erased or is past its retention is told no more.
        JOIN notifications n ON n.id = e.notification
        WHERE e.id > $1 AND e.id <= $2 AND e.app_id = ANY ($3::bigint[]) ORDER BY e.id LIMIT $4
        """
    static let installationRows: PostgresStatement = """
        SELECT h.id, h.app_id, a.slug, h.installation, h.event, h.at, h.owner_epoch, h.token_hint, h.environment, h.purpose,
            h.other_installation, h.status, h.reason, h.apns_timestamp, h.delivery
        FROM installation_history h JOIN apps a ON a.id = h.app_id
        WHERE h.id > $1 AND h.id <= $2 AND h.app_id = ANY ($3::bigint[]) ORDER BY h.id LIMIT $4
        """
    static let counts: PostgresStatement = """
        SELECT n.id, d.class, d.count FROM notifications n
        CROSS JOIN LATERAL (
            SELECT class, count(*) FROM deliveries WHERE notification = n.id AND class IS NOT NULL GROUP BY class OFFSET 0
        ) AS d
        WHERE n.id = ANY ($1::uuid[]) AND n.receipts = 'all'
        UNION ALL
        SELECT c.notification, c.class, sum(c.count)::bigint FROM notification_counts c JOIN notifications n ON n.id = c.notification
        WHERE c.notification = ANY ($1::uuid[]) AND n.receipts = 'failures' AND c.count > 0 GROUP BY c.notification, c.class
        """
}
