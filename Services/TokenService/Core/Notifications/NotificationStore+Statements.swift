import Postgres

extension NotificationStore {
    /// Keys come in ascending order, so that whoever waits for another's key never holds one that the other waits for.
    static let claimKeys: PostgresStatement = """
        INSERT INTO idempotency_records AS r (app_id, api_key_id, key, fingerprint, notification, expires_at, warnings)
        SELECT app, caller, key, fingerprint, notification, now() + interval '24 hours', warnings
        FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[], $5::uuid[], $6::text[])
            AS e (app, caller, key, fingerprint, notification, warnings)
        ON CONFLICT (app_id, api_key_id, key) DO UPDATE SET
            fingerprint = excluded.fingerprint, notification = excluded.notification, expires_at = excluded.expires_at,
            warnings = excluded.warnings
        WHERE r.expires_at <= now()
        RETURNING notification
        """
    static let selectKey: PostgresStatement = """
        SELECT r.fingerprint, n.id, n.lane, n.push_type, n.total, n.accepted_at, n.expires_at, n.is_walked,
            n.not_before IS NOT NULL OR n.local_time IS NOT NULL, r.warnings, r.expires_at > now()
        FROM idempotency_records r JOIN notifications n ON n.id = r.notification
        WHERE r.app_id = $1 AND r.api_key_id = $2 AND r.key = $3
        """
    /// Targets' tokens, their deliveries and the notifications in one statement, which is one view of the registry. A user with more
    /// tokens than $20, or with quiet hours, is walked: an acceptance stays short, and nothing has to wait in it.
    ///
    /// OFFSET 0 keeps the order of the joins. Where nobody has analyzed the tables yet (a new database, a restored one), the planner would
    /// rather go through all tokens of the app, and where many quiet hours were set since, read all of them for each item.
    ///
    /// The first list is a subquery, so that the planner does not see its length. Otherwise the plan for a single notification looks
    /// cheaper than the one for any number, and is made anew each time, which takes longer than all the rest.
    static let insertResolved: PostgresStatement = """
        WITH item AS (
            SELECT * FROM unnest((SELECT $1::uuid[]), $2::bigint[], $3::text[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::int[],
                $9::text[], $10::bigint[], $11::text[], $12::bytea[], $13::text[], $14::timestamptz[], $15::timestamptz[], $16::text[],
                $17::float8[], $18::bool[], $19::bool[])
            AS item (id, app_id, target_user, target_installation, lane, push_type, topic, priority, collapse_id, apns_expiration,
                on_unknown, payload, traceparent, accepted_at, expires_at, purpose, lease, may_try, is_urgent)
        ), found AS (
            SELECT item.id AS notification, item.may_try, item.accepted_at, item.lease, f.*, delivery_id(item.id, f.id) AS delivery_id,
                count(*) OVER own AS total, count(*) OVER own > $20::bigint OR bool_or(f.may_be_quiet) OVER own AS is_walked,
                min(f.owner_epoch) OVER own AS epoch
            FROM item CROSS JOIN LATERAL (
                SELECT t.id, t.token, t.environment, i.id AS installation, i.owner_epoch, t.proven_at IS NULL AS unproven,
                    NOT item.is_urgent AND EXISTS (
                        SELECT FROM quiet_hours q WHERE q.app_id = item.app_id AND q.owner = i.owner OFFSET 0) AS may_be_quiet
                FROM (
                    SELECT o.id, o.ordinal, o.owner, o.owner_epoch FROM installations o WHERE o.app_id = item.app_id AND o.owner = item.target_user
                    UNION ALL
                    SELECT o.id, o.ordinal, o.owner, o.owner_epoch FROM installations o
                    WHERE o.app_id = item.app_id AND o.id = item.target_installation
                ) i
                CROSS JOIN LATERAL (
                    SELECT * FROM tokens
                    WHERE app_id = item.app_id AND ordinal = i.ordinal AND purpose = item.purpose AND state = 'active' OFFSET 0
                ) t
                LIMIT $20::bigint + 1
            ) f
            WINDOW own AS (PARTITION BY item.id)
        ), counted AS (
            SELECT DISTINCT ON (notification) notification, total::int, is_walked, epoch, lease FROM found ORDER BY notification
        ), kept AS (
            INSERT INTO outbox (notifications, lease_until)
            SELECT array_agg(notification), now() + make_interval(secs => max(lease)) FROM counted
            WHERE NOT is_walked AND lease > 0 HAVING count(*) > 0 RETURNING id
        ), made AS (
            INSERT INTO notifications (id, app_id, target_user, target_installation, lane, push_type, topic, priority, collapse_id,
                apns_expiration, on_unknown, payload, traceparent, accepted_at, expires_at, is_urgent,
                state, total, pending, free_from, published_at, completed_at, is_walked, target_epochs, is_reported)
            SELECT item.id, app_id, target_user, target_installation, lane, push_type, topic, priority::smallint, collapse_id,
                apns_expiration, on_unknown, payload, traceparent, accepted_at, expires_at, is_urgent,
                CASE WHEN total IS NULL THEN 'no_targets' ELSE 'accepted' END,
                CASE WHEN is_walked THEN 0 ELSE coalesce(total, 0) END, CASE WHEN is_walked THEN 0 ELSE coalesce(total, 0) END,
                CASE WHEN is_walked OR counted.lease = 0 THEN now() END,
                CASE WHEN total IS NULL THEN accepted_at END, CASE WHEN total IS NULL THEN accepted_at END, coalesce(is_walked, false),
                CASE WHEN is_walked AND target_installation IS NOT NULL THEN ARRAY[epoch] END,
                (SELECT a.reports_notifications FROM apps a WHERE a.id = item.app_id)
            FROM item LEFT JOIN counted ON counted.notification = item.id
        ), written AS (
            INSERT INTO deliveries (id, notification, token_id, installation, owner_epoch, environment, unproven, updated_at)
            SELECT delivery_id, notification, id, installation, owner_epoch, environment, unproven, accepted_at FROM found WHERE NOT is_walked
        )
        SELECT delivery_id, token, environment, installation, owner_epoch, unproven AND may_try, notification, is_walked, (SELECT id FROM kept)
        FROM found
        """
    /// Whose targets are found later, page by page. It is the relay's from when it is due, and what is due at once does not wait for the clock
    /// of whoever accepted it. A token that nobody holds reaches
    /// nobody: its place in the list is kept and the token is not, because nothing would tell whose it was when they ask to be erased.
    static let insertWalked: PostgresStatement = """
        INSERT INTO notifications (id, app_id, lane, push_type, topic, priority, collapse_id, apns_expiration, on_unknown, payload,
            traceparent, accepted_at, expires_at, target_user, target_users, target_installation, target_installations, target_tokens,
            target_tags, target_query, target_all, not_before, local_time, lifetime_ms, is_urgent, supersede_key,
            receipts, state, total, pending, is_walked, free_from, target_epochs, target_holders,
            is_reported)
        SELECT $1, $2, $3, $4, $5, $6::int::smallint, $7, $8, $9, $10, $11, $12, $13, $14, nullif($15::text[], '{}'), $16,
            nullif($17::uuid[], '{}'), CASE WHEN $18::bytea[] <> '{}' THEN known.tokens END, $19, $20::text::tsquery, $21, $22, $23::text::timestamp, $24, $25, $26,
            $27, CASE WHEN due > $12 THEN 'scheduled' ELSE 'accepted' END, 0, 0, true, due, known.epochs,
            CASE WHEN $18::bytea[] <> '{}' THEN known.holders END, (SELECT a.reports_notifications FROM apps a WHERE a.id = $2)
        FROM (SELECT coalesce($22, $23::text::timestamp AT TIME ZONE 'Etc/GMT-14', least($12, now())) AS due) AS moment,
            LATERAL (
                SELECT array_agg(owner_epoch ORDER BY place) AS epochs, array_agg(holder ORDER BY place) AS holders,
                    array_agg(CASE WHEN holder IS NOT NULL THEN token END ORDER BY place) AS tokens
                FROM (
                    SELECT place, i.owner_epoch, i.id AS holder, NULL::bytea AS token
                    FROM unnest(coalesce(nullif($17::uuid[], '{}'), ARRAY[$16::uuid])) WITH ORDINALITY AS named (id, place)
                    LEFT JOIN installations i ON i.app_id = $2 AND i.id = named.id
                    WHERE named.id IS NOT NULL
                    UNION ALL
                    SELECT place, held.owner_epoch, held.id, named.token
                    FROM unnest($18::bytea[]) WITH ORDINALITY AS named (token, place) LEFT JOIN LATERAL (
                        SELECT i.owner_epoch, i.id FROM tokens t JOIN installations i ON i.app_id = t.app_id AND i.id = t.installation
                        -- IS TRUE: by the token, of all indexes that begin with the app.
                        WHERE t.app_id = $2 AND t.token = named.token AND (t.purpose = $28 AND t.state = 'active') IS TRUE
                        ORDER BY t.registered_at DESC LIMIT 1
                    ) AS held ON true
                ) AS named WHERE $16 IS NOT NULL OR $17::uuid[] <> '{}' OR $18::bytea[] <> '{}'
            ) AS known
        """
    /// Two that would supersede each other come one after the other: the later to commit is the newer one.
    /// All locks of a batch at once and in one order. The first half of their keys is the word "sup".
    static let lockSupersessions: PostgresStatement = """
        SELECT count(pg_advisory_xact_lock(7566704, place)) FROM (
            SELECT DISTINCT hashtext(concat_ws(' ', app, key, target)) AS place
            FROM unnest($1::bigint[], $2::text[], $3::text[]) AS e (app, key, target) ORDER BY place
        ) AS ordered
        """

    static let insertVariants: PostgresStatement = """
        INSERT INTO notification_variants (notification, locale, payload) SELECT $1, * FROM unnest($2::text[], $3::bytea[])
        """
}
