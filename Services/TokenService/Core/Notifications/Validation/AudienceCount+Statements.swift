import Postgres

/// Each gives rows of reason, devices, tokens. `$1` app, `$2` purpose, `$3` whether quiet hours are overridden, `$4` and `$5` when it is due,
/// `$6` whom.
///
/// Limits are written out, as in ``InstallationStore``: 10,000 is ``AudienceEstimate/maximumDevices``. What a token is over for is asked
/// only where no token is active, and of that device alone: an app may have half of its tokens in quarantine. Live tokens are found by their
/// ordinal: by installation there are two indexes, and before tables are analyzed the planner takes either.
extension AudienceCount {
    static let users: PostgresStatement = """
        WITH asked AS (
            SELECT i.id, i.ordinal, i.owner, i.time_zone, i.throttled_until FROM unnest($6::text[]) AS u (name)
            LEFT JOIN installations i ON i.app_id = $1 AND i.owner = u.name LIMIT 10000
        ), judged AS (
            SELECT live.count, CASE
                WHEN a.id IS NULL THEN 'unknown_user'
                WHEN live.count > 0 THEN
                    CASE WHEN a.throttled_until > now() THEN 'throttled' WHEN NOT $3 AND EXISTS (
                            SELECT FROM quiet_hours q WHERE q.app_id = $1 AND q.owner = a.owner
                                AND is_quiet($4, $5::text::timestamp, q.begins_at, q.ends_at, a.time_zone))
                        THEN 'quiet_hours' ELSE 'ready' END
                ELSE CASE (
                    SELECT bool_or(t.quarantined_at IS NOT NULL) FROM tokens t
                    WHERE t.app_id = $1 AND t.installation = a.id AND t.purpose = $2)
                    WHEN true THEN 'quarantined' WHEN false THEN 'token_retired' ELSE 'no_token' END
                END AS reason
            FROM asked a CROSS JOIN LATERAL (
                SELECT count(*) FROM tokens t
                WHERE t.app_id = $1 AND t.ordinal = a.ordinal AND t.purpose = $2 AND t.state = 'active') AS live
        )
        SELECT reason, count(*), sum(count)::bigint FROM judged GROUP BY reason
        """
    static let installations: PostgresStatement = """
        WITH asked AS (
            SELECT i.id, i.ordinal, i.owner, i.time_zone, i.throttled_until, i.deregistered_at FROM unnest($6::uuid[]) AS u (id)
            LEFT JOIN installations i ON i.app_id = $1 AND i.id = u.id
        ), judged AS (
            SELECT live.count, CASE
                WHEN a.id IS NULL THEN 'unknown_installation'
                WHEN a.deregistered_at IS NOT NULL THEN 'deregistered'
                WHEN live.count > 0 THEN
                    CASE WHEN a.throttled_until > now() THEN 'throttled' WHEN NOT $3 AND EXISTS (
                            SELECT FROM quiet_hours q WHERE q.app_id = $1 AND q.owner = a.owner
                                AND is_quiet($4, $5::text::timestamp, q.begins_at, q.ends_at, a.time_zone))
                        THEN 'quiet_hours' WHEN a.owner IS NULL THEN 'signed_out' ELSE 'ready' END
                ELSE CASE (
                    SELECT bool_or(t.quarantined_at IS NOT NULL) FROM tokens t
                    WHERE t.app_id = $1 AND t.installation = a.id AND t.purpose = $2)
                    WHEN true THEN 'quarantined' WHEN false THEN 'token_retired' ELSE 'no_token' END
                END AS reason
            FROM asked a CROSS JOIN LATERAL (
                SELECT count(*) FROM tokens t
                WHERE t.app_id = $1 AND t.ordinal = a.ordinal AND t.purpose = $2 AND t.state = 'active') AS live
        )
        SELECT reason, count(*), sum(count)::bigint FROM judged GROUP BY reason
        """
    /// A device whose tokens are listed counts once; of tokens that reach none, each counts.
    static let tokens: PostgresStatement = """
        WITH judged AS (
            SELECT live.ordinal, CASE
                WHEN live.ordinal IS NOT NULL THEN
                    CASE WHEN live.throttled_until > now() THEN 'throttled' WHEN NOT $3 AND EXISTS (
                            SELECT FROM quiet_hours q WHERE q.app_id = $1 AND q.owner = live.owner
                                AND is_quiet($4, $5::text::timestamp, q.begins_at, q.ends_at, live.time_zone))
                        THEN 'quiet_hours' WHEN live.owner IS NULL THEN 'signed_out' ELSE 'ready' END
                ELSE CASE (
                    SELECT bool_or(t.quarantined_at IS NOT NULL) FROM tokens t
                    WHERE t.app_id = $1 AND t.token = u.token AND t.purpose = $2)
                    WHEN true THEN 'quarantined' WHEN false THEN 'token_retired'
                    ELSE CASE WHEN EXISTS (SELECT FROM tokens t WHERE t.app_id = $1 AND t.token = u.token)
                        THEN 'other_purpose' ELSE 'unknown_token' END END
                END AS reason
            FROM unnest($6::bytea[]) AS u (token) LEFT JOIN LATERAL (
                SELECT i.ordinal, i.owner, i.time_zone, i.throttled_until
                FROM tokens t JOIN installations i ON i.app_id = t.app_id AND i.id = t.installation
                -- IS TRUE: by the token, of all indexes that begin with the app.
                WHERE t.app_id = $1 AND t.token = u.token AND (t.purpose = $2 AND t.state = 'active') IS TRUE) AS live ON true
        )
        SELECT reason, count(DISTINCT ordinal) + count(*) FILTER (WHERE ordinal IS NULL), count(ordinal) FROM judged GROUP BY reason
        """
    static let everyone: PostgresStatement = """
        WITH asked AS MATERIALIZED (SELECT * FROM installations WHERE app_id = $1 ORDER BY id LIMIT 10000), judged AS (
            SELECT live.count, CASE
                WHEN live.count > 0 THEN
                    CASE WHEN a.throttled_until > now() THEN 'throttled' WHEN NOT $3 AND EXISTS (
                            SELECT FROM quiet_hours q WHERE q.app_id = $1 AND q.owner = a.owner
                                AND is_quiet($4, $5::text::timestamp, q.begins_at, q.ends_at, a.time_zone))
                        THEN 'quiet_hours' WHEN a.owner IS NULL THEN 'signed_out' ELSE 'ready' END
                ELSE CASE (
                    SELECT bool_or(t.quarantined_at IS NOT NULL) FROM tokens t
                    WHERE t.app_id = $1 AND t.installation = a.id AND t.purpose = $2)
                    WHEN true THEN 'quarantined' WHEN false THEN 'token_retired' ELSE 'no_token' END
                END AS reason
            FROM asked a CROSS JOIN LATERAL (
                SELECT count(*) FROM tokens t
                WHERE t.app_id = $1 AND t.ordinal = a.ordinal AND t.purpose = $2 AND t.state = 'active') AS live
            WHERE a.deregistered_at IS NULL
        )
        SELECT reason, count(*), sum(count)::bigint FROM judged GROUP BY reason
        UNION ALL SELECT 'more', 0, 0 WHERE (SELECT count(*) FROM asked) >= 10000
        """
    /// An expression that installations without any of its tags may fulfil: the first ones of the app are asked.
    static let untagged: PostgresStatement = """
        WITH asked AS MATERIALIZED (SELECT * FROM installations WHERE app_id = $1 ORDER BY id LIMIT 10000), judged AS (
            SELECT live.count, CASE
                WHEN live.count > 0 THEN
                    CASE WHEN a.throttled_until > now() THEN 'throttled' WHEN NOT $3 AND EXISTS (
                            SELECT FROM quiet_hours q WHERE q.app_id = $1 AND q.owner = a.owner
                                AND is_quiet($4, $5::text::timestamp, q.begins_at, q.ends_at, a.time_zone))
                        THEN 'quiet_hours' WHEN a.owner IS NULL THEN 'signed_out' ELSE 'ready' END
                ELSE CASE (
                    SELECT bool_or(t.quarantined_at IS NOT NULL) FROM tokens t
                    WHERE t.app_id = $1 AND t.installation = a.id AND t.purpose = $2)
                    WHEN true THEN 'quarantined' WHEN false THEN 'token_retired' ELSE 'no_token' END
                END AS reason
            FROM asked a CROSS JOIN LATERAL (
                SELECT count(*) FROM tokens t
                WHERE t.app_id = $1 AND t.ordinal = a.ordinal AND t.purpose = $2 AND t.state = 'active') AS live
            WHERE a.deregistered_at IS NULL AND array_to_tsvector(a.tags) @@ $6::text::tsquery
        )
        SELECT reason, count(*), sum(count)::bigint FROM judged GROUP BY reason
        UNION ALL SELECT 'more', 0, 0 WHERE (SELECT count(*) FROM asked) >= 10000
        """
    /// By the index on tags, `$7` being tags of which every match has one. The index knows those of every app, in no order.
    static let tagged: PostgresStatement = """
        WITH found AS MATERIALIZED (
            SELECT * FROM installations WHERE tags && $7::text[] AND tags <> '{}' LIMIT 50000
        ), asked AS MATERIALIZED (
            SELECT * FROM found WHERE app_id = $1 AND deregistered_at IS NULL AND array_to_tsvector(tags) @@ $6::text::tsquery LIMIT 10000
        ), judged AS (
            SELECT live.count, CASE
                WHEN live.count > 0 THEN
                    CASE WHEN a.throttled_until > now() THEN 'throttled' WHEN NOT $3 AND EXISTS (
                            SELECT FROM quiet_hours q WHERE q.app_id = $1 AND q.owner = a.owner
                                AND is_quiet($4, $5::text::timestamp, q.begins_at, q.ends_at, a.time_zone))
                        THEN 'quiet_hours' WHEN a.owner IS NULL THEN 'signed_out' ELSE 'ready' END
                ELSE CASE (
                    SELECT bool_or(t.quarantined_at IS NOT NULL) FROM tokens t
                    WHERE t.app_id = $1 AND t.installation = a.id AND t.purpose = $2)
                    WHEN true THEN 'quarantined' WHEN false THEN 'token_retired' ELSE 'no_token' END
                END AS reason
            FROM asked a CROSS JOIN LATERAL (
                SELECT count(*) FROM tokens t
                WHERE t.app_id = $1 AND t.ordinal = a.ordinal AND t.purpose = $2 AND t.state = 'active') AS live
        )
        SELECT reason, count(*), sum(count)::bigint FROM judged GROUP BY reason
        UNION ALL SELECT 'more', 0, 0 WHERE (SELECT count(*) FROM found) >= 50000
        """

    /// Ids are in the order of time.
    static let recentOfUser: PostgresStatement = """
        SELECT count(*) FROM (
            SELECT FROM notifications WHERE app_id = $1 AND target_user = $2 AND id >= $3 AND push_type = 'background' LIMIT 4) AS recent
        """
    static let recentOfInstallation: PostgresStatement = """
        SELECT count(*) FROM (
            SELECT FROM notifications WHERE app_id = $1 AND target_installation = $2 AND id >= $3 AND push_type = 'background' LIMIT 4
        ) AS recent
        """
}
