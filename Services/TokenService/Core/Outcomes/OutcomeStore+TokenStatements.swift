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
            FROM unnest($1::bigint[], $2::timestamptz[], $4::int[], $5::text[], $6::timestamptz[], $7::uuid[], $8::text[])
                AS e (id, since, status, reason, apns_timestamp, delivery, environment)
            WHERE t.id = e.id AND t.state = 'active' AND t.registered_at <= least(e.since, now())
                AND t.environment = coalesce(e.environment, t.environment)
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
    static let rivals: PostgresStatement = """
        SELECT o.id FROM tokens t JOIN tokens o ON o.app_id = t.app_id AND o.token = t.token AND o.purpose = t.purpose AND o.id <> t.id
        WHERE t.id = ANY ($1::bigint[])
        """
    /// A rival is the row of the same token where APNs took it: it is what is true, and comes back to life if it was this installation's.
    static let correct: PostgresStatement = """
        WITH wanted AS (
            SELECT t.*, e.answered, e.delivery, e.status
            FROM unnest($1::bigint[], $2::text[], $3::uuid[], $4::int[]) AS e (id, answered, delivery, status)
            JOIN tokens t ON t.id = e.id
            WHERE t.environment <> e.answered AND t.proven_at IS NULL
                AND t.installation = (SELECT d.installation FROM deliveries d WHERE d.id = e.delivery)
        ), judged AS (
            SELECT w.*, o.id AS rival, w.state = 'active' AND o.state = 'retired' AND o.installation = w.installation AND NOT p.is_taken
                AS revives, o.id IS NOT NULL OR w.state = 'active' AND p.is_taken AS yields
            FROM wanted w
            LEFT JOIN tokens o ON o.app_id = w.app_id AND o.environment = w.answered AND o.purpose = w.purpose AND o.token = w.token
            CROSS JOIN LATERAL (
                SELECT EXISTS (
                    SELECT FROM tokens x WHERE x.app_id = w.app_id AND x.ordinal = w.ordinal AND x.purpose = w.purpose
                        AND x.environment = w.answered AND x.state = 'active') AS is_taken
            ) AS p
        ), proven AS (
            UPDATE tokens o SET proven_at = coalesce(o.proven_at, now()),
                registered_at = CASE WHEN revives THEN greatest(o.registered_at, j.registered_at) ELSE o.registered_at END,
                state = CASE WHEN revives THEN 'active' ELSE o.state END,
                retired_at = CASE WHEN revives THEN NULL ELSE o.retired_at END,
                retired_reason = CASE WHEN revives THEN NULL ELSE o.retired_reason END,
                quarantined_at = CASE WHEN revives THEN NULL ELSE o.quarantined_at END
            FROM judged j WHERE o.id = j.rival
        ), changed AS (
            UPDATE tokens t SET
                environment = CASE WHEN yields THEN t.environment ELSE j.answered END,
                proven_at = CASE WHEN yields THEN NULL ELSE now() END,
                state = CASE WHEN yields THEN 'retired' ELSE t.state END,
                retired_at = CASE WHEN yields THEN now() ELSE t.retired_at END,
                retired_reason = CASE WHEN yields THEN 'replaced' ELSE t.retired_reason END
            FROM judged j WHERE t.id = j.id AND (NOT j.yields OR t.state = 'active')
            RETURNING j.*
        )
        INSERT INTO installation_history (app_id, installation, at, event, token_id, token_hint, environment, purpose,
            status, reason, delivery)
        SELECT app_id, installation, now(), CASE WHEN yields AND revives IS NOT TRUE THEN 'token_replaced' ELSE 'environment_corrected' END,
            coalesce(rival, id), '…' || right(encode(token, 'hex'), 6), answered, purpose, status::smallint, 'was_' || environment, delivery
        FROM changed ORDER BY id
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
