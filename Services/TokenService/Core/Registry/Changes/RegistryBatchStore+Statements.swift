import Postgres

extension RegistryBatchStore {
    /// ``RegistryLock``, and the clock when the last was granted: whoever comes later for the same name has a later moment
    /// (``InstallationStore/clock()``).
    static let lockNames: PostgresStatement = """
        SELECT count(pg_advisory_xact_lock(key)), date_trunc('milliseconds', clock_timestamp()) + interval '1 millisecond'
        FROM (SELECT key FROM unnest($1::bigint[]) AS key ORDER BY key) AS ordered
        """
    /// The named installations, the holders of the named tokens, the other installations of the named users, and all whose tokens once
    /// moved to one of these.
    ///
    /// `LATERAL` with `OFFSET 0` or a lock keeps the planner from turning a look-up per key into a scan of the table, which it would
    /// prefer while the table is small; the plan is kept for a while when it no longer is. Rows are locked in the order of `r`.
    static let lockInstallations: PostgresStatement = """
        WITH RECURSIVE reach (app_id, id) AS (
            SELECT app_id, id FROM (
                SELECT app_id, id FROM unnest($1::bigint[], $2::uuid[]) AS named (app_id, id)
                UNION SELECT held.app_id, t.installation FROM unnest($3::bigint[], $4::bytea[]) AS held (app_id, token)
                    CROSS JOIN LATERAL (
                        SELECT installation FROM tokens WHERE app_id = held.app_id AND token = held.token OFFSET 0
                    ) AS t
                UNION SELECT wanted.app_id, i.id FROM unnest($5::bigint[], $6::text[]) AS wanted (app_id, owner)
                    CROSS JOIN LATERAL (
                        SELECT id FROM installations WHERE app_id = wanted.app_id AND owner = wanted.owner OFFSET 0
                    ) AS i
            ) AS concerned
            UNION SELECT r.app_id, m.predecessor FROM reach r
                CROSS JOIN LATERAL (
                    SELECT predecessor FROM token_moves WHERE app_id = r.app_id AND successor = r.id OFFSET 0
                ) AS m
        )
        SELECT i.* FROM (SELECT app_id, id FROM reach ORDER BY app_id, id) AS r
        CROSS JOIN LATERAL (
            SELECT app_id, id, owner, owner_epoch, signed_out_reason, throttled_until, created_at, registered_at,
                locale, time_zone, app_version, os_version, device_model, tags, deregistered_at, stale_since
            FROM installations WHERE app_id = r.app_id AND id = r.id FOR NO KEY UPDATE
        ) AS i
        """
    /// All moves that lead to these installations, however far back. A statement of its own, after the locks: the one above began before
    /// it had waited for them, and sees the moves of that moment.
    static let selectMoves: PostgresStatement = """
        WITH RECURSIVE moves (app_id, successor, predecessor) AS (
            SELECT e.app_id, e.id, m.predecessor FROM (
                SELECT app_id, id FROM unnest($1::bigint[], $2::uuid[]) AS named (app_id, id)
                UNION SELECT held.app_id, t.installation FROM unnest($3::bigint[], $4::bytea[]) AS held (app_id, token)
                    CROSS JOIN LATERAL (
                        SELECT installation FROM tokens WHERE app_id = held.app_id AND token = held.token OFFSET 0
                    ) AS t
                UNION SELECT wanted.app_id, i.id FROM unnest($5::bigint[], $6::text[]) AS wanted (app_id, owner)
                    CROSS JOIN LATERAL (
                        SELECT id FROM installations WHERE app_id = wanted.app_id AND owner = wanted.owner OFFSET 0
                    ) AS i
            ) AS e
            CROSS JOIN LATERAL (
                SELECT predecessor FROM token_moves WHERE app_id = e.app_id AND successor = e.id OFFSET 0
            ) AS m
            UNION SELECT s.app_id, s.predecessor, m.predecessor FROM moves s
                CROSS JOIN LATERAL (
                    SELECT predecessor FROM token_moves WHERE app_id = s.app_id AND successor = s.predecessor OFFSET 0
                ) AS m
        ) SELECT app_id, successor, predecessor FROM moves
        """
    /// The tokens of the named installations and those with the named values, each once, and ``selectMoves``: those rows have a
    /// predecessor, and no id. One statement, because finding the values' holders is a good part of both.
    static let selectTokensAndMoves: PostgresStatement = """
        WITH RECURSIVE held AS MATERIALIZED (
            SELECT t.* FROM unnest($3::bigint[], $4::bytea[]) AS named (app_id, token)
            CROSS JOIN LATERAL (
                SELECT id, app_id, environment, purpose, token, installation, registered_at, retired_at, retired_reason,
                    proven_at IS NOT NULL AS is_proven
                FROM tokens WHERE app_id = named.app_id AND token = named.token OFFSET 0
            ) AS t
        ), moves (app_id, successor, predecessor) AS (
            SELECT e.app_id, e.id, m.predecessor FROM (
                SELECT app_id, id FROM unnest($1::bigint[], $2::uuid[]) AS named (app_id, id)
                UNION SELECT app_id, installation FROM held
                UNION SELECT wanted.app_id, i.id FROM unnest($5::bigint[], $6::text[]) AS wanted (app_id, owner)
                    CROSS JOIN LATERAL (
                        SELECT id FROM installations WHERE app_id = wanted.app_id AND owner = wanted.owner OFFSET 0
                    ) AS i
            ) AS e
            CROSS JOIN LATERAL (
                SELECT predecessor FROM token_moves WHERE app_id = e.app_id AND successor = e.id OFFSET 0
            ) AS m
            UNION SELECT s.app_id, s.predecessor, m.predecessor FROM moves s
                CROSS JOIN LATERAL (
                    SELECT predecessor FROM token_moves WHERE app_id = s.app_id AND successor = s.predecessor OFFSET 0
                ) AS m
        )
        SELECT t.*, NULL::uuid FROM unnest($1::bigint[], $2::uuid[]) AS named (app_id, id)
        CROSS JOIN LATERAL (
            SELECT id, app_id, environment, purpose, token, installation, registered_at, retired_at, retired_reason,
                proven_at IS NOT NULL
            FROM tokens WHERE app_id = named.app_id AND installation = named.id OFFSET 0
        ) AS t
        UNION ALL
        SELECT h.*, NULL FROM held h WHERE NOT EXISTS (
            SELECT FROM unnest($1::bigint[], $2::uuid[]) AS named (app_id, id)
            WHERE named.app_id = h.app_id AND named.id = h.installation
        )
        UNION ALL
        SELECT NULL, app_id, NULL, NULL, NULL, successor, NULL, NULL, NULL, NULL, predecessor FROM moves
        """
    // MARK: The same for what nearly every batch is: changes of one app that supersede nobody

    /// As ``lockInstallations``, of one app. Many keys in one scan of an index cost less than a scan for each, and what is recursive is
    /// only begun where there are moves.
    static let lockOfOneApp: PostgresStatement = """
        WITH concerned AS MATERIALIZED (
            SELECT $2::uuid[] || ARRAY(SELECT installation FROM tokens WHERE app_id = $1 AND token = ANY ($3::bytea[])) AS ids
        ), led_here AS MATERIALIZED (
            SELECT ARRAY(
                SELECT predecessor FROM token_moves WHERE app_id = $1 AND successor = ANY ((SELECT ids FROM concerned)::uuid[])
            ) AS ids
        )
        SELECT app_id, id, owner, owner_epoch, signed_out_reason, throttled_until, created_at, registered_at,
            locale, time_zone, app_version, os_version, device_model, tags, deregistered_at, stale_since
        FROM installations
        WHERE app_id = $1 AND id = ANY ((
            SELECT c.ids || CASE WHEN cardinality(l.ids) = 0 THEN l.ids ELSE ARRAY(
                WITH RECURSIVE reach (id) AS (
                    SELECT unnest(l.ids)
                    UNION SELECT m.predecessor FROM reach r
                        CROSS JOIN LATERAL (
                            SELECT predecessor FROM token_moves WHERE app_id = $1 AND successor = r.id OFFSET 0
                        ) AS m
                ) SELECT id FROM reach
            ) END
            FROM concerned c, led_here l
        )::uuid[])
        ORDER BY id FOR NO KEY UPDATE
        """
    /// The tokens of the named installations, and those with the named values that others hold, these with the moves that lead directly
    /// to their holders: a row for each. What else leads to somebody who is fenced is read when it is known that he is
    /// (``RegistryBatch/unread``).
    static let selectTokensOfOneApp: PostgresStatement = """
        SELECT id, app_id, environment, purpose, token, installation, registered_at, retired_at, retired_reason,
            proven_at IS NOT NULL, NULL::uuid
        FROM tokens WHERE app_id = $1 AND installation = ANY ($2::uuid[])
        UNION ALL
        SELECT h.*, m.predecessor FROM (
            SELECT id, app_id, environment, purpose, token, installation, registered_at, retired_at, retired_reason,
                proven_at IS NOT NULL
            FROM tokens WHERE app_id = $1 AND token = ANY ($3::bytea[]) AND installation <> ALL ($2::uuid[]) OFFSET 0
        ) AS h
        LEFT JOIN token_moves m ON m.app_id = $1 AND m.successor = h.installation
        """

    /// By `fences_open`: the published fences of an installation, which are kept for a week, are never read.
    static let selectOpenFences: PostgresStatement = """
        SELECT f.* FROM unnest($1::bigint[], $2::uuid[]) AS named (app_id, id)
        CROSS JOIN LATERAL (
            SELECT id, app_id, installation, epochs_below, created_at FROM fences
            WHERE app_id = named.app_id AND installation = named.id AND published_at IS NULL OFFSET 0
        ) AS f
        """

    /// One statement for whatever becomes of installations: each one that writes a table pays for reading all of its rules anew. A row
    /// without an epoch is a refresh; one that was not stored is new.
    static let writeInstallations: PostgresStatement = """
        MERGE INTO installations i
        USING unnest($1::bigint[], $2::uuid[], $3::timestamptz[], $4::bool[], $5::bigint[], $6::text[], $7::text[], $8::timestamptz[],
            $9::timestamptz[], $10::timestamptz[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[])
            AS e (app_id, id, registered_at, is_new, epoch, owner, signed_out_reason, created_at, deregistered_at, stale_since,
                locale, time_zone, app_version, os_version, device_model, tags)
        ON i.app_id = e.app_id AND i.id = e.id
        WHEN MATCHED AND e.epoch IS NULL THEN UPDATE SET registered_at = e.registered_at
        WHEN MATCHED THEN UPDATE SET owner = e.owner, owner_epoch = e.epoch, signed_out_reason = e.signed_out_reason,
            registered_at = e.registered_at, created_at = e.created_at, deregistered_at = e.deregistered_at,
            stale_since = e.stale_since, locale = e.locale, time_zone = e.time_zone, app_version = e.app_version,
            os_version = e.os_version, device_model = e.device_model, tags = e.tags::text[]
        WHEN NOT MATCHED AND e.is_new THEN INSERT (app_id, id, owner, owner_epoch, signed_out_reason, registered_at, created_at,
            deregistered_at, stale_since, locale, time_zone, app_version, os_version, device_model, tags)
            VALUES (e.app_id, e.id, e.owner, e.epoch, e.signed_out_reason, e.registered_at, e.created_at, e.deregistered_at,
                e.stale_since, e.locale, e.time_zone, e.app_version, e.os_version, e.device_model, e.tags::text[])
        """
    static let deleteMoves: PostgresStatement = """
        WITH led_here AS (
            DELETE FROM token_moves m USING unnest($1::bigint[], $2::uuid[]) AS e (app_id, successor)
            WHERE m.app_id = e.app_id AND m.successor = e.successor
        )
        DELETE FROM token_moves m USING unnest($1::bigint[], $2::uuid[]) AS e (app_id, predecessor)
        WHERE m.app_id = e.app_id AND m.predecessor = e.predecessor
        """
    static let insertMoves: PostgresStatement = """
        INSERT INTO token_moves (app_id, successor, predecessor, moved_at)
        SELECT app_id, successor, predecessor, $4 FROM unnest($1::bigint[], $2::uuid[], $3::uuid[]) AS e (app_id, successor, predecessor)
        ON CONFLICT (app_id, successor, predecessor) DO UPDATE SET moved_at = excluded.moved_at
        """
    static let insertFences: PostgresStatement = """
        INSERT INTO fences (app_id, installation, epochs_below, created_at)
        SELECT app_id, id, epoch, $4 FROM unnest($1::bigint[], $2::uuid[], $3::bigint[]) AS e (app_id, id, epoch)
        RETURNING id, app_id, installation, epochs_below, created_at
        """

    static let lockActive: PostgresStatement =
        "SELECT id FROM tokens WHERE id = ANY ($1::bigint[]) AND state = 'active' ORDER BY id FOR NO KEY UPDATE"

    /// Vacates places that other tokens take in the next statement: the index allows one living token in each at any moment.
    static let vacate: PostgresStatement = """
        UPDATE tokens SET state = 'retired', retired_at = $2, retired_reason = 'replaced'
        WHERE id = ANY ($1::bigint[]) AND state = 'active'
        """

    /// One statement for the same reason as ``writeInstallations``. A row without an id is new; one without an installation is a refresh,
    /// which revives as well: a verdict may have come between the read and this, and was about the registration before.
    static let writeTokens: PostgresStatement = """
        MERGE INTO tokens t
        USING (
            SELECT *, (SELECT i.ordinal FROM installations i WHERE i.app_id = told.app_id AND i.id = told.installation) AS ordinal
            FROM unnest($1::bigint[], $2::timestamptz[], $3::uuid[], $4::timestamptz[], $5::text[], $6::bigint[], $7::text[],
                $8::text[], $9::bytea[])
                AS told (id, registered_at, installation, retired_at, retired_reason, app_id, environment, purpose, token)
        ) AS e
        ON t.id = e.id
        WHEN MATCHED AND e.installation IS NULL THEN UPDATE SET registered_at = e.registered_at, state = 'active', retired_at = NULL,
            retired_reason = NULL, quarantined_at = NULL
        WHEN MATCHED THEN UPDATE SET installation = e.installation,
            ordinal = (SELECT i.ordinal FROM installations i WHERE i.app_id = t.app_id AND i.id = e.installation), registered_at = e.registered_at, retired_at = e.retired_at,
            retired_reason = e.retired_reason, state = CASE WHEN e.retired_at IS NULL THEN 'active' ELSE 'retired' END,
            quarantined_at = CASE WHEN e.retired_reason = 'rejected' THEN t.quarantined_at END
        WHEN NOT MATCHED AND e.id IS NULL THEN INSERT (app_id, installation, ordinal, registered_at, environment, purpose, token,
            state, retired_at, retired_reason)
            VALUES (e.app_id, e.installation, e.ordinal, e.registered_at, e.environment, e.purpose, e.token,
                CASE WHEN e.retired_at IS NULL THEN 'active' ELSE 'retired' END, e.retired_at, e.retired_reason)
        """
}
