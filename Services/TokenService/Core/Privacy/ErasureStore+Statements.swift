import Postgres

extension ErasureStore {
    static let historyEnd: PostgresStatement = "SELECT coalesce(max(id), 0) FROM installation_history"

    static let deleteTokens: PostgresStatement = """
        WITH locked AS (
            SELECT id FROM tokens WHERE app_id = $1 AND installation = ANY ($2::uuid[]) ORDER BY id FOR UPDATE
        )
        DELETE FROM tokens t USING locked WHERE t.id = locked.id
        """
    static let clear: PostgresStatement = """
        UPDATE installations SET owner = NULL, signed_out_reason = 'erased', deregistered_at = $3, created_at = $3, registered_at = $3,
            throttled_until = NULL, stale_since = NULL, locale = NULL, time_zone = NULL, app_version = NULL, os_version = NULL,
            device_model = NULL, tags = '{}'
        WHERE app_id = $1 AND id = ANY ($2::uuid[])
        """
    /// After the fence, whose reach goes over the moves.
    static let deleteMoves: PostgresStatement =
        "DELETE FROM token_moves WHERE app_id = $1 AND (predecessor = ANY ($2::uuid[]) OR successor = ANY ($2::uuid[]))"

    /// The epochs are those after the fence. A user's time begins where the history last names somebody else.
    static let note: PostgresStatement = """
        INSERT INTO erasures (app_id, owner, installation, epochs_from, epochs_below, history_from, history_to, began_at, ended_at)
        SELECT i.app_id, $3, i.id, coalesce(before.owner_epoch + 1, 0), i.owner_epoch, coalesce(before.id + 1, 0), coalesce((
            SELECT max(h.id) FROM installation_history h WHERE h.app_id = i.app_id AND h.installation = i.id), 0),
            coalesce(before.at, 'epoch'), $4
        FROM installations i LEFT JOIN LATERAL (
            SELECT h.id, h.owner_epoch, h.at FROM installation_history h
            WHERE h.app_id = i.app_id AND h.installation = i.id AND h.owner <> $3 ORDER BY h.id DESC LIMIT 1
        ) AS before ON true
        WHERE i.app_id = $1 AND i.id = ANY ($2::uuid[])
        ON CONFLICT DO NOTHING
        """
    /// Rows of the history that name the user; where one ends the user's time at an installation, that time is noted.
    static let noteLeft: PostgresStatement = """
        WITH page AS (
            SELECT id, installation, at, event, owner_epoch FROM installation_history
            WHERE app_id = $1 AND owner = $2 AND id > $3 AND id <= $4 ORDER BY id LIMIT $5
        ), noted AS (
            INSERT INTO erasures (app_id, owner, installation, epochs_from, epochs_below, history_from, history_to, began_at, ended_at)
            SELECT $1, $2, p.installation, coalesce(before.owner_epoch + 1, 0), p.owner_epoch + 1, coalesce(before.id + 1, 0), p.id,
                coalesce(before.at, 'epoch'), p.at
            FROM page p LEFT JOIN LATERAL (
                SELECT h.id, h.owner_epoch, h.at FROM installation_history h
                WHERE h.app_id = $1 AND h.installation = p.installation AND h.id < p.id AND h.owner <> $2 ORDER BY h.id DESC LIMIT 1
            ) AS before ON true
            WHERE p.event IN ('signed_out', 'deregistered') AND p.owner_epoch IS NOT NULL
            ON CONFLICT DO NOTHING
        )
        SELECT id, installation FROM page ORDER BY id
        """
    /// Those that nobody has signed in to since the user did, and that are no shells yet.
    static let abandoned: PostgresStatement = """
        SELECT i.id FROM installations i CROSS JOIN LATERAL (
            SELECT h.owner FROM installation_history h
            WHERE h.app_id = i.app_id AND h.installation = i.id AND h.owner IS NOT NULL ORDER BY h.id DESC LIMIT 1
        ) AS last
        WHERE i.app_id = $1 AND i.id = ANY ($2::uuid[]) AND i.owner IS NULL AND last.owner = $3
            AND (i.deregistered_at IS NULL OR i.signed_out_reason IS DISTINCT FROM 'erased')
        ORDER BY i.id
        """
    static let ended: PostgresStatement = """
        SELECT installation, epochs_from, epochs_below, history_from, history_to, began_at, ended_at FROM erasures
        WHERE app_id = $1 AND owner = $2 ORDER BY installation, epochs_below LIMIT $3
        """
    /// Not one that another call has begun anew meanwhile.
    static let finish: PostgresStatement = """
        DELETE FROM erasures e USING unnest($3::uuid[], $4::bigint[]) AS done (installation, epochs_below)
        WHERE e.app_id = $1 AND e.owner = $2 AND e.installation = done.installation AND e.epochs_below = done.epochs_below
        """
    static let notificationsToUser: PostgresStatement =
        "SELECT id FROM notifications WHERE app_id = $1 AND target_user = $2 AND id > $3 ORDER BY id LIMIT $4"

    /// By the epoch; by the clock only where no delivery tells of one.
    static let notificationsToInstallations: PostgresStatement = """
        SELECT DISTINCT n.id
        FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::timestamptz[], $6::timestamptz[])
            AS e (installation, epochs_from, epochs_below, began_at, ended_at)
        JOIN notifications n ON n.app_id = $1 AND n.target_installation = e.installation
        WHERE EXISTS (
                SELECT FROM deliveries d
                WHERE d.notification = n.id AND d.owner_epoch >= e.epochs_from AND d.owner_epoch < e.epochs_below)
            OR n.accepted_at BETWEEN e.began_at AND e.ended_at AND NOT EXISTS (SELECT FROM deliveries d WHERE d.notification = n.id)
        ORDER BY n.id LIMIT $7
        """
    static let deliveries: PostgresStatement = """
        SELECT d.id FROM unnest($2::uuid[], $3::bigint[], $4::bigint[]) AS e (installation, epochs_from, epochs_below)
        CROSS JOIN LATERAL (
            SELECT id, notification FROM deliveries
            WHERE installation = e.installation AND owner_epoch >= e.epochs_from AND owner_epoch < e.epochs_below OFFSET 0
        ) AS d
        JOIN notifications n ON n.id = d.notification AND n.app_id = $1
        LIMIT $5
        """
    static let deleteHistory: PostgresStatement = """
        DELETE FROM installation_history WHERE id IN (
            SELECT h.id FROM unnest($2::uuid[], $3::bigint[], $4::bigint[]) AS e (installation, history_from, history_to)
            JOIN installation_history h ON h.app_id = $1 AND h.installation = e.installation
                AND h.id BETWEEN e.history_from AND e.history_to
            LIMIT $5)
        """
    static let deleteHistoryNamingUser: PostgresStatement = """
        DELETE FROM installation_history WHERE id IN (
            SELECT id FROM installation_history WHERE app_id = $1 AND owner = $2 AND id <= $3 ORDER BY id LIMIT $4)
        """
    /// In the order of `fences_open`, one installation after another: in the order of ids, published fences would be read as well.
    static let openFences: PostgresStatement = """
        SELECT f.id, f.installation, f.epochs_below, f.created_at FROM fences f
        CROSS JOIN LATERAL (
            SELECT signed_out_reason FROM installations WHERE app_id = f.app_id AND id = f.installation OFFSET 0
        ) AS i
        WHERE f.published_at IS NULL AND f.app_id = $1 AND i.signed_out_reason = 'erased' ORDER BY f.app_id, f.installation LIMIT 500
        """
}
