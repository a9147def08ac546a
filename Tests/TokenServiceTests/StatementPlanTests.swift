import Postgres
import StatementSources
import TestDatabase
import Testing

@testable import TokenService

/// Every statement goes by an index, whatever PostgreSQL knows of the tables: a plan is kept, and one that reads a table as a whole gets
/// slower with every row. Statements are planned as the service has them planned.
@Suite("The plans of statements", .timeLimit(.minutes(5)))
struct StatementPlanTests {
    /// Numbers of rows of `installations`; there are half as many notifications.
    private static let (few, many): (Int64, Int64) = (300, 60_000)

    @Test("Statements go by their indexes on an empty database, and on a large one before and after it is analyzed")
    func emptyAndLarge() async throws {
        try await Self.withDatabase { session in
            let isNew: Bool = try session.execute("SELECT current_setting('server_version_num')::int >= 170000 AS is_new").only()["is_new"]
            let ofUnknown = isNew ? Self.ofUnknown17 : []
            try Self.expectIndexes("empty", isAnalyzed: false, also: Self.ofEmpty.union(ofUnknown), session)
            try Self.fill(1...Self.many, session)
            try Self.expectIndexes("large and never analyzed", isAnalyzed: false, also: ofUnknown, session)
            try session.simple("ANALYZE")
            try Self.expectIndexes("large and analyzed", session)
            // The indexes of what waits have no live entry: read as a whole they look cheap, and beside an open snapshot they are not.
            for query in Self.nothingWaits { try session.execute(query) }
            try session.simple("ANALYZE")
            try Self.expectIndexes("large, and nothing waits", session)
        }
    }

    @Test("Statements go by their indexes on a database that has grown since it was analyzed") func grownDatabase() async throws {
        try await Self.withDatabase { session in
            try Self.fill(1...Self.few, session)
            try session.simple("ANALYZE")
            try Self.expectIndexes("small and analyzed", session)
            try Self.fill(Self.few + 1...Self.many, session)
            try Self.expectIndexes("grown since it was analyzed", session)
        }
    }

    /// As after the first campaign of a period, until autovacuum looks again: a join by the notification seems to find every row.
    @Test("Statements go by their indexes where a period's statistics know of one notification alone") func oneNotification() async throws {
        try await Self.withDatabase { session in
            try Self.fillWithOneNotification(20_000, session)
            try session.simple("ANALYZE")
            try Self.expectIndexes("one notification alone", session)
        }
    }

    private static let nothingWaits: [PostgresQuery] = [
        "UPDATE jobs SET published_at = now(), held_by = NULL WHERE published_at IS NULL OR held_by IS NOT NULL",
        "UPDATE fan_outs SET free_from = NULL, held_by = NULL WHERE free_from IS NOT NULL OR held_by IS NOT NULL",
        "UPDATE cancellations SET published_at = now(), hastened_at = now() WHERE published_at IS NULL OR hastened_at IS NULL",
        "UPDATE fences SET published_at = now() WHERE published_at IS NULL",
        "UPDATE webhook_messages SET state = 'delivered', settled_at = now() WHERE state = 'pending'",
    ]

    // MARK: What is expected

    /// The indexes that a hot statement may go by, with the columns that it looks up by.
    private static let indexes: [String: Set<String>] = [
        // Acceptance.
        "NotificationStore.claimKeys": ["idempotency_records_pkey(app_id, api_key_id, key, day)", "notifications_pkey(id)"],
        "IdempotencyRecords.select": [
            "idempotency_records_pkey(app_id, api_key_id, key, day)", "notifications_pkey(id)", "fan_outs_pkey(notification)",
            "cancellations_pkey(notification)",
        ],
        "NotificationStore.insertResolved": [
            "installations_by_owner(app_id, owner)", "installations_pkey(app_id, id)", "quiet_hours_pkey(app_id, owner)",
            "tokens_one_active(app_id, ordinal, purpose)",
        ],
        "NotificationStore.insertForFanOut": ["installations_pkey(app_id, id)"],
        // Registrations.
        "RegistryStore.lockInstallations": [
            "installations_by_owner(app_id, owner)", "installations_pkey(app_id, id)", "token_moves_pkey(successor, app_id)",
            "tokens_once(token, app_id)",
        ],
        "RegistryStore.standIns": [
            "installations_pkey(app_id, id)", "tokens_once(token, app_id)", "tokens_by_installation(installation, app_id)",
        ],
        "RegistryStore.tokens": ["tokens_by_installation(installation, app_id)", "tokens_once(token, app_id)"],
        "RegistryStore.openFences": ["fences_by_installation(app_id, installation)", "fences_open(app_id, installation)"],
        "RegistryStore.rivals": [
            "tokens_once(token, app_id, purpose)", "tokens_by_installation(installation, app_id)", "tokens_pkey(id)",
        ],
        "RegistryBatch.vacate": ["tokens_pkey(id)"],
        "SignOutMoments.read": ["sign_outs_pkey(app_id, digest)"],
        // Fan-out.
        "FanOutStore.tokens": ["tokens_one_active(app_id, ordinal, purpose)"],
        // An app's installations, tagged ones, and those of a list.
        "FanOutStore.page": [
            "installations_in_order(app_id, ordinal)", "notifications_pkey(id)", "fan_outs_pkey(notification)",
            "quiet_hours_pkey(app_id, owner)", "tokens_one_active(app_id, ordinal, purpose)",
        ],
        "FanOutStore.page 2": [
            "installations_pkey(app_id, id)", "notifications_pkey(id)", "fan_outs_pkey(notification)", "quiet_hours_pkey(app_id, owner)",
            "tokens_one_active(app_id, ordinal, purpose)",
        ],
        "FanOutStore.page 3": [
            "installations_by_owner(app_id, owner)", "installations_pkey(app_id, id)", "notifications_pkey(id)",
            "fan_outs_pkey(notification)", "targets_pkey(notification, place)", "quiet_hours_pkey(app_id, owner)",
            "tokens_one_active(app_id, ordinal, purpose)",
        ],
        "FanOutStore.sizes": [
            "installations_by_owner(app_id, owner)", "notifications_pkey(id)", "targets_pkey(notification, place)",
        ],
        "FanOutStore.nextInstallations": [
            "installations_by_owner(app_id, owner, id)", "notifications_pkey(id)", "targets_pkey(notification, place)",
        ],
        "FanOutStore.nextInstallations 2": ["installations_by_owner(app_id, owner, id)"],
        "FanOutStore.nextReporters": [
            "notifications_pkey(id)", "targets_pkey(notification, place)", "tokens_by_activity(app_id, purpose, installation)",
        ],
        "FanOutStore.nextReporters 2": ["tokens_by_activity(app_id, purpose, installation)"],
        "FanOutStore.pageOfActivities": [
            "installations_by_owner(app_id, owner)", "installations_pkey(app_id, id)",
            "tokens_one_active(app_id, ordinal, purpose, environment)",
        ],
        "FanOutStore.advance": ["fan_outs_pkey(notification)", "notifications_pkey(id)"],
        // Publishing.
        "WaitingWorkStore.claimFanOuts": ["fan_outs_free(lane, app_id, free_from)", "fan_outs_pkey(notification)"],
        "FenceStore.markPublished": ["fences_pkey(id)"],
        "JobStore.claim": ["jobs_pkey(notification, number)", "jobs_unpublished(lane, app_id, free_from)"],
        "WaitingWorkStore.waitingJobs": ["jobs_unpublished(lane, app_id, free_from)"],
        "WaitingWorkStore.waitingFanOuts": ["fan_outs_free(lane, app_id, free_from)"],
        "WaitingWorkStore.backlog": [
            "jobs_unpublished(lane, app_id, free_from, LEAST(number, 1))", "fan_outs_free(lane, app_id, free_from)",
        ],
        "FenceStore.oldestLeftOver": ["fences_left_over(free_from)"],
        "FenceStore.claim": ["fences_left_over(free_from)", "fences_pkey(id)"],
        "FenceStore.release": ["fences_pkey(id)"],
        "CancellationOutbox.oldestUnhastened": ["cancellations_unhastened(hasten_from)"],
        "CancellationOutbox.unhastened": ["cancellations_unhastened(hasten_from)"],
        "CancellationOutbox.hasten": ["cancellations_pkey(notification)", "jobs_pkey(notification, number)"],
        "JobStore.read": ["jobs_pkey(notification, number)"],
        "JobStore.putOff": ["jobs_pkey(notification, number)"],
        "JobStore.workedOn": ["jobs_pkey(notification, number)", "receipts_pkey(notification, number)"],
        "JobStore.publishedWithinADay": ["jobs_pkey(notification)", "notifications_pkey(id)"],
        "JobStore.terms": ["notifications_pkey(id)", "fan_outs_pkey(notification)"],
        "JobStore.variants": ["notification_variants_pkey(notification)"],
        "JobStore.record": ["jobs_pkey(notification, number)"],
        // Outcomes.
        "OutcomeStore.origins": ["notifications_pkey(id)"],
        "OutcomeStore.lockJobs": ["jobs_pkey(notification, number)"],
        "OutcomeStore.markFinal": ["jobs_pkey(notification, number)"],
        "OutcomeStore.retiredInWindow": ["tokens_rejected(app_id, retired_at)"],
        "OutcomeStore.noteAttempts": [
            "jobs_pkey(notification, number)", "receipts_pkey(notification, number, position)", "tokens_pkey(id)",
        ],
        "OutcomeStore.openReceipts": ["receipts_pkey(notification, number, position)"],
        "OutcomeStore.tokenFacts": ["tokens_pkey(id)"],
        "OutcomeStore.countInNotifications": ["notifications_pkey(id)"],
        "OutcomeStore.countInNotifications 2": ["notifications_pkey(id)"],
        "OutcomeStore.lockInstallations": ["installations_pkey(app_id, id)"],
        // Webhooks.
        "WebhookStore.hasten": ["webhook_messages_due(webhook, due_at)", "webhook_messages_pkey(webhook, id)", ownWebhook],
        "WebhookStore.failed": ["webhook_messages_failed(webhook, id)", ownWebhook],
        "WebhookStore.redeliver": ["webhook_messages_failed(webhook)", ownWebhook],
        // Status.
        "NotificationReading.status": [
            "notifications_by_app(app_id, id)", "notifications_pkey(id)", "fan_outs_pkey(notification)", "cancellations_pkey(notification)",
        ],
        "NotificationReading.firstDeliveries": [
            "installations_pkey(app_id, id)", "jobs_pkey(notification)", "jobs_pkey(notification, number)", "receipts_pkey(notification)",
            "receipts_pkey(notification, number, position)", "tokens_pkey(id)", "notifications_by_app(app_id, id)",
            "notifications_pkey(id)",
        ],
    ]

    private static let ownWebhook = "webhooks_by_app(app_id, id)"

    /// On an empty registry an app's rows are none. A connection keeps its first plans for a second.
    private static let ofEmpty: Set = ["installations_by_owner(app_id)", "installations_pkey(app_id)", "quiet_hours_pkey()"]

    /// Where there are no statistics, PostgreSQL 17 takes a list of keys to be cheap behind any column of an index.
    private static let ofUnknown17: Set = ["installations_in_order(app_id, id)"]

    /// All cancellations that are unpublished, all counts that are to be added, and the newest events: each by an index that holds no
    /// others, or up to a limit.
    private static let wholeIndexes: Set = [
        "CancellationOutbox.leftOver", "DeviceReceiptCounts.aside", "DeviceReceiptCounts.asideCount", "ErasureStore.historyEnd",
        "EventStore.horizon",
    ]

    /// - Parameter isAnalyzed: Then `scans_of` passes over small tables, and may find nothing.
    private static func expectIndexes(
        _ state: String, isAnalyzed: Bool = true, also others: Set<String> = [], _ session: PostgresSession
    ) throws {
        // PostgreSQL makes plans anew only after ANALYZE.
        try session.simple("DISCARD PLANS")
        let statements = try SourceStatement.all()
        #expect(Set(indexes.keys).subtracting(statements.map(\.name)).isEmpty, "statements that are not in the sources any more")
        for (number, statement) in statements.enumerated() {
            let scans: [String] = try session.execute("SELECT unnest(pg_temp.scans_of(\("s\(number)"))) AS scan").column("scan")
            let found = Set(scans).subtracting(others)
            if let known = indexes[statement.name] {
                #expect(isAnalyzed || !scans.isEmpty, "\(state): \(statement.name) goes by no index")
                #expect(found.isSubset(of: known), "\(state): \(statement.name) goes by \(found.subtracting(known))")
            } else if !wholeIndexes.contains(statement.name) {
                let whole = found.filter { $0.hasSuffix(" as a whole") || $0.hasSuffix("()") }
                #expect(whole.isEmpty, "\(state): \(statement.name) reads \(whole)")
            }
        }
    }

    // MARK: The database

    /// With every statement of the sources prepared, as `s0` and so on. Nothing is analyzed by itself.
    private static func withDatabase(_ body: @escaping @Sendable (PostgresSession) throws -> Void) async throws {
        try await withTestDatabase(migrations: RunningService.migrationsDirectory(), poolSize: 1) { _, uri in
            var configuration = try TestServer.configuration(uri: uri)
            configuration.poolSize = 1
            configuration.sessionSettings = TokenServiceConfiguration.planning
            let pool = PostgresPool(configuration)
            let result: Result<Void, any Error>
            do {
                result = .success(
                    try await pool.session { session in
                        try session.simple(preparation)
                        for (number, statement) in try SourceStatement.all().enumerated() {
                            try session.simple("PREPARE s\(number) AS \(statement.sql)")
                        }
                        try body(session)
                    })
            } catch {
                result = .failure(error)
            }
            await pool.close()
            try result.get()
        }
    }

    /// `scans_of` says how the plan of a prepared statement reads tables that grow: by which index and columns, or as a whole. It passes
    /// over tables that PostgreSQL knows to be small, and that are.
    private static let preparation = #"""
        DO $$
        DECLARE of_table text;
        BEGIN
            FOR of_table IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
                EXECUTE format('ALTER TABLE %I SET (autovacuum_enabled = off)', of_table);
            END LOOP;
        END $$;
        CREATE FUNCTION pg_temp.scans_of(prepared text) RETURNS text[] LANGUAGE plpgsql AS $$
        DECLARE
            -- Of the types that parameters have: partitions are chosen by them.
            arguments text := (
                SELECT '(' || string_agg(format(CASE WHEN type LIKE '%[]' THEN 'ARRAY[%L]::%s' ELSE '%L::%s' END, value, type), ', ') || ')'
                FROM pg_prepared_statements p, unnest(p.parameter_types::text[]) WITH ORDINALITY AS parameter (type, place), LATERAL (
                    SELECT CASE replace(type, '[]', '') WHEN 'uuid' THEN first_id_at(now())::text WHEN 'tsquery' THEN 'vip'
                        WHEN 'timestamp with time zone' THEN now()::text WHEN 'timestamp without time zone' THEN localtimestamp::text
                        WHEN 'time without time zone' THEN '22:00' WHEN 'interval' THEN '1 day' ELSE '1' END AS value
                ) AS chosen WHERE p.name = prepared);
            plan json;
        BEGIN
            EXECUTE format('EXPLAIN (FORMAT JSON) EXECUTE %I%s', prepared, coalesce(arguments, '')) INTO plan;
            RETURN ARRAY(
                SELECT DISTINCT CASE WHEN i.indexrelid IS NULL THEN t.name || ' as a whole'
                    ELSE format('%s(%s)', coalesce(pg_partition_root(i.indexrelid), i.indexrelid)::regclass, bound.columns) END
                FROM jsonb_path_query(plan::jsonb, 'strict $.**') AS node
                LEFT JOIN pg_index i ON i.indexrelid = to_regclass(quote_ident(node ->> 'Index Name'))
                JOIN pg_class c ON c.oid = coalesce(
                    i.indrelid, CASE node ->> 'Node Type' WHEN 'Seq Scan' THEN to_regclass(quote_ident(node ->> 'Relation Name')) END)
                CROSS JOIN LATERAL (SELECT coalesce(pg_partition_root(c.oid), c.oid)::regclass::text AS name) AS t
                CROSS JOIN LATERAL (
                    SELECT coalesce(string_agg(name, ', ' ORDER BY place), '') AS columns
                    FROM generate_series(1, i.indnkeyatts) AS place,
                        LATERAL (SELECT trim('"' FROM pg_get_indexdef(i.indexrelid, place, true)) AS name) AS named
                    WHERE CASE WHEN name ~ '\W' THEN strpos(node ->> 'Index Cond', regexp_replace(name, '\(.*', '')) > 0
                        ELSE node ->> 'Index Cond' ~ ('(^|[^.\w])' || name || '\M') END
                ) AS bound
                WHERE jsonb_typeof(node) = 'object' AND NOT (c.reltuples >= 0 AND pg_relation_size(c.oid) < 1000000)
                    AND t.name = ANY ('{installations, tokens, notifications, jobs, receipts, installation_history, idempotency_records,
                        notification_variants, fences, token_moves, notification_events, webhook_messages,
                        quiet_hours, outcome_counts, fan_outs, targets, cancellations, audit, device_receipts,
                        sign_outs}'));
        END $$;
        """#
}
