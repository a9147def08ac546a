import Postgres

extension InstallationStore {
    static let clock: PostgresStatement =
        "SELECT date_trunc('milliseconds', clock_timestamp()) + interval '1 millisecond'"

    static let reach: PostgresStatement = """
        WITH RECURSIVE reach (id) AS (
            SELECT unnest($2::uuid[])
            UNION SELECT m.predecessor FROM reach r JOIN token_moves m ON m.app_id = $1 AND m.successor = r.id
        ) SELECT id FROM reach
        """
    static let lockInstallations: PostgresStatement = """
        SELECT id, owner, owner_epoch, deregistered_at IS NULL FROM installations
        WHERE app_id = $1 AND id = ANY ($2::uuid[]) ORDER BY id FOR NO KEY UPDATE
        """
    static let lockActiveTokens: PostgresStatement = """
        SELECT id FROM tokens WHERE app_id = $1 AND ordinal = (SELECT ordinal FROM installations WHERE app_id = $1 AND id = $2) AND state = 'active'
        ORDER BY id FOR NO KEY UPDATE
        """
    static let holders: PostgresStatement = """
        SELECT DISTINCT installation FROM tokens
        WHERE app_id = $1 AND token = $2 AND environment = coalesce($3::text, environment) ORDER BY installation
        """
    static let lockActiveHolders: PostgresStatement = """
        SELECT installation FROM tokens
        WHERE app_id = $1 AND token = $2 AND environment = coalesce($3::text, environment) AND (state = 'active') IS TRUE
        ORDER BY id FOR NO KEY UPDATE
        """
    static let retire: PostgresStatement = """
        UPDATE tokens SET state = 'retired', retired_reason = $2, retired_at = $3
        WHERE id = ANY ($1::bigint[]) AND state = 'active'
        """
    static let signOut: PostgresStatement = """
        UPDATE installations SET owner = NULL, signed_out_reason = $3 WHERE app_id = $1 AND id = ANY ($2::uuid[])
        """
    static let deregister: PostgresStatement = """
        UPDATE installations SET owner = NULL, signed_out_reason = 'deregistered', deregistered_at = $3, throttled_until = NULL,
            locale = NULL, time_zone = NULL, app_version = NULL, os_version = NULL, device_model = NULL, tags = '{}'
        WHERE app_id = $1 AND id = $2
        """
    /// Arrays instead of joins, which would compare with all moves of the app.
    static let fence: PostgresStatement = """
        WITH RECURSIVE reach (id) AS (
            SELECT unnest($2::uuid[])
            UNION SELECT m.predecessor FROM reach r JOIN token_moves m ON m.app_id = $1 AND m.successor = r.id
        ), used AS (
            DELETE FROM token_moves WHERE app_id = $1 AND successor = ANY (ARRAY(SELECT id FROM reach))
        ), over AS (
            -- Nothing of these installations' ended epochs is right any more, so no later fence needs to reach back to them.
            DELETE FROM token_moves WHERE app_id = $1 AND predecessor = ANY (ARRAY(SELECT id FROM reach))
        ), ended AS (
            UPDATE installations SET owner_epoch = owner_epoch + 1 WHERE app_id = $1 AND id IN (SELECT id FROM reach)
            RETURNING id, owner_epoch
        )
        INSERT INTO fences (app_id, installation, epochs_below, created_at) SELECT $1, id, owner_epoch, $3 FROM ended
        RETURNING installation
        """
    /// `OFFSET 0`: looked up one by one. An array of installations would be compared with every open fence of the app.
    static let unpublishedFences: PostgresStatement = """
        SELECT f.* FROM unnest($2::uuid[]) AS named (id)
        CROSS JOIN LATERAL (
            SELECT id, installation, epochs_below, created_at FROM fences
            WHERE app_id = $1 AND installation = named.id AND published_at IS NULL OFFSET 0
        ) AS f
        ORDER BY f.id
        """
    /// Of a user's latest sign-outs, each installation once; nothing is searched for while no fence is open at all.
    static let openFencesOfUser: PostgresStatement = """
        SELECT f.*
        FROM (
            SELECT installation, min(owner_epoch) AS owner_epoch FROM (
                SELECT installation, owner_epoch FROM installation_history
                WHERE app_id = $1 AND owner = $2 AND event = 'signed_out' AND EXISTS (SELECT FROM fences WHERE published_at IS NULL)
                ORDER BY id DESC LIMIT 5000
            ) AS latest GROUP BY installation
        ) AS h
        CROSS JOIN LATERAL (
            SELECT id, installation, epochs_below, created_at FROM fences
            WHERE app_id = $1 AND installation = h.installation AND epochs_below > h.owner_epoch AND published_at IS NULL OFFSET 0
        ) AS f
        ORDER BY f.id
        """
    static let ownedPage: PostgresStatement = """
        SELECT id FROM installations WHERE app_id = $1 AND owner = $2 AND id > $3 ORDER BY id LIMIT $4
        """
}
