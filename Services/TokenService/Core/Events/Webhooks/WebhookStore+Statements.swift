import Postgres

extension WebhookStore {
    /// One at a time, so that the limit and `reports_notifications` are right.
    static let lockApp: PostgresStatement = "SELECT id FROM apps WHERE id = $1 FOR NO KEY UPDATE"

    static let insert: PostgresStatement = """
        INSERT INTO webhooks (id, app_id, url, events, description, secret)
        SELECT $1, $2, $3, $4, $5, $6 WHERE (SELECT count(*) FROM webhooks WHERE app_id = $2) < $7
        """
    static let selectAll: PostgresStatement = """
        SELECT id, url, events, description, disabled_reason, disabled_at, created_at, failing_since, last_success_at, last_failure_at,
            last_failure, CASE WHEN previous_until > now() THEN previous_until END
        FROM webhooks WHERE app_id = $1 ORDER BY id
        """
    static let select: PostgresStatement = """
        SELECT id, url, events, description, disabled_reason, disabled_at, created_at, failing_since, last_success_at, last_failure_at,
            last_failure, CASE WHEN previous_until > now() THEN previous_until END
        FROM webhooks WHERE app_id = $1 AND id = $2
        """
    static let update: PostgresStatement = """
        UPDATE webhooks SET url = $2, events = $3, description = $4,
            disabled_reason = CASE $5::boolean WHEN true THEN NULL WHEN false THEN coalesce(disabled_reason, 'by_request') ELSE disabled_reason END,
            disabled_at = CASE $5 WHEN true THEN NULL WHEN false THEN coalesce(disabled_at, now()) ELSE disabled_at END,
            failing_since = CASE WHEN $5 AND disabled_reason IS NOT NULL THEN NULL ELSE failing_since END
        WHERE id = $1
        """
    static let hasten: PostgresStatement = "UPDATE webhook_messages SET due_at = now() WHERE webhook = $1 AND state = 'pending'"
    static let delete: PostgresStatement = "DELETE FROM webhooks WHERE app_id = $1 AND id = $2"
    static let rotate: PostgresStatement = """
        UPDATE webhooks SET previous_secret = secret, previous_until = now() + make_interval(secs => $4), secret = $3
        WHERE app_id = $1 AND id = $2
        """
    /// What decides whether its notifications' changes are written down.
    static let tellNotifications: PostgresStatement = """
        UPDATE apps a SET reports_notifications = told.wanted FROM (
            SELECT 'notifications' = ANY (event_stream) OR EXISTS (
                SELECT FROM webhooks w, unnest(w.events) AS event
                WHERE w.app_id = apps.id AND w.disabled_reason IS NULL AND (event = '*' OR event LIKE 'notification.%')) AS wanted
            FROM apps WHERE id = $1
        ) AS told
        WHERE a.id = $1 AND a.reports_notifications <> told.wanted
        """

    static let subscriptions: PostgresStatement = """
        SELECT w.id, w.app_id, a.slug, w.events FROM webhooks w JOIN apps a ON a.id = w.app_id WHERE w.disabled_reason IS NULL
        """
    /// A webhook that is deleted meanwhile is locked out, not waited for in a deadlock: its row is locked first, as its deletion does.
    static let insertMessages: PostgresStatement = """
        WITH open AS (
            SELECT id FROM webhooks WHERE id = ANY ($1::uuid[]) AND disabled_reason IS NULL ORDER BY id FOR KEY SHARE
        )
        INSERT INTO webhook_messages (webhook, id, topic, body, created_at, due_at)
        SELECT e.webhook, e.id, e.topic, e.body, now(), now()
        FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[]) AS e (webhook, id, topic, body) JOIN open ON open.id = e.webhook
        ON CONFLICT DO NOTHING
        """
    static let selectMessages: PostgresStatement = """
        SELECT id, topic, state, attempts, created_at, due_at, settled_at, last_at, last_status, last_error
        FROM webhook_messages WHERE webhook = $1 AND ($2::text IS NULL OR state = $2) AND id < $3 ORDER BY id DESC LIMIT $4
        """
    static let redeliver: PostgresStatement = """
        UPDATE webhook_messages SET state = 'pending', attempts = 0, due_at = now(), settled_at = NULL
        WHERE webhook = $1 AND id = ANY ($2::uuid[])
        """
    static let redeliverFailed: PostgresStatement = """
        UPDATE webhook_messages SET state = 'pending', attempts = 0, due_at = now(), settled_at = NULL
        WHERE webhook = $1 AND id IN (SELECT id FROM webhook_messages WHERE webhook = $1 AND state = 'failed' ORDER BY id LIMIT $2)
        """
}
