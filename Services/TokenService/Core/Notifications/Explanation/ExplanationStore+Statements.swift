import Postgres

extension ExplanationStore {
    /// `$1` app, `$2` notification, `$3` user.
    static let notification: PostgresStatement = """
        SELECT state, lane, push_type, receipts, accepted_at, not_before, to_char(local_time, 'YYYY-MM-DD"T"HH24:MI'), expires_at,
            is_urgent, is_walked, published_at, completed_at, cancelled_at, cancel_reason, total, pending,
            coalesce(target_user = $3, false) OR coalesce($3 = ANY (target_users), false),
            target_user, target_installation, cardinality(target_users), cardinality(target_installations), cardinality(target_tokens),
            target_tags, coalesce(target_all, false)
        FROM notifications WHERE app_id = $1 AND id = $2
        """
    /// Where the history names the user, and as whose beginning or end. A line of history names whoever was signed in before or after it.
    static let stays: PostgresStatement = """
        SELECT installation, owner_epoch, min(at) FILTER (WHERE event IN ('registered', 'signed_in')),
            max(at) FILTER (WHERE event IN ('signed_out', 'deregistered'))
        FROM (
            SELECT installation, owner_epoch, at, event FROM installation_history WHERE app_id = $1 AND owner = $2
            ORDER BY id DESC LIMIT 1000
        ) AS told WHERE owner_epoch IS NOT NULL GROUP BY installation, owner_epoch
        """
    /// Those in force are few (``HoldStore/maximumInForce``), and have an index of their own.
    static let holds: PostgresStatement = """
        SELECT h.id, a.slug, h.lane, h.notification, h.reason, h.set_at, nullif(h.ends_at, 'infinity')
        FROM notifications n JOIN holds h ON h.lifted_at IS NULL AND h.ends_at > now() AND (h.app_id IS NULL OR h.app_id = n.app_id)
            AND (h.lane IS NULL OR h.lane = n.lane) AND (h.notification IS NULL OR h.notification = n.id)
        LEFT JOIN apps a ON a.id = h.app_id
        WHERE n.app_id = $1 AND n.id = $2 ORDER BY h.ends_at DESC, h.id LIMIT 10
        """
    static let current: PostgresStatement =
        "SELECT id, owner_epoch FROM installations WHERE app_id = $1 AND owner = $2 ORDER BY id LIMIT 101"

    /// `$1` app, `$2` installations; `$3` what belongs to each of the following.
    static let installations: PostgresStatement = """
        SELECT i.id, i.signed_out_reason, i.deregistered_at, CASE WHEN i.throttled_until > now() THEN i.throttled_until END,
            coalesce(i.id = n.target_installation, false) OR coalesce(i.id = ANY (n.target_installations), false)
                OR coalesce(i.id = ANY (n.target_holders), false),
            n.target_epochs[array_position(coalesce(n.target_installations, n.target_holders, ARRAY[n.target_installation]), i.id)],
            CASE WHEN n.target_query IS NOT NULL THEN array_to_tsvector(i.tags) @@ n.target_query END,
            i.ordinal > n.walked_ordinal
        FROM notifications n CROSS JOIN unnest($2::uuid[]) AS wanted (id)
        CROSS JOIN LATERAL (SELECT * FROM installations WHERE app_id = $1 AND id = wanted.id OFFSET 0) AS i
        WHERE n.id = $3
        """
    static let tokens: PostgresStatement = """
        SELECT id, token, environment, purpose, registered_at, retired_at, retired_reason, quarantined_at, installation
        FROM tokens WHERE app_id = $1 AND installation = ANY ($2::uuid[]) AND (purpose = $3) IS TRUE ORDER BY id
        """
    static let deliveries: PostgresStatement = """
        SELECT d.id, d.installation, t.token, d.environment, d.class, d.status, d.reason, d.attempts,
            d.last_class, d.last_status, d.last_reason, d.last_at, d.retry_at, d.updated_at, d.owner_epoch, d.token_id
        FROM (
            SELECT d.* FROM unnest($2::uuid[]) AS wanted (id)
            CROSS JOIN LATERAL (SELECT * FROM deliveries WHERE installation = wanted.id AND notification = $3 OFFSET 0) AS d
            UNION
            SELECT d.* FROM unnest($2::uuid[]) AS wanted (id)
            CROSS JOIN LATERAL (SELECT id FROM tokens WHERE app_id = $1 AND installation = wanted.id OFFSET 0) AS t
            CROSS JOIN LATERAL (SELECT * FROM deliveries WHERE notification = $3 AND token_id = t.id OFFSET 0) AS d
        ) AS d LEFT JOIN tokens t ON t.id = d.token_id ORDER BY d.token_id
        """
    static let fences: PostgresStatement = """
        SELECT f.installation, f.epochs_below, f.created_at, f.published_at FROM unnest($2::uuid[]) AS wanted (id)
        CROSS JOIN LATERAL (SELECT * FROM fences WHERE app_id = $1 AND installation = wanted.id AND created_at >= $3 OFFSET 0) AS f
        ORDER BY f.id LIMIT 500
        """
    static let history: PostgresStatement = """
        SELECT h.* FROM unnest($2::uuid[]) AS wanted (id)
        CROSS JOIN LATERAL (
            SELECT * FROM installation_history WHERE app_id = $1 AND installation = wanted.id AND at >= $3 OFFSET 0
        ) AS h ORDER BY h.id LIMIT 500
        """
    /// `$1` notification, `$2` tokens. Found first anywhere in the bytes, then at a member's place.
    static let chunks: PostgresStatement = """
        SELECT wanted.token, c.due_at, c.published_at, get_bit(c.settled, place.position) = 1
        FROM (SELECT * FROM chunks WHERE notification = $1 ORDER BY number LIMIT 20000) AS c
        CROSS JOIN LATERAL (
            SELECT token FROM unnest($2::bigint[]) AS named (token) WHERE position(int8send(token) IN c.members) > 0
        ) AS wanted
        CROSS JOIN LATERAL (
            SELECT position FROM generate_series(0, octet_length(c.members) / 8 - 1) AS member (position)
            WHERE substring(c.members FROM position * 8 + 1 FOR 8) = int8send(wanted.token)
        ) AS place
        ORDER BY c.number
        """
    static let chunkHorizon: PostgresStatement =
        "SELECT number FROM chunks WHERE notification = $1 ORDER BY number OFFSET 20000 LIMIT 1"
}
