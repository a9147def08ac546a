import Postgres

extension OutcomeStore {
    static let rejectingApps: PostgresStatement =
        "SELECT DISTINCT app_id FROM notifications WHERE id = ANY ($1::uuid[]) ORDER BY app_id"

    /// The key's first half is the word "brak": no other advisory lock of ours has two halves.
    static let lockBrakes: PostgresStatement = """
        SELECT count(pg_advisory_xact_lock(1651662187, (app % 2147483647)::int))
        FROM (SELECT app FROM unnest($1::bigint[]) AS app ORDER BY app) AS ordered
        """
    static let window: PostgresStatement = """
        SELECT app_id, sum(count)::bigint, (coalesce(sum(count) FILTER (WHERE class = 'token_rejected'), 0))::bigint
        FROM outcome_counts WHERE app_id = ANY ($1::bigint[]) AND minute > now() - make_interval(mins => $2) GROUP BY app_id
        """
    static let retiredInWindow: PostgresStatement = """
        SELECT id FROM tokens
        WHERE app_id = ANY ($1::bigint[]) AND retired_reason = 'rejected' AND retired_at > now() - make_interval(mins => $2)
            AND quarantined_at IS NULL
        ORDER BY app_id, retired_at LIMIT $3
        """
    static let lockTokens: PostgresStatement =
        "SELECT count(*) FROM (SELECT id FROM tokens WHERE id = ANY ($1::bigint[]) ORDER BY id FOR NO KEY UPDATE) AS locked"

    static let retire: PostgresStatement = """
        WITH retired AS (
            UPDATE tokens t SET state = 'retired', retired_at = now(), retired_reason = $3
            FROM unnest($1::bigint[], $2::timestamptz[], $4::int[], $5::text[], $6::timestamptz[], $7::uuid[])
                AS e (id, since, status, reason, apns_timestamp, delivery)
            WHERE t.id = e.id AND t.state = 'active' AND t.registered_at <= least(e.since, now())
            RETURNING t.id, t.app_id, t.installation, t.token, t.environment, t.purpose, e.status, e.reason, e.apns_timestamp, e.delivery
        )
        INSERT INTO installation_history (app_id, installation, at, event, token_id, token_hint, environment, purpose,
            status, reason, apns_timestamp, delivery)
        SELECT app_id, installation, now(), 'token_retired', id, '…' || right(encode(token, 'hex'), 6), environment, purpose,
            status::smallint, reason, apns_timestamp, delivery
        FROM retired ORDER BY id
        """
    static let prove: PostgresStatement = """
        UPDATE tokens t SET proven_at = now() FROM unnest($1::bigint[], $2::text[]) AS e (id, environment)
        WHERE t.id = e.id AND t.environment = e.environment AND t.proven_at IS NULL
        """
    static let quarantine: PostgresStatement = """
        WITH quarantined AS (
            UPDATE tokens SET quarantined_at = now()
            WHERE id = ANY ($1::bigint[]) AND retired_reason = 'rejected' AND quarantined_at IS NULL
            RETURNING id, app_id, installation, token, environment, purpose
        )
        INSERT INTO installation_history (app_id, installation, at, event, token_id, token_hint, environment, purpose)
        SELECT app_id, installation, now(), 'token_quarantined', id, '…' || right(encode(token, 'hex'), 6), environment, purpose
        FROM quarantined ORDER BY id
        """
}
