import Observability
import Postgres
import StrictJSON
import Testing
import TokenServiceEvents
import TokenServiceSending
import TokenServiceUpkeep

@Suite("What nothing refers to any more is swept in bounded steps", .serialized, .timeLimit(.minutes(5)))
struct SweepTests {
    /// A sweep, the index that it goes by, and what makes rows that are old enough to go, then rows that are not.
    private static let fill: [(Sweep, index: String, @Sendable (_ old: Int32, _ young: Int32) -> PostgresQuery)] = [
        (
            .outcomeCounts, "outcome_counts_by_minute",
            { old, young in
                """
                INSERT INTO outcome_counts
                SELECT a.id, date_trunc('minute', now()) - CASE WHEN n > \(old) THEN interval '23 hours' ELSE interval '25 hours' END
                    + n * interval '1 millisecond', n::text, 1
                FROM generate_series(1, \(old) + \(young)) AS n, apps a
                """
            }
        ),
        (
            .tokenMoves, "token_moves_by_time",
            { old, young in
                """
                INSERT INTO token_moves
                SELECT app_id, predecessor, successor, now() - CASE WHEN n > \(old) THEN interval '95 hours' ELSE interval '97 hours' END
                    + n * interval '1 millisecond'
                FROM (
                    SELECT i.app_id, i.id AS predecessor, j.id AS successor, row_number() OVER () AS n FROM installations i, installations j
                ) AS pairs WHERE n <= \(old) + \(young)
                """
            }
        ),
        (
            .fences, "fences_by_publishing",
            { old, young in
                """
                INSERT INTO fences (app_id, installation, epochs_below, created_at, free_from, published_at)
                SELECT i.app_id, i.id, 1, now(), now(), now() - CASE WHEN n > \(old) THEN interval '167 hours' ELSE interval '169 hours' END
                    + n * interval '1 millisecond'
                FROM generate_series(1, \(old) + \(young)) AS n, (SELECT app_id, id FROM installations LIMIT 1) AS i
                """
            }
        ),
        (
            .quarantine, "tokens_by_quarantine",
            { old, young in
                """
                INSERT INTO tokens (app_id, installation, ordinal, token, environment, purpose, state, registered_at, retired_at,
                    retired_reason,
                    quarantined_at)
                SELECT i.app_id, i.id, i.ordinal, decode(lpad(n::text, 64, '0'), 'hex'), 'production', 'alert', 'retired', now(), now(),
                    'rejected',
                    now() - CASE WHEN n > \(old) THEN interval '719 hours' ELSE interval '721 hours' END
                    + n * interval '1 millisecond'
                FROM generate_series(1, \(old) + \(young)) AS n, (SELECT app_id, id, ordinal FROM installations LIMIT 1) AS i
                """
            }
        ),
        (
            .notificationEvents, "notification_events_pkey",
            { old, young in
                """
                WITH read AS (UPDATE event_feeds SET position = 1000000 WHERE log = 'notifications')
                INSERT INTO notification_events (app_id, notification, event, at)
                SELECT a.id, gen_random_uuid(), 'accepted', now() - CASE WHEN n > \(old) THEN interval '23 hours'
                    ELSE interval '25 hours' END
                FROM generate_series(1, \(old) + \(young)) AS n, apps a
                """
            }
        ),
        (
            .activities, "activities_by_start",
            { old, young in
                """
                INSERT INTO activities (app_id, id, owner, started_at)
                SELECT a.id, n::text, 'ada', now() - CASE WHEN n > \(old) THEN interval '167 hours' ELSE interval '169 hours' END
                    + n * interval '1 millisecond'
                FROM generate_series(1, \(old) + \(young)) AS n, apps a
                """
            }
        ),
        (
            .channels, "removed_channels",
            { old, young in
                """
                INSERT INTO update_targets (app_id, id, removed_at)
                SELECT a.id, n::text, now() - CASE WHEN n > \(old) THEN interval '11 hours' ELSE interval '13 hours' END
                    + n * interval '1 millisecond'
                FROM generate_series(1, \(old) + \(young)) AS n, apps a
                """
            }
        ),
        (
            .signOuts, "sign_outs_by_time",
            { old, young in
                """
                INSERT INTO sign_outs (app_id, digest, signed_out_at)
                SELECT a.id, sha256(n::text::bytea), now() - CASE WHEN n > \(old) THEN interval '24 hours' ELSE interval '26 hours' END
                    + n * interval '1 millisecond'
                FROM generate_series(1, \(old) + \(young)) AS n, apps a
                """
            }
        ),
    ]

    /// Rows that are old enough to go, then rows that are not.
    private static func fill(_ running: RunningService, old: Int, young: Int) async throws {
        let shop = try await running.client.makeApp()
        #expect(try await shop.send(#"{"user":"nobody"}"#).status == 202)
        try await running.fill(user: "ada", count: 100)
        for (_, _, rows) in Self.fill { try await running.execute(rows(Int32(old), Int32(young))) }
    }

    @Test("Each sweep takes the old rows by its index, a bounded number at a time, and goes on where it was") func boundedSteps()
        async throws
    {
        try await RunningService.run(.init(without: { $0 is Housekeeper || $0 is Relay || $0 is EventFeed })) { running in
            try await Self.fill(running, old: 5001, young: 4000)
            try await running.execute("ANALYZE outcome_counts, token_moves, fences, tokens, notification_events, update_targets, sign_outs")
            #expect(Self.fill.map(\.0.kind) == Sweep.all.map(\.kind), "a sweep that this test does not know")
            for (sweep, index, _) in Self.fill {
                let steps = try await running.pool.transaction { session in
                    let first = try Retention(session: session).sweep(sweep)
                    let before = try session.entriesReadHere(of: index)
                    let second = try Retention(session: session).sweep(sweep, from: try #require(first.last))
                    let read = try session.entriesReadHere(of: index) - before
                    // As beside an open snapshot: the entries of the rows that this transaction removed are there still.
                    #expect(read <= (sweep.kind == .notificationEvents ? 4002 : 10), "\(sweep.kind): \(read) entries read")
                    let scans: Int64 = try session.execute(
                        "SELECT pg_stat_get_xact_numscans(\(index)::text::regclass) AS scans"
                    ).only()["scans"]
                    // The planner may look at an end of an index that is not partial.
                    #expect(scans == 2 || scans == 3, "\(sweep.kind) does not go by its index")
                    let start = try session.entriesReadHere(of: index)
                    _ = try Retention(session: session).sweep(sweep)
                    let whole = try session.entriesReadHere(of: index) - start
                    #expect(whole >= 5000, "\(sweep.kind): \(whole) entries read from the beginning")
                    return [first, second]
                }
                #expect(steps.map(\.removed) == [5000, 1] && steps.map(\.isDone) == [false, true], "\(sweep.kind)")
            }
        }
    }

    @Test("A sweep ends although more rows become old before each of its steps") func growing() async throws {
        try await RunningService.run(.init(without: { $0 is Housekeeper || $0 is EventFeed })) { running in
            _ = try await running.client.makeApp()
            // The app is behind in every feed: a step removes none of the events that it finds.
            try await running.execute(
                """
                UPDATE event_feeds SET position = 1000000, behind_apps = ARRAY(SELECT id FROM apps), behind_positions = '{0}'
                WHERE log = 'notifications'
                """)
            let growth: [(Sweep, removed: [Int], @Sendable (_ first: Int32, _ last: Int32) -> PostgresQuery)] = [
                (
                    .outcomeCounts, [4, 4, 3],
                    { first, last in
                        """
                        INSERT INTO outcome_counts
                        SELECT a.id, now() - interval '25 hours' + n * interval '1 second', 'accepted', 1
                        FROM generate_series(\(first)::int, \(last)::int) AS n, apps a
                        """
                    }
                ),
                (
                    .notificationEvents, [0, 0, 0],
                    { first, last in
                        """
                        INSERT INTO notification_events (app_id, notification, event, at)
                        SELECT a.id, gen_random_uuid(), 'accepted', now() - interval '25 hours'
                        FROM generate_series(\(first)::int, \(last)::int), apps a
                        """
                    }
                ),
            ]
            for (sweep, expected, rows) in growth {
                let removed = try await running.pool.transaction { session in
                    try session.execute(rows(1, 8))
                    var (removed, from, isDone): ([Int], Int64, Bool) = ([], 0, false)
                    while !isDone, removed.count < 10 {
                        let next = Int32(9 + removed.count)
                        try session.execute(rows(next, next))
                        let step = try Retention(session: session).sweep(sweep, limit: 4, from: from)
                        removed.append(step.removed)
                        from = step.last ?? from
                        isDone = step.isDone
                    }
                    return removed
                }
                #expect(removed == expected, "\(sweep.kind)")
            }
        }
    }

    /// What some feed has still to read.
    @Test("The sweep keeps events that a feed has not published yet") func unpublishedEvents() async throws {
        try await RunningService.run(.init(without: { $0 is Housekeeper || $0 is EventFeed })) { running in
            _ = try await running.client.makeApp()
            try await running.execute(
                """
                INSERT INTO notification_events (app_id, notification, event, at)
                SELECT a.id, gen_random_uuid(), 'accepted', now() - interval '3 days' FROM generate_series(1, 5), apps a
                """)
            try await running.execute(
                "UPDATE event_feeds SET position = CASE sink WHEN 'broker' THEN 2 ELSE 4 END WHERE log = 'notifications'")
            let step = try await running.pool.transaction { session in try Retention(session: session).sweep(.notificationEvents) }
            #expect(step.removed == 2)
        }
    }

    @Test("The sweep keeps the events of an app that is behind, and no other's") func appBehind() async throws {
        try await RunningService.run(.init(without: { $0 is Housekeeper || $0 is EventFeed })) { running in
            for app in ["shop", "other"] { _ = try await running.client.makeApp(app) }
            // Of each app ten: the odd numbers are those of one, the even numbers those of the other.
            try await running.execute(
                """
                INSERT INTO notification_events (app_id, notification, event, at)
                SELECT a.id, gen_random_uuid(), 'accepted', now() - interval '3 days'
                FROM generate_series(1, 10) AS n, apps a ORDER BY n, a.slug = 'shop'
                """)
            try await running.execute(
                """
                UPDATE event_feeds SET position = 18, behind_apps = ARRAY[(SELECT id FROM apps
                    WHERE slug = 'shop')], behind_positions = '{4}'
                WHERE log = 'notifications' AND sink = 'broker'
                """)
            try await running.execute("UPDATE event_feeds SET position = 20 WHERE log = 'notifications' AND sink = 'webhooks'")
            let removed = try await running.pool.transaction { session in
                var (removed, from, isDone): ([Int], Int64, Bool) = ([], 0, false)
                while !isDone {
                    let step = try Retention(session: session).sweep(.notificationEvents, limit: 4, from: from)
                    removed.append(step.removed)
                    from = step.last ?? from
                    isDone = step.isDone
                }
                return removed
            }
            #expect(removed == [4, 2, 2, 2, 1])
            let left: [Int64] = try await running.pool.session { session in
                try session.execute("SELECT id FROM notification_events ORDER BY id").column("id")
            }
            #expect(left == [6, 8, 10, 12, 14, 16, 18, 19, 20])
        }
    }

    @Test("Events that no feed has published for longer than messages to webhooks are kept are lost, counted and reported")
    func lostEvents() async throws {
        try await RunningService.run(.init(without: { $0 is Housekeeper || $0 is EventFeed })) { running in
            _ = try await running.client.makeApp()
            // The app has got the first, and is behind with the others.
            try await running.execute(
                """
                UPDATE event_feeds SET position = 5, behind_apps = ARRAY(SELECT id FROM apps), behind_positions = '{1}'
                WHERE log = 'notifications'
                """)
            try await running.execute(
                """
                INSERT INTO notification_events (app_id, notification, event, at)
                SELECT a.id, gen_random_uuid(), 'accepted', now() - make_interval(hours => age)
                FROM unnest(ARRAY[75, 74, 73, 71, 70]) AS age, apps a
                """)
            let lines = LogLines()
            let options = RunningService.Options(
                settings: ["HOUSEKEEPING_INTERVAL_SECONDS": "1", "WEBHOOK_RETENTION_DAYS": "2"], without: { $0 is EventFeed },
                logger: lines.logger)
            try await running.another(options) { other in
                try await other.counted(#"retention_removed_total{kind="unread_events"}"#, 2)
                try await other.counted(#"retention_removed_total{kind="notification_events"}"#, 1)
                _ = try await eventually { lines.all.contains { $0.hasPrefix("State changes of notifications are lost") } ? true : nil }
            }
            #expect(try await running.count("SELECT count(*) FROM notification_events") == 2)
        }
    }

    @Test("The sweep removes messages to webhooks by their age") func webhookMessages() async throws {
        try await RunningService.run(.init(settings: ["HOUSEKEEPING_INTERVAL_SECONDS": "1", "WEBHOOK_RETENTION_DAYS": "2"])) { running in
            _ = try await running.client.makeApp()
            let admin = try await running.client.makeKey(app: "shop", scopes: ["admin"])
            _ = try await WebhookWorld.make(url: "https://example.invalid/", events: ["*"], admin)
            try await running.execute(
                """
                INSERT INTO webhook_messages (webhook, id, topic, body, created_at, due_at)
                SELECT w.id, gen_random_uuid(), 'webhook.ping', '{}', now() - make_interval(hours => 24 * age), now() + interval '1 hour'
                FROM webhooks w, unnest(ARRAY[1, 3]) AS age
                """)
            _ = try await eventually { try await running.count("SELECT count(*) FROM webhook_messages") == 1 ? true : nil }
            let removed = #"push_token_service_retention_removed_total{kind="webhook_messages"} 1"#
            _ = try await eventually { running.metrics.render().contains(removed) ? true : nil }
        }
    }

    @Test("The sweep removes holds by the moment at which they ended, and none that work still waits for") func holds() async throws {
        let settings = ["HOUSEKEEPING_INTERVAL_SECONDS": "1", "HISTORY_RETENTION_DAYS": "5"]
        try await RunningService.run(.init(settings: settings, without: { $0 is Relay })) { running in
            _ = try await running.client.makeApp()
            try await running.execute(
                """
                INSERT INTO holds (id, app_id, reason, set_at, set_by, published_at, ends_at, lifted_at, lifted_by, released_at)
                SELECT gen_random_uuid(), a.id, h.reason, now() - interval '10 days', 'k', now(),
                    coalesce(now() - h.expired * interval '1 day', 'infinity'), now() - h.lifted * interval '1 day', CASE WHEN h.lifted > 0
                        THEN 'k' END, CASE WHEN h.is_released THEN now() END
                FROM apps a, (VALUES ('lifted', NULL, 6, true), ('expired', 6, NULL, false), ('lifted lately', NULL, 4.5, true),
                    ('just lifted', NULL, 3.5, true), ('not released', NULL, 6, false), ('in force', NULL, NULL, false))
                    AS h (reason, expired, lifted, is_released)
                """)
            func reasons() async throws -> [String] { try await running.texts("reason", "SELECT reason FROM holds ORDER BY reason") }
            _ = try await eventually { try await reasons().count == 4 ? true : nil }
            #expect(try await reasons() == ["in force", "just lifted", "lifted lately", "not released"])
            let removed = #"push_token_service_retention_removed_total{kind="holds"} 2"#
            _ = try await eventually { running.metrics.render().contains(removed) ? true : nil }
            // An app's holds of 73 hours are counted.
            let step = try await running.pool.transaction { session in try Retention(session: session).sweep(.holds(days: 1)) }
            #expect(step.removed == 1)
            #expect(try await reasons() == ["in force", "just lifted", "not released"])
        }
    }

    @Test("The housekeeping sweeps everything, and the relay nothing") func sweepingProcess() async throws {
        try await RunningService.run(.init(without: { $0 is Housekeeper })) { running in
            try await Self.fill(running, old: 3, young: 2)
            let left: PostgresQuery = """
                SELECT (SELECT count(*) FROM outcome_counts)
                    + (SELECT count(*) FROM token_moves) + (SELECT count(*) FROM fences)
                    + (SELECT count(*) FROM tokens WHERE quarantined_at IS NOT NULL) AS count
                """
            let before = try await running.count(left)
            // A left-over fence is published: the relay has done its round.
            try await running.execute(
                "UPDATE fences SET published_at = NULL, created_at = now() - interval '10 seconds' WHERE id = (SELECT max(id) FROM fences)")
            _ = try await eventually { try await running.count("SELECT count(*) FROM fences WHERE published_at IS NULL") == 0 ? true : nil }
            #expect(try await running.count(left) == before)
            try await running.another(.init(settings: ["HOUSEKEEPING_INTERVAL_SECONDS": "1"])) { other in
                _ = try await eventually { try await running.count(left) == before - 12 ? true : nil }
                for kind in ["outcome_counts", "token_moves", "fences", "quarantine"] {
                    _ = try await eventually {
                        other.metrics.render().contains(#"push_token_service_retention_removed_total{kind="\#(kind)"} 3"#) ? true : nil
                    }
                }
            }
        }
    }
}
