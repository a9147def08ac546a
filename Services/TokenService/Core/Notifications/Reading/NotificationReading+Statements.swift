import Postgres

/// How many rows are looked at is written out, because a planner that does not know the limit prefers to sort the whole app.
extension NotificationReading {
    /// `$1` app, `$2` before, `$3` the lowest id, `$4` state, `$5` limit. Rows are compared as a whole, because otherwise the planner takes the
    /// primary key, which goes through every app's.
    static let walk: PostgresStatement = """
        SELECT n.id, n.state, n.lane, n.push_type, n.receipts, n.accepted_at, n.not_before,
            to_char(n.local_time, 'YYYY-MM-DD"T"HH24:MI'), n.expires_at, n.completed_at, n.cancelled_at, n.cancel_reason, n.total,
            n.pending, n.target_user, n.target_installation, cardinality(n.target_users), cardinality(n.target_installations),
            cardinality(n.target_tokens), n.target_tags, coalesce(n.target_all, false)
        FROM (
            SELECT * FROM notifications WHERE (app_id, id) < ($1, $2) AND (app_id, id) >= ($1, $3) ORDER BY app_id DESC, id DESC LIMIT 5000
        ) AS n
        WHERE $4::text IS NULL OR n.state = $4
        ORDER BY n.id DESC LIMIT $5
        """
    /// The last one that a walk looked at; no row where it came to the end.
    static let horizon: PostgresStatement = """
        SELECT id FROM notifications WHERE (app_id, id) < ($1, $2) AND (app_id, id) >= ($1, $3)
        ORDER BY app_id DESC, id DESC OFFSET 4999 LIMIT 1
        """

    /// `$1` app, `$2` user, `$3` before, `$4` the lowest id; the same in the next three.
    static let ofUser: PostgresStatement = """
        SELECT id FROM notifications WHERE app_id = $1 AND target_user = $2 AND id < $3 AND id >= $4 ORDER BY id DESC LIMIT 1000
        """
    /// The index knows names of every app, in no order. What is not asked for stays as NULL, so that the caller sees when it is too much.
    static let inLists: PostgresStatement = """
        SELECT CASE WHEN n.app_id = $1 AND n.id < $3 AND n.id >= $4 THEN n.id END
        FROM (SELECT app_id, id FROM notifications WHERE target_users @> ARRAY[$2] LIMIT 5001) AS n
        """
    /// The same without the index, as far as a walk comes.
    static let inListsWalked: PostgresStatement = """
        SELECT id FROM (
            SELECT id, target_users FROM notifications WHERE (app_id, id) < ($1, $3) AND (app_id, id) >= ($1, $4)
            ORDER BY app_id DESC, id DESC LIMIT 5000
        ) AS n WHERE $2 = ANY (target_users)
        """
    /// Of each time that the user was signed in at an installation, as the registry and its history know it.
    static let byReceipts: PostgresStatement = """
        WITH signed_in AS MATERIALIZED (
            SELECT id AS installation, owner_epoch FROM installations WHERE app_id = $1 AND owner = $2
            UNION
            SELECT installation, owner_epoch FROM (
                SELECT installation, owner_epoch FROM installation_history WHERE app_id = $1 AND owner = $2 ORDER BY id DESC LIMIT 1000
            ) AS h WHERE owner_epoch IS NOT NULL
        )
        SELECT DISTINCT d.notification FROM signed_in s
        CROSS JOIN LATERAL (
            SELECT notification FROM deliveries
            WHERE installation = s.installation AND owner_epoch = s.owner_epoch AND notification < $3 AND notification >= $4
            ORDER BY notification DESC LIMIT 1000
        ) AS d ORDER BY d.notification DESC LIMIT 1000
        """
    /// `$1` app, `$2` ids, `$3` state, `$4` limit.
    static let named: PostgresStatement = """
        SELECT n.id, n.state, n.lane, n.push_type, n.receipts, n.accepted_at, n.not_before,
            to_char(n.local_time, 'YYYY-MM-DD"T"HH24:MI'), n.expires_at, n.completed_at, n.cancelled_at, n.cancel_reason, n.total,
            n.pending, n.target_user, n.target_installation, cardinality(n.target_users), cardinality(n.target_installations),
            cardinality(n.target_tokens), n.target_tags, coalesce(n.target_all, false)
        FROM unnest($2::uuid[]) AS wanted (id)
        CROSS JOIN LATERAL (SELECT * FROM notifications WHERE id = wanted.id OFFSET 0) AS n
        WHERE n.app_id = $1 AND ($3::text IS NULL OR n.state = $3)
        ORDER BY n.id DESC LIMIT $4
        """
}
