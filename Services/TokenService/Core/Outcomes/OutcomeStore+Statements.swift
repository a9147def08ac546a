import Postgres

extension OutcomeStore {
    static let lockDeliveries: PostgresStatement = """
        SELECT coalesce(array_agg(id), '{}') FROM (SELECT id FROM deliveries WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE) AS locked
        """

    /// What is told in the meantime without having been tried bears the next try's number, too: events are put in order by it. Whoever reads
    /// the attempts takes that one away (``NotificationStatus/Attempt/wasTried``).
    ///
    /// `(…) IS TRUE`: found by id alone. Until the deliveries of a large audience are analyzed, the index that begins with the notification
    /// seems as good, and each outcome would read all of that notification's.
    static let noteAttempts: PostgresStatement = """
        UPDATE deliveries d SET attempts = e.attempt, last_class = e.class, last_status = e.status, last_reason = e.reason,
            last_at = e.at, retry_at = e.retry_at, updated_at = now()
        FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[], $5::text[], $6::int[], $7::timestamptz[], $8::timestamptz[])
            AS e (id, notification, class, status, reason, attempt, at, retry_at)
        WHERE d.id = e.id AND (d.notification = e.notification) IS TRUE AND d.class IS NULL AND d.attempts <= e.attempt
            -- A replay counts on from here: this number was told in the delivery's earlier life.
            AND (d.attempts < e.attempt OR NOT d.is_replayed OR d.last_reason IS DISTINCT FROM 'replayed')
        """
    static let finish: PostgresStatement = """
        UPDATE deliveries d SET class = e.class, status = e.status, reason = e.reason, updated_at = now(),
            environment = coalesce(e.environment, d.environment),
            -- What was stopped on purpose was not tried; neither was what was put back before, though it had the next try's number.
            attempts = greatest(
                d.attempts - coalesce((d.last_class <> 'unknown' AND d.last_status IS NULL)::int, 0),
                e.attempt - (e.class IN ('expired', 'fenced', 'held', 'cancelled'))::int)
        FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[], $5::text[], $6::int[], $7::text[])
            AS e (id, notification, class, status, reason, attempt, environment)
        JOIN notifications n ON n.id = e.notification
        WHERE d.id = e.id AND (d.notification = e.notification) IS TRUE AND d.class IS NULL
            -- What a replay reopened is ended only by what comes after it (DeadLetterStore).
            AND (NOT d.is_replayed OR e.attempt > d.attempts OR e.attempt = d.attempts AND d.last_reason IS DISTINCT FROM 'replayed')
        RETURNING d.id, d.notification, n.app_id, d.token_id, d.class, d.environment, d.unproven, d.is_replayed
        """
    static let lockNotifications: PostgresStatement =
        "SELECT count(*) FROM (SELECT id FROM notifications WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE) AS locked"

    static let settleNotifications: PostgresStatement = """
        UPDATE notifications n SET pending = n.pending - e.count,
            -- While it is walked more may come, and the walk's last step completes it.
            state = CASE WHEN n.pending = e.count AND n.state IN ('accepted', 'sending') THEN 'completed' ELSE n.state END,
            completed_at = CASE WHEN n.pending = e.count AND n.state <> 'expanding' THEN now() END
        FROM unnest($1::uuid[], $2::int[]) AS e (id, count)
        WHERE n.id = e.id RETURNING n.pending = 0 AND n.state <> 'expanding'
        """
    static let lockInstallations: PostgresStatement = """
        SELECT count(*) FROM (
            SELECT i.id FROM installations i
            WHERE (i.app_id, i.id) IN (
                SELECT n.app_id, d.installation FROM deliveries d JOIN notifications n ON n.id = d.notification
                WHERE d.id = ANY ($1::uuid[]))
            ORDER BY i.app_id, i.id FOR NO KEY UPDATE
        ) AS locked
        """
    /// A line of history only where the installation was not throttled already.
    static let throttle: PostgresStatement = """
        WITH wanted AS (
            SELECT DISTINCT ON (n.app_id, d.installation) n.app_id, d.installation, d.token_id, u.*
            FROM unnest($1::uuid[], $2::timestamptz[], $3::int[], $4::text[]) AS u (id, until, status, reason)
            JOIN deliveries d ON d.id = u.id JOIN notifications n ON n.id = d.notification
            ORDER BY n.app_id, d.installation, u.until DESC
        ), noted AS (
            UPDATE installations i SET throttled_until = w.until FROM wanted w
            WHERE i.app_id = w.app_id AND i.id = w.installation AND i.deregistered_at IS NULL
                AND (i.throttled_until IS NULL OR i.throttled_until < w.until)
            RETURNING w.*
        ), told AS (
            INSERT INTO installation_history (app_id, installation, at, event, token_id, token_hint, environment, purpose,
                status, reason, delivery)
            SELECT w.app_id, w.installation, now(), 'throttled', t.id, '…' || right(encode(t.token, 'hex'), 6), t.environment, t.purpose,
                w.status::smallint, w.reason, w.id
            FROM noted w JOIN installations before ON before.app_id = w.app_id AND before.id = w.installation
            LEFT JOIN tokens t ON t.id = w.token_id
            WHERE before.throttled_until IS NULL OR before.throttled_until <= now()
        )
        SELECT count(*) FROM noted
        """
    static let count: PostgresStatement = """
        INSERT INTO outcome_counts AS c (app_id, minute, class, count)
        SELECT app_id, date_trunc('minute', now()), class, count
        FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS e (app_id, class, count)
        ON CONFLICT (app_id, minute, class) DO UPDATE SET count = c.count + excluded.count
        """
}
