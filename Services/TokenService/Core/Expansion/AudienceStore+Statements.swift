import Postgres

/// Whoever is meant by a notification. A target that names installations or tokens means them as they were when it was accepted: with
/// the same owner, and held by the same installation.
extension AudienceStore {
    static let select: PostgresStatement = """
        SELECT n.app_id, n.receipts = 'all', n.lifetime_ms, cardinality(a.environments) > 1, n.walked_ordinal, n.walked_entries, n.chunks,
            CASE WHEN n.target_all OR n.target_query IS NOT NULL THEN NULL ELSE coalesce(cardinality(n.target_users),
                cardinality(n.target_installations), cardinality(n.target_tokens), 1) END, n.target_tags, n.target_all IS TRUE,
            greatest(n.accepted_at, n.not_before, n.local_time AT TIME ZONE 'Etc/GMT-14') - interval '10 seconds'
        FROM notifications n JOIN apps a ON a.id = n.app_id WHERE n.id = $1 AND n.published_at IS NULL
        """
    static let selectVariants: PostgresStatement =
        "SELECT notification, locale, payload FROM notification_variants WHERE notification = ANY ($1::uuid[]) ORDER BY notification, locale"

    /// Where a page of an app's installations ends.
    static let pageEnd: PostgresStatement = """
        SELECT ordinal, count(*) OVER () FROM (
            SELECT ordinal FROM installations WHERE app_id = $1 AND ordinal > $2 ORDER BY ordinal LIMIT $3
        ) AS page ORDER BY ordinal DESC LIMIT 1
        """
    /// Columns of all pages: token id, token, environment, installation, owner epoch, whether APNs accepted the token nowhere yet, locale,
    /// when it is due where that is another moment than now (in the past where the walk is late), and whether it has moved between
    /// installations since the walk may have begun, so that it may be in a chunk already. A receipt for each tells that at once; without them few tokens have registered since then.
    static let pageOfApp: PostgresStatement = """
        SELECT t.id, t.token, t.environment, i.id, i.owner_epoch, t.unproven, CASE WHEN $5 THEN i.locale END,
            CASE WHEN n.local_time IS NOT NULL OR q.owner IS NOT NULL THEN
                due_at(n.local_time, n.lifetime_ms, n.accepted_at, q.begins_at, q.ends_at, coalesce(z.name, 'UTC')) END,
            CASE WHEN n.receipts = 'all' OR t.registered_at < $6 THEN false ELSE EXISTS (
                SELECT FROM installation_history h WHERE h.token_id = t.id AND h.event = 'token_moved_away' AND h.at >= $6 OFFSET 0) END
        FROM notifications n
        CROSS JOIN LATERAL (
            SELECT i.id, i.ordinal, i.owner, i.owner_epoch, i.locale, i.time_zone FROM installations i
            WHERE i.app_id = n.app_id AND i.ordinal > $2 AND i.ordinal <= $3 AND i.deregistered_at IS NULL
                AND (n.target_all OR array_to_tsvector(i.tags) @@ n.target_query)
            ORDER BY i.ordinal OFFSET 0
        ) AS i
        CROSS JOIN LATERAL (
            SELECT t.id, t.token, t.environment, t.proven_at IS NULL AS unproven, t.registered_at FROM tokens t
            WHERE t.app_id = n.app_id AND t.ordinal = i.ordinal AND t.purpose = $4 AND t.state = 'active'
                -- It moved here from where the walk has been. OFFSET 0: looked up one by one, and not all of the notification's for every page.
                AND (n.receipts <> 'all' OR NOT EXISTS (SELECT FROM deliveries d WHERE d.notification = n.id AND d.token_id = t.id OFFSET 0))
            OFFSET 0
        ) AS t
        LEFT JOIN quiet_hours q ON NOT n.is_urgent AND q.app_id = n.app_id AND q.owner = i.owner
        LEFT JOIN time_zones z ON (n.local_time IS NOT NULL OR q.owner IS NOT NULL) AND z.name = i.time_zone
        WHERE n.id = $1 ORDER BY i.ordinal
        """
    /// By the index on tags, which knows those of every app, in no order. Counted no further than ``maximumRare``.
    static let countTagged: PostgresStatement = """
        SELECT count(*) FROM (SELECT FROM installations WHERE tags && $1::text[] AND tags <> '{}' LIMIT 50001) AS found
        """
    /// The next $3 of the app's installations with one of these tags.
    static let taggedInstallations: PostgresStatement = """
        WITH found AS MATERIALIZED (SELECT app_id, id, ordinal FROM installations WHERE tags && $4::text[] AND tags <> '{}')
        SELECT id, ordinal FROM found WHERE app_id = $1 AND ordinal > $2 ORDER BY ordinal LIMIT $3
        """
    static let pageOfTagged: PostgresStatement = """
        SELECT t.id, t.token, t.environment, i.id, i.owner_epoch, t.unproven, CASE WHEN $4 THEN i.locale END,
            CASE WHEN n.local_time IS NOT NULL OR q.owner IS NOT NULL THEN
                due_at(n.local_time, n.lifetime_ms, n.accepted_at, q.begins_at, q.ends_at, coalesce(z.name, 'UTC')) END,
            CASE WHEN n.receipts = 'all' OR t.registered_at < $5 THEN false ELSE EXISTS (
                SELECT FROM installation_history h WHERE h.token_id = t.id AND h.event = 'token_moved_away' AND h.at >= $5 OFFSET 0) END
        FROM notifications n
        CROSS JOIN LATERAL (
            SELECT i.id, i.ordinal, i.owner, i.owner_epoch, i.locale, i.time_zone, place
            FROM unnest($2::uuid[]) WITH ORDINALITY AS tagged (id, place)
            CROSS JOIN LATERAL (SELECT * FROM installations WHERE app_id = n.app_id AND id = tagged.id OFFSET 0) AS i
            WHERE i.deregistered_at IS NULL AND array_to_tsvector(i.tags) @@ n.target_query
            ORDER BY place OFFSET 0
        ) AS i
        CROSS JOIN LATERAL (
            SELECT t.id, t.token, t.environment, t.proven_at IS NULL AS unproven, t.registered_at FROM tokens t
            WHERE t.app_id = n.app_id AND t.ordinal = i.ordinal AND t.purpose = $3 AND t.state = 'active'
                AND (n.receipts <> 'all' OR NOT EXISTS (SELECT FROM deliveries d WHERE d.notification = n.id AND d.token_id = t.id OFFSET 0))
            OFFSET 0
        ) AS t
        LEFT JOIN quiet_hours q ON NOT n.is_urgent AND q.app_id = n.app_id AND q.owner = i.owner
        LEFT JOIN time_zones z ON (n.local_time IS NOT NULL OR q.owner IS NOT NULL) AND z.name = i.time_zone
        WHERE n.id = $1 ORDER BY i.place
        """
    /// Everybody's installations, in order: id, owner epoch, locale, when it is due, and the ordinal.
    static let installationsOfEverybody: PostgresStatement = """
        SELECT i.id, i.owner_epoch, CASE WHEN $4 THEN i.locale END,
            CASE WHEN n.local_time IS NOT NULL OR q.owner IS NOT NULL THEN
                due_at(n.local_time, n.lifetime_ms, n.accepted_at, q.begins_at, q.ends_at,
                    coalesce((SELECT name FROM time_zones WHERE name = i.time_zone), 'UTC')) END, i.ordinal
        FROM notifications n
        CROSS JOIN LATERAL (
            SELECT i.id, i.ordinal, i.owner, i.owner_epoch, i.locale, i.time_zone FROM installations i
            WHERE i.app_id = n.app_id AND i.ordinal > $2 AND i.ordinal <= $3 AND i.deregistered_at IS NULL
            ORDER BY i.ordinal OFFSET 0
        ) AS i
        LEFT JOIN quiet_hours q ON NOT n.is_urgent AND q.app_id = n.app_id AND q.owner = i.owner
        WHERE n.id = $1 ORDER BY i.ordinal
        """
    /// Everybody's tokens, in the same order: found in one go along the index, which costs half of asking for each installation's.
    /// $6: a receipt is kept for each, which tells of those that moved here from where the walk has been.
    static let tokensOfEverybody: PostgresStatement = """
        SELECT t.id, t.token, t.environment, t.installation, t.proven_at IS NULL,
            CASE WHEN $6 OR t.registered_at < $7 THEN false ELSE EXISTS (
                SELECT FROM installation_history h WHERE h.token_id = t.id AND h.event = 'token_moved_away' AND h.at >= $7 OFFSET 0) END, t.ordinal
        FROM tokens t
        WHERE t.app_id = $1 AND t.ordinal > $2 AND t.ordinal <= $3 AND t.purpose = $4 AND t.state = 'active'
            AND (NOT $6 OR NOT EXISTS (SELECT FROM deliveries d WHERE d.notification = $5 AND d.token_id = t.id OFFSET 0))
        ORDER BY t.ordinal
        """
    /// Of a list: its entries after the $2-th, up to the $3-th.
    static let pageOfList: PostgresStatement = """
        SELECT t.id, t.token, t.environment, i.id, i.owner_epoch, t.unproven, CASE WHEN $5 THEN i.locale END,
            CASE WHEN n.local_time IS NOT NULL OR q.owner IS NOT NULL THEN
                due_at(n.local_time, n.lifetime_ms, n.accepted_at, q.begins_at, q.ends_at, coalesce(z.name, 'UTC')) END,
            CASE WHEN n.receipts = 'all' OR t.registered_at < $6 THEN false ELSE EXISTS (
                SELECT FROM installation_history h WHERE h.token_id = t.id AND h.event = 'token_moved_away' AND h.at >= $6 OFFSET 0) END
        FROM notifications n
        CROSS JOIN LATERAL (
            SELECT i.id, i.ordinal, i.owner, i.owner_epoch, i.locale, i.time_zone, NULL::bytea AS token
            FROM unnest((coalesce(n.target_users, ARRAY[n.target_user]))[$2::int + 1:$3::int]) AS named (owner)
            JOIN installations i ON i.app_id = n.app_id AND i.owner = named.owner
            UNION ALL
            SELECT i.id, i.ordinal, i.owner, i.owner_epoch, i.locale, i.time_zone, NULL
            FROM unnest((coalesce(n.target_installations, ARRAY[n.target_installation]))[$2::int + 1:$3::int],
                n.target_epochs[$2::int + 1:$3::int]) AS named (id, epoch)
            JOIN installations i ON i.app_id = n.app_id AND i.id = named.id AND i.owner_epoch = named.epoch
            UNION ALL
            SELECT i.id, i.ordinal, i.owner, i.owner_epoch, i.locale, i.time_zone, named.token
            FROM unnest(n.target_tokens[$2::int + 1:$3::int], n.target_holders[$2::int + 1:$3::int], n.target_epochs[$2::int + 1:$3::int])
                AS named (token, holder, epoch)
            JOIN installations i ON i.app_id = n.app_id AND i.id = named.holder AND i.owner_epoch = named.epoch
            WHERE n.target_tokens IS NOT NULL
        ) AS i
        CROSS JOIN LATERAL (
            SELECT t.id, t.token, t.environment, t.proven_at IS NULL AS unproven, t.registered_at FROM tokens t
            WHERE t.app_id = n.app_id AND t.ordinal = i.ordinal AND t.purpose = $4 AND t.state = 'active'
                AND (i.token IS NULL OR t.token = i.token)
                AND (n.receipts <> 'all' OR NOT EXISTS (SELECT FROM deliveries d WHERE d.notification = n.id AND d.token_id = t.id OFFSET 0))
            OFFSET 0
        ) AS t
        LEFT JOIN quiet_hours q ON NOT n.is_urgent AND q.app_id = n.app_id AND q.owner = i.owner
        LEFT JOIN time_zones z ON (n.local_time IS NOT NULL OR q.owner IS NOT NULL) AND z.name = i.time_zone
        WHERE n.id = $1
        """
    /// The members of some of a notification's chunks, one after the other.
    static let membersOfChunks: PostgresStatement = """
        SELECT coalesce(string_agg(members, ''), '') FROM chunks WHERE notification = $1 AND number >= $2 AND number < $3
        """
    /// Those of a chunk's members that are still meant.
    static let members: PostgresStatement = """
        SELECT t.id, t.token, t.environment, i.id, i.owner_epoch, t.proven_at IS NULL AND cardinality(a.environments) > 1
        FROM notifications n JOIN apps a ON a.id = n.app_id
        CROSS JOIN LATERAL (SELECT * FROM tokens t WHERE t.id = ANY ($2::bigint[]) OFFSET 0) AS t
        JOIN installations i ON i.app_id = t.app_id AND i.id = t.installation
        WHERE n.id = $1 AND t.app_id = n.app_id AND t.purpose = $3 AND t.state = 'active' AND i.deregistered_at IS NULL AND (
            n.target_all OR array_to_tsvector(i.tags) @@ n.target_query OR i.owner = n.target_user OR i.owner = ANY (n.target_users)
            OR i.owner_epoch = n.target_epochs[
                array_position(coalesce(n.target_installations, ARRAY[n.target_installation]), i.id)]
            OR i.id = n.target_holders[array_position(n.target_tokens, t.token)]
                AND i.owner_epoch = n.target_epochs[array_position(n.target_tokens, t.token)])
        """
    static let retired: PostgresStatement = "SELECT id FROM tokens WHERE id = ANY ($1::bigint[]) AND state <> 'active'"
    /// Moves the checkpoint from where this walk has seen it. Nothing is changed where somebody else has walked on, or where the
    /// notification was stopped.
    static let advance: PostgresStatement = """
        UPDATE notifications SET walked_ordinal = $2, walked_entries = $3, chunks = $4, total = total + $5, pending = pending + $5,
            state = CASE WHEN NOT $6 THEN 'expanding' WHEN pending + $5 > 0 THEN 'sending' WHEN total + $5 > 0 THEN 'completed'
                WHEN expires_at <= now() THEN 'expired' ELSE 'no_targets' END,
            published_at = CASE WHEN $6 THEN now() END,
            completed_at = CASE WHEN $6 AND pending + $5 = 0 THEN now() END,
            free_from = CASE WHEN NOT $6 THEN now() + make_interval(secs => $7) END
        WHERE id = $1 AND published_at IS NULL AND walked_ordinal = $8 AND walked_entries = $9 AND chunks = $10
        """
    /// By the walk's own clock ($8), which also decides what it publishes itself. What is due after the expiry ($9) waits for that alone.
    static let insertChunks: PostgresStatement = """
        INSERT INTO chunks (notification, number, lane, locale, due_at, members, lease_until)
        SELECT $1, number, $2, locale, due, members, CASE WHEN due > $8 THEN least(due, $9) ELSE now() + make_interval(secs => $7) END
        FROM unnest($3::int[], $4::text[], $5::timestamptz[], $6::bytea[]) AS e (number, locale, due, members)
        """
    static let insertDeliveries: PostgresStatement = """
        INSERT INTO deliveries (id, notification, token_id, installation, owner_epoch, environment, unproven, updated_at)
        SELECT id, $1, token, installation, epoch, environment, unproven, now()
        FROM unnest($2::uuid[], $3::bigint[], $4::uuid[], $5::bigint[], $6::text[], $7::bool[])
            AS e (id, token, installation, epoch, environment, unproven)
        """
    static let claimChunks: PostgresStatement = """
        WITH free AS (
            SELECT notification, number FROM chunks WHERE published_at IS NULL AND lane = $1 AND lease_until <= now()
            ORDER BY lease_until LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED
        )
        UPDATE chunks c SET lease_until = now() + make_interval(secs => $3) FROM free
        WHERE c.notification = free.notification AND c.number = free.number
        RETURNING c.notification, c.number, c.locale, c.due_at, c.members, c.settled::text
        """
    /// OFFSET 0: looked up one by one. Until a large audience's receipts are analyzed, all of them would be read and compared with each member.
    static let receipted: PostgresStatement = """
        SELECT member.token FROM unnest($2::bigint[]) AS member (token) WHERE EXISTS (
            SELECT FROM deliveries d WHERE d.notification = $1 AND d.token_id = member.token AND d.class IS NOT NULL OFFSET 0)
        """
    static let terms: PostgresStatement = """
        SELECT id, lifetime_ms, state = 'cancelled', target_all IS TRUE OR target_query IS NOT NULL FROM notifications WHERE id = ANY ($1::uuid[])
        """
}
