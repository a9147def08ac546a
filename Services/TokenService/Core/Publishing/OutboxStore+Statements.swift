import Postgres

extension OutboxStore {
    /// Rows are locked in ascending order of id, as everywhere.
    static let markPublished: PostgresStatement = """
        WITH locked AS (SELECT id FROM notifications WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE)
        UPDATE notifications n SET published_at = now(), free_from = NULL, state = CASE n.state WHEN 'accepted' THEN 'sending' ELSE n.state END
        FROM locked WHERE n.id = locked.id AND n.published_at IS NULL
        """
    static let release: PostgresStatement = """
        WITH locked AS (SELECT id FROM notifications WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE)
        UPDATE notifications n SET free_from = now() + interval '1 second'
        FROM locked WHERE n.id = locked.id AND n.published_at IS NULL
        """
    static let renew: PostgresStatement = """
        WITH locked AS (SELECT id FROM notifications WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE)
        UPDATE notifications n SET free_from = now() + make_interval(secs => $2)
        -- IS TRUE: not by the index on what is free, which is small only while nothing waits.
        FROM locked WHERE n.id = locked.id AND n.published_at IS NULL AND (n.free_from IS NOT NULL) IS TRUE
        """
    /// IS TRUE: not by the index on those that are open, each of which would be compared with all of the ids.
    static let markFencesPublished: PostgresStatement =
        "UPDATE fences SET published_at = now() WHERE id = ANY ($1::bigint[]) AND (published_at IS NULL) IS TRUE"

    /// What is scheduled does not wait: it is free in the future. $2: see ``OutboxReach``.
    static let backlog: PostgresStatement = """
        SELECT (SELECT count(*) FROM (
                SELECT 1 FROM notifications
                WHERE free_from <= now() + interval '1 minute' AND is_walked IN (false, true) AND lane IN ('now', 'soon', 'bulk')
                    AND published_at IS NULL LIMIT $1) AS waiting)
            + (SELECT coalesce(sum(cardinality(notifications)), 0)::bigint FROM (
                SELECT notifications FROM outbox WHERE id > $2 LIMIT $1) AS waiting)
            + (SELECT count(*) FROM (
                SELECT 1 FROM chunks WHERE published_at IS NULL AND lease_until <= now() + interval '1 minute' LIMIT $1) AS waiting)
        """
    /// What is under way is free within $1 seconds; what is scheduled for later, then, or its state says so.
    static let oldestWalk: PostgresStatement = """
        SELECT min(due) FROM (
            SELECT greatest(accepted_at, not_before, local_time AT TIME ZONE 'Etc/GMT-14') AS due FROM notifications
            WHERE published_at IS NULL AND is_walked AND lane IN ('now', 'soon', 'bulk') AND free_from <= now() + make_interval(secs => $1)
                AND (state <> 'scheduled' OR free_from <= now())
            LIMIT 1000
        ) AS unfinished
        """
    static let claim: PostgresStatement = """
        WITH found AS (
            SELECT id FROM notifications
            WHERE is_walked = $1 AND lane = $2 AND free_from <= now() ORDER BY free_from LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED
        )
        UPDATE notifications n SET free_from = now() + make_interval(secs => $4) FROM found f WHERE n.id = f.id RETURNING n.id
        """
    /// What of the outbox has no lease any more becomes the relay's. Rows of the outbox before notifications, as whoever settles them.
    /// Arrays instead of joins: a plan for the few rows that there are would read all that were, which grow until the next vacuum.
    static let openOutbox: PostgresStatement = """
        WITH over AS (
            SELECT id FROM outbox WHERE id > $1 AND lease_until <= now() ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED
        ), gone AS (
            DELETE FROM outbox WHERE id = ANY (ARRAY(SELECT id FROM over)) RETURNING notifications
        ), freed AS (
            UPDATE notifications n SET free_from = now() FROM (
                SELECT id FROM notifications WHERE id = ANY (ARRAY(SELECT unnest(notifications) FROM gone))
                    AND published_at IS NULL AND free_from IS NULL ORDER BY id FOR NO KEY UPDATE
            ) AS locked WHERE n.id = locked.id
        )
        SELECT count(*) FROM gone
        """
    static let closeOutbox: PostgresStatement = """
        WITH locked AS (SELECT id FROM outbox WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE)
        DELETE FROM outbox WHERE id = ANY (ARRAY(SELECT id FROM locked))
        """
    static let renewOutbox: PostgresStatement = """
        WITH locked AS (SELECT id FROM outbox WHERE id = ANY ($1::bigint[]) ORDER BY id FOR NO KEY UPDATE)
        UPDATE outbox SET lease_until = now() + make_interval(secs => $2) WHERE id = ANY (ARRAY(SELECT id FROM locked))
        """
    /// The last number that was given out, and the first that is still there.
    static let outboxBounds: PostgresStatement = """
        SELECT coalesce(pg_sequence_last_value('outbox_id_seq'), 0), (SELECT id FROM outbox WHERE id > $1 ORDER BY id LIMIT 1)
        """
    static let settleChunks: PostgresStatement = """
        WITH locked AS (
            SELECT c.notification, c.number, e.is_published
            FROM unnest($1::uuid[], $2::int[], $3::bool[]) AS e (notification, number, is_published)
            JOIN chunks c ON c.notification = e.notification AND c.number = e.number
            ORDER BY c.notification, c.number FOR NO KEY UPDATE OF c
        )
        UPDATE chunks c SET published_at = CASE WHEN l.is_published THEN now() END,
            lease_until = CASE WHEN l.is_published THEN c.lease_until ELSE now() + interval '1 second' END
        -- Not by the index on what is unpublished, which is small only while nothing waits.
        FROM locked l WHERE c.notification = l.notification AND c.number = l.number AND coalesce(c.published_at, 'infinity') = 'infinity'
        """
    static let renewChunks: PostgresStatement = """
        WITH locked AS (
            SELECT notification, number FROM chunks
            WHERE (notification, number) IN (SELECT * FROM unnest($1::uuid[], $2::int[])) ORDER BY notification, number FOR NO KEY UPDATE
        )
        UPDATE chunks c SET lease_until = now() + make_interval(secs => $3) FROM locked l
        WHERE c.notification = l.notification AND c.number = l.number AND coalesce(c.published_at, 'infinity') = 'infinity'
        """
    static let superseding: PostgresStatement = "SELECT id FROM notifications WHERE id = ANY ($1::uuid[]) AND supersede_key IS NOT NULL"
    static let lockDeliveries: PostgresStatement = """
        SELECT count(*) FROM (
            SELECT id FROM deliveries WHERE notification = ANY ($1::uuid[]) AND class IS NULL ORDER BY id FOR NO KEY UPDATE
        ) AS locked
        """
    static let lockNotifications: PostgresStatement = """
        SELECT count(*) FROM (SELECT id FROM notifications WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE) AS locked
        """
    static let endDeliveries: PostgresStatement = """
        UPDATE deliveries d SET updated_at = now(),
            class = CASE WHEN n.state = 'cancelled' THEN 'cancelled' WHEN n.expires_at <= now() THEN 'expired' ELSE 'fenced' END,
            reason = CASE WHEN n.state = 'cancelled' THEN 'cancelled_before_publishing'
                WHEN n.expires_at <= now() THEN 'expired_before_publishing' ELSE 'owner_changed' END
        FROM notifications n, installations i
        WHERE d.notification = ANY ($1::uuid[]) AND d.class IS NULL AND n.id = d.notification
            AND n.published_at IS NULL AND i.app_id = n.app_id AND i.id = d.installation
            -- A token that was erased with its user leaves nothing to send to.
            AND (n.state = 'cancelled' OR n.expires_at <= now() OR i.owner_epoch > d.owner_epoch OR NOT EXISTS (SELECT FROM tokens t WHERE t.id = d.token_id))
        """
    /// What has its outcome from ``endDeliveries``: told until it is published, so that a process that dies in between leaves it to the next.
    static let selectEnded: PostgresStatement = """
        SELECT d.notification, d.class, d.id, d.installation, d.reason FROM deliveries d JOIN notifications n ON n.id = d.notification
        WHERE d.notification = ANY ($1::uuid[]) AND n.published_at IS NULL AND d.class IS NOT NULL
            AND d.attempts = 0 AND d.reason = ANY ($2::text[])
        ORDER BY d.notification, d.class, d.id
        """
    /// $2: the reasons of what is still to be told; a notification that has some is published with that.
    static let settle: PostgresStatement = """
        WITH locked AS (SELECT id FROM notifications WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE),
        counted AS (
            SELECT l.id, count(d.id) FILTER (WHERE d.class IS NULL)::int AS pending,
                bool_or(d.attempts = 0 AND d.reason = ANY ($2::text[])) IS TRUE AS is_told
            FROM locked l LEFT JOIN deliveries d ON d.notification = l.id GROUP BY l.id
        )
        UPDATE notifications n SET pending = c.pending,
            state = CASE WHEN c.pending > 0 OR n.pending = 0 OR n.state = 'cancelled' THEN n.state
                WHEN n.expires_at <= now() THEN 'expired' ELSE 'completed' END,
            published_at = CASE WHEN c.pending = 0 AND NOT c.is_told THEN now() END,
            free_from = CASE WHEN c.pending > 0 OR c.is_told THEN n.free_from END,
            completed_at = CASE WHEN c.pending = 0 THEN coalesce(n.completed_at, now()) END
        FROM counted c WHERE n.id = c.id AND n.published_at IS NULL
        """
    static let selectDeliveries: PostgresStatement = """
        SELECT d.id, t.token, d.environment, d.installation, d.owner_epoch, d.unproven AND cardinality(a.environments) > 1, d.notification
        FROM deliveries d JOIN tokens t ON t.id = d.token_id JOIN apps a ON a.id = t.app_id
        WHERE d.notification = ANY ($1::uuid[]) AND d.class IS NULL ORDER BY d.notification, d.token_id
        """
    /// In the order of `fences_open`; it does not matter which goes first.
    static let leftOverFences: PostgresStatement = """
        SELECT f.id, a.slug, f.installation, f.epochs_below, f.created_at FROM fences f JOIN apps a ON a.id = f.app_id
        WHERE f.published_at IS NULL AND f.created_at < now() - interval '2 seconds' ORDER BY f.app_id, f.installation LIMIT $1
        """
}
