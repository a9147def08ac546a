import Postgres

/// One row per token, and one for an installation without any.
///
/// Columns: 0 id, owner, owner_epoch, throttled_until, registered_at, 5 created_at, locale, time_zone, app_version, os_version,
/// 10 device_model, tags, whether all its fences are published (NULL in the first epoch: such an installation was never fenced,
/// which saves the look); of the token 13 token, environment, purpose, 16 registered_at, retired_at, retired_reason.
extension InstallationStore {
    static let records: PostgresStatement = """
        SELECT i.id, i.owner, i.owner_epoch, i.throttled_until, i.registered_at, i.created_at,
            i.locale, i.time_zone, i.app_version, i.os_version, i.device_model, i.tags,
            CASE WHEN i.owner_epoch > 1 THEN
                (SELECT coalesce(bool_and(f.published_at IS NOT NULL), true) FROM fences f
                WHERE f.app_id = i.app_id AND f.installation = i.id)
            END,
            t.token, t.environment, t.purpose, t.registered_at, t.retired_at, t.retired_reason
        FROM installations i LEFT JOIN tokens t ON t.app_id = i.app_id AND t.installation = i.id
        WHERE i.app_id = $1 AND i.id = ANY ($2::uuid[]) AND i.deregistered_at IS NULL
        ORDER BY i.id, t.state, t.registered_at DESC, t.id
        """
    /// The page is cut before the join, so that the limit counts installations.
    static let ownedRecords: PostgresStatement = """
        SELECT i.id, i.owner, i.owner_epoch, i.throttled_until, i.registered_at, i.created_at,
            i.locale, i.time_zone, i.app_version, i.os_version, i.device_model, i.tags,
            CASE WHEN i.owner_epoch > 1 THEN
                (SELECT coalesce(bool_and(f.published_at IS NOT NULL), true) FROM fences f
                WHERE f.app_id = i.app_id AND f.installation = i.id)
            END,
            t.token, t.environment, t.purpose, t.registered_at, t.retired_at, t.retired_reason
        FROM (SELECT * FROM installations WHERE app_id = $1 AND owner = $2 AND id > $3 ORDER BY id LIMIT $4) i
            LEFT JOIN tokens t ON t.app_id = i.app_id AND t.installation = i.id
        ORDER BY i.id, t.state, t.registered_at DESC, t.id
        """
}

extension InstallationStore {
    /// `$1` app, `$2` token, `$3` environment or any.
    static let searchRecords: PostgresStatement = """
        SELECT i.id, i.owner, i.owner_epoch, i.throttled_until, i.registered_at, i.created_at,
            i.locale, i.time_zone, i.app_version, i.os_version, i.device_model, i.tags,
            CASE WHEN i.owner_epoch > 1 THEN
                (SELECT coalesce(bool_and(f.published_at IS NOT NULL), true) FROM fences f
                WHERE f.app_id = i.app_id AND f.installation = i.id)
            END,
            t.token, t.environment, t.purpose, t.registered_at, t.retired_at, t.retired_reason
        FROM (SELECT DISTINCT installation FROM tokens
                WHERE app_id = $1 AND token = $2 AND environment = coalesce($3::text, environment)) AS holder
            JOIN installations i ON i.app_id = $1 AND i.id = holder.installation AND i.deregistered_at IS NULL
            LEFT JOIN tokens t ON t.app_id = i.app_id AND t.installation = i.id
        ORDER BY i.id, t.state, t.registered_at DESC, t.id
        """
    static let formerHolders: PostgresStatement = """
        WITH named AS (
            SELECT id, installation, environment, purpose FROM tokens
            WHERE app_id = $1 AND token = $2 AND environment = coalesce($3::text, environment)
        )
        SELECT i.id, n.environment, n.purpose, i.deregistered_at AS until, 'deregistered' AS reason, NULL::uuid
        FROM named n JOIN installations i ON i.app_id = $1 AND i.id = n.installation AND i.deregistered_at IS NOT NULL
        UNION ALL
        SELECT h.installation, n.environment, n.purpose, h.at, 'moved', h.other_installation
        FROM named n CROSS JOIN LATERAL (
            SELECT * FROM installation_history WHERE token_id = n.id AND event = 'token_moved_away' AND app_id = $1 OFFSET 0
        ) AS h
        ORDER BY until DESC LIMIT 100
        """
}
