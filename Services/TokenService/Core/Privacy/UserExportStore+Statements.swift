import Postgres

extension UserExportStore {
    static let tokens: PostgresStatement = """
        SELECT installation, token, environment, purpose, state, registered_at, retired_at, retired_reason, proven_at FROM tokens
        WHERE app_id = $1 AND installation = ANY ($2::uuid[]) ORDER BY installation, id
        """
    static let history: PostgresStatement = """
        SELECT id, at, event, owner_epoch, owner, token_id, token_hint, environment, purpose, other_installation, status, reason,
            apns_timestamp, delivery, installation
        FROM installation_history WHERE app_id = $1 AND owner = $2 AND id > $3 ORDER BY id LIMIT $4
        """
    /// Installation by installation, each in the order of its index, from where the user came to it: what was before is somebody else's.
    static let ownerlessHistory: PostgresStatement = """
        SELECT h.id, h.at, h.event, h.owner_epoch, h.owner, h.token_id, h.token_hint, h.environment, h.purpose,
            h.other_installation, h.status, h.reason, h.apns_timestamp, h.delivery, h.installation
        FROM (SELECT id FROM installations WHERE app_id = $1 AND owner = $2 AND id >= $3 ORDER BY id) AS i
        CROSS JOIN LATERAL (
            SELECT * FROM installation_history h
            WHERE h.app_id = $1 AND h.installation = i.id AND h.owner IS NULL
                AND h.id > CASE WHEN i.id = $3 THEN $4 ELSE -1 END
                AND h.id > coalesce((
                    SELECT s.id FROM installation_history s
                    WHERE s.app_id = $1 AND s.installation = i.id AND s.owner = $2 AND s.event IN ('registered', 'signed_in')
                    ORDER BY s.id DESC LIMIT 1), -1)
            ORDER BY h.id LIMIT $5
        ) AS h
        ORDER BY i.id, h.id LIMIT $5
        """
    static let notificationsToUser: PostgresStatement = """
        SELECT id, target_user, target_installation, state, lane, push_type, topic, collapse_id, payload, accepted_at, expires_at,
            completed_at, false
        FROM notifications WHERE app_id = $1 AND target_user = $2 AND id > $3 ORDER BY id LIMIT $4
        """
    /// Found first and put in order then: a plan must not walk all notifications in the order of their ids.
    static let notificationsToLists: PostgresStatement = """
        WITH found AS MATERIALIZED (
            SELECT id FROM notifications WHERE target_users @> ARRAY[$2::text] AND app_id = $1 AND id > $3
        )
        SELECT id, target_user, target_installation, state, lane, push_type, topic, collapse_id, payload, accepted_at, expires_at,
            completed_at, true
        FROM notifications WHERE id = ANY (ARRAY(SELECT id FROM found ORDER BY id LIMIT $4)) ORDER BY id
        """
    static let notificationsToInstallations: PostgresStatement = """
        SELECT n.id, n.target_user, n.target_installation, n.state, n.lane, n.push_type, n.topic, n.collapse_id, n.payload,
            n.accepted_at, n.expires_at, n.completed_at, false
        FROM installations i JOIN notifications n ON n.app_id = i.app_id AND n.target_installation = i.id AND n.id > $3
        WHERE i.app_id = $1 AND i.owner = $2 AND EXISTS (
            SELECT FROM deliveries d
            WHERE d.notification = n.id AND d.installation = i.id AND d.owner_epoch = i.owner_epoch)
        ORDER BY n.id LIMIT $4
        """
    /// By the epochs of the deliveries: a time of the user ends with a sign-out and begins where the history last names somebody else.
    static let notificationsToLeft: PostgresStatement = """
        SELECT n.id, n.target_user, n.target_installation, n.state, n.lane, n.push_type, n.topic, n.collapse_id, n.payload,
            n.accepted_at, n.expires_at, n.completed_at, false
        FROM (
            SELECT DISTINCT t.id FROM installation_history h
            LEFT JOIN LATERAL (
                SELECT o.owner_epoch FROM installation_history o
                WHERE o.app_id = h.app_id AND o.installation = h.installation AND o.id < h.id AND o.owner <> $2
                ORDER BY o.id DESC LIMIT 1
            ) AS before ON true
            JOIN notifications t ON t.app_id = h.app_id AND t.target_installation = h.installation AND t.id > $3
            WHERE h.app_id = $1 AND h.owner = $2 AND h.event IN ('signed_out', 'deregistered') AND EXISTS (
                SELECT FROM deliveries d WHERE d.notification = t.id AND d.installation = h.installation
                    AND d.owner_epoch > coalesce(before.owner_epoch, 0) AND d.owner_epoch <= h.owner_epoch)
            ORDER BY t.id LIMIT $4
        ) AS page
        JOIN notifications n ON n.id = page.id ORDER BY n.id
        """
    static let deliveries: PostgresStatement = """
        SELECT token_id, id, installation, environment, class, status, reason,
            attempts - coalesce((class IS NULL AND last_class <> 'unknown' AND last_status IS NULL)::int, 0), updated_at
        FROM deliveries
        WHERE notification = $1 AND token_id > $2 ORDER BY token_id LIMIT $3
        """
    /// Of a notification to many, those to installations while the user was signed in there: now, or as the history tells.
    static let ownDeliveries: PostgresStatement = """
        SELECT d.token_id, d.id, d.installation, d.environment, d.class, d.status, d.reason,
            d.attempts - coalesce((d.class IS NULL AND d.last_class <> 'unknown' AND d.last_status IS NULL)::int, 0), d.updated_at
        FROM deliveries d JOIN notifications n ON n.id = d.notification
        WHERE d.notification = $1 AND d.token_id > $2 AND (
            EXISTS (
                SELECT FROM installations i
                WHERE i.app_id = n.app_id AND i.id = d.installation AND i.owner = $4 AND i.owner_epoch = d.owner_epoch)
            OR EXISTS (
                SELECT FROM installation_history h
                LEFT JOIN LATERAL (
                    SELECT o.owner_epoch FROM installation_history o
                    WHERE o.app_id = h.app_id AND o.installation = h.installation AND o.id < h.id AND o.owner <> $4
                    ORDER BY o.id DESC LIMIT 1
                ) AS before ON true
                WHERE h.app_id = n.app_id AND h.installation = d.installation AND h.owner = $4
                    AND h.event IN ('signed_out', 'deregistered')
                    AND d.owner_epoch > coalesce(before.owner_epoch, 0) AND d.owner_epoch <= h.owner_epoch))
        ORDER BY d.token_id LIMIT $3
        """
}
