import Postgres

/// Ids of one page. `$1` state, `$2` tag, `$3` seen after, `$4` seen before, `$5` limit, `$6` app, `$7` after, `$8` owner or tag.
///
/// How many rows are looked at is written out (``InstallationStore/walkedPerPage``), because a planner that does not know the limit
/// prefers to sort the whole app.
extension InstallationStore {
    static let walk: PostgresStatement = """
        SELECT i.id FROM (SELECT * FROM installations WHERE app_id = $6 AND id > $7 ORDER BY id LIMIT 5000) AS i
        WHERE i.deregistered_at IS NULL
            AND CASE $1::text
                WHEN 'signed_in' THEN i.owner IS NOT NULL
                WHEN 'signed_out' THEN i.owner IS NULL
                WHEN 'throttled' THEN i.throttled_until > now()
                WHEN 'stale' THEN i.stale_since IS NOT NULL
                WHEN 'unreachable' THEN NOT EXISTS (
                    SELECT FROM tokens t WHERE t.app_id = i.app_id AND t.ordinal = i.ordinal AND t.state = 'active')
                ELSE true END
            AND ($2::text IS NULL OR i.tags @> ARRAY[$2::text])
            AND ($3::timestamptz IS NULL OR i.registered_at >= $3) AND ($4::timestamptz IS NULL OR i.registered_at < $4)
        ORDER BY i.id LIMIT $5
        """
    static let walkOwned: PostgresStatement = """
        SELECT i.id FROM (SELECT * FROM installations WHERE app_id = $6 AND owner = $8 AND id > $7 ORDER BY id LIMIT 5000) AS i
        WHERE CASE $1::text
                WHEN 'signed_in' THEN true
                WHEN 'signed_out' THEN false
                WHEN 'throttled' THEN i.throttled_until > now()
                WHEN 'stale' THEN i.stale_since IS NOT NULL
                WHEN 'unreachable' THEN NOT EXISTS (
                    SELECT FROM tokens t WHERE t.app_id = i.app_id AND t.ordinal = i.ordinal AND t.state = 'active')
                ELSE true END
            AND ($2::text IS NULL OR i.tags @> ARRAY[$2::text])
            AND ($3::timestamptz IS NULL OR i.registered_at >= $3) AND ($4::timestamptz IS NULL OR i.registered_at < $4)
        ORDER BY i.id LIMIT $5
        """
    /// The last one that a walk looked at; no row where it came to the end. `$1` app, `$2` after, `$3` owner.
    static let horizon: PostgresStatement =
        "SELECT id FROM installations WHERE app_id = $1 AND id > $2 ORDER BY id OFFSET 4999 LIMIT 1"
    static let ownedHorizon: PostgresStatement =
        "SELECT id FROM installations WHERE app_id = $1 AND owner = $3 AND id > $2 ORDER BY id OFFSET 4999 LIMIT 1"

    /// The index knows tags of every app, in no order: all of a tag are fetched, unless they are too many, which one NULL tells.
    static let tagged: PostgresStatement = """
        WITH tagged AS MATERIALIZED (
            SELECT * FROM installations WHERE tags @> ARRAY[$8::text] AND tags <> '{}' LIMIT 5001
        )
        (SELECT i.id FROM tagged AS i
        WHERE (SELECT count(*) FROM tagged) <= 5000 AND i.app_id = $6 AND i.id > $7 AND i.deregistered_at IS NULL
            AND CASE $1::text
                WHEN 'signed_in' THEN i.owner IS NOT NULL
                WHEN 'signed_out' THEN i.owner IS NULL
                WHEN 'throttled' THEN i.throttled_until > now()
                WHEN 'stale' THEN i.stale_since IS NOT NULL
                WHEN 'unreachable' THEN NOT EXISTS (
                    SELECT FROM tokens t WHERE t.app_id = i.app_id AND t.ordinal = i.ordinal AND t.state = 'active')
                ELSE true END
            AND ($2::text IS NULL OR i.tags @> ARRAY[$2::text])
            AND ($3::timestamptz IS NULL OR i.registered_at >= $3) AND ($4::timestamptz IS NULL OR i.registered_at < $4)
        ORDER BY i.id LIMIT $5)
        UNION ALL SELECT NULL WHERE (SELECT count(*) FROM tagged) > 5000
        """
}
