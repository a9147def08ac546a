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

    /// The epochs are those after the fence.
    static let note: PostgresStatement = """
        INSERT INTO erasures AS e (app_id, owner, installation, epochs_below, history_to, erased_at)
        SELECT i.app_id, $3, i.id, i.owner_epoch, coalesce((
            SELECT max(h.id) FROM installation_history h WHERE h.app_id = i.app_id AND h.installation = i.id), 0), $4
        FROM installations i WHERE i.app_id = $1 AND i.id = ANY ($2::uuid[])
        ON CONFLICT (app_id, owner, installation) DO UPDATE SET
            epochs_below = excluded.epochs_below, history_to = excluded.history_to, erased_at = excluded.erased_at
        """
    static let ended: PostgresStatement = """
        SELECT installation, epochs_below, history_to, erased_at FROM erasures
        WHERE app_id = $1 AND owner = $2 ORDER BY installation LIMIT $3
        """
    /// Not one that another call has begun anew meanwhile.
    static let finish: PostgresStatement = """
        DELETE FROM erasures e USING unnest($3::uuid[], $4::bigint[]) AS done (installation, epochs_below)
        WHERE e.app_id = $1 AND e.owner = $2 AND e.installation = done.installation AND e.epochs_below = done.epochs_below
        """
    static let notificationsToUser: PostgresStatement =
        "SELECT id FROM notifications WHERE app_id = $1 AND target_user = $2 AND id > $3 ORDER BY id LIMIT $4"

    /// By the clock, and by the epoch, for the clocks of two machines differ.
    static let notificationsToInstallations: PostgresStatement = """
        SELECT n.id FROM unnest($2::uuid[], $3::bigint[], $4::timestamptz[]) AS e (installation, epochs_below, at)
        JOIN notifications n ON n.app_id = $1 AND n.target_installation = e.installation
        WHERE n.accepted_at <= e.at OR EXISTS (
            SELECT FROM deliveries d WHERE d.notification = n.id AND d.owner_epoch < e.epochs_below)
        ORDER BY n.id LIMIT $5
        """
    static let deliveries: PostgresStatement = """
        SELECT d.id FROM unnest($2::uuid[], $3::bigint[]) AS e (installation, epochs_below)
        JOIN deliveries d ON d.installation = e.installation AND d.owner_epoch < e.epochs_below
        JOIN notifications n ON n.id = d.notification AND n.app_id = $1
        LIMIT $4
        """
    static let deleteHistory: PostgresStatement = """
        DELETE FROM installation_history WHERE id IN (
            SELECT h.id FROM unnest($2::uuid[], $3::bigint[]) AS e (installation, history_to)
            JOIN installation_history h ON h.app_id = $1 AND h.installation = e.installation AND h.id <= e.history_to
            LIMIT $4)
        """
    static let deleteHistoryNamingUser: PostgresStatement = """
        DELETE FROM installation_history WHERE id IN (
            SELECT id FROM installation_history WHERE app_id = $1 AND owner = $2 AND id <= $3 ORDER BY id LIMIT $4)
        """
    static let openFences: PostgresStatement = """
        SELECT f.id, f.installation, f.epochs_below, f.created_at FROM fences f
        JOIN installations i ON i.app_id = f.app_id AND i.id = f.installation
        WHERE f.published_at IS NULL AND f.app_id = $1 AND i.signed_out_reason = 'erased' ORDER BY f.id LIMIT 500
        """
}
