import Broker
import Observability
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenServiceApps
import TokenServiceSending

@Suite("Fan-outs by tags, and what the metrics say of fan-outs", .serialized, .timeLimit(.minutes(5)))
struct FanOutIndexTests {
    private static func tokens(_ expression: String, _ count: Int, _ running: RunningService, _ shop: APITestClient) async throws -> Set<
        String
    > {
        let tokens = try await running.jobs(.bulk) { signal in
            _ = try await shop.send(#"{"tags":"\#(expression)"}"#)
            var tokens: [String] = []
            while tokens.count < count { tokens += try PushJob(decoding: try await signal.next().body).deliveries.map(\.token.hex) }
            return tokens
        }
        #expect(tokens.count == count && Set(tokens).count == count, "\(expression)")
        return Set(tokens)
    }

    @Test("A rare tag is fanned out by its index, in whole; an expression that needs none, installation by installation")
    func rareTags() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let blog = try await running.client.makeApp("blog")
            let count = FanOutStore.installationsOfPage + 500
            try await running.fill(count, app: try await running.app())
            try await running.execute(
                "UPDATE installations SET tags = '{rare}' WHERE id IN (SELECT id FROM installations ORDER BY id DESC LIMIT 30)")
            try await running.execute(
                "UPDATE installations SET tags = '{rare,muted}' WHERE id IN (SELECT id FROM installations ORDER BY id DESC LIMIT 10)")
            try await blog.register(installation(9), user: "ada", token: token(9), app: "blog", tags: ["rare"])
            let found = try await Self.tokens("rare AND NOT muted", 20, running, shop)
            #expect(!found.contains(token(9)))
            _ = try await eventually { running.metrics.render().contains("push_token_service_fan_out_installations_total 30") ? true : nil }
            #expect(try await Self.tokens("rare OR nothing", 30, running, shop).isSuperset(of: found))
            _ = try await eventually { running.metrics.render().contains("push_token_service_fan_out_installations_total 60") ? true : nil }
            _ = try await Self.tokens("NOT rare", count - 30, running, shop)
            _ = try await eventually {
                running.metrics.render().contains("push_token_service_fan_out_installations_total \(60 + count)") ? true : nil
            }
            let jobs = try await running.count("SELECT count(*) FROM jobs")
            _ = try await eventually { running.metrics.render().contains("push_token_service_fan_out_jobs_total \(jobs)") ? true : nil }
            _ = try await eventually { running.metrics.render().contains("push_token_service_fan_outs_live 0") ? true : nil }
        }
    }

    /// ANALYZE looks at 30,000 rows, so that it knows nothing of a tag that a hundred of twenty million have.
    @Test("A tag that the statistics do not list is rare, also in a large table") func unlistedTag() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            _ = try await running.client.makeApp()
            try await running.fill(1000, app: try await running.app(), tag: "common")
            try await running.execute("ANALYZE installations")
            try await running.execute("UPDATE pg_class SET reltuples = 20000000 WHERE oid = 'installations'::regclass")
            let estimates = try await running.pool.session { session in
                try ["common", "rare"].map { tag -> Int in
                    try session.execute("SELECT tagged_estimate(\([tag])) AS estimate").only()["estimate"]
                }
            }
            #expect(estimates[0] >= 19_000_000 && (1...FanOutStore.maximumRare).contains(estimates[1]), "\(estimates)")
        }
    }

    /// The more tags rows have, the more often ANALYZE has to see one to list it.
    @Test("Where rows have many tags, one that the statistics do not list is not taken for a rarer one") func unlistedAmongMany()
        async throws
    {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            _ = try await running.client.makeApp()
            let app = try await running.app()
            try await running.execute("DROP INDEX installations_by_tag")
            // Each of 20,000 tags has 120 rows.
            try await running.execute(
                """
                INSERT INTO installations (app_id, id, tags, registered_at, created_at)
                SELECT \(app.id), gen_random_uuid(), ARRAY(SELECT 't' || (n * 40 + tag) % 20000 FROM generate_series(0, 39) AS tag),
                    now(), now()
                FROM generate_series(1, 60000) AS n
                """)
            try await running.execute("ANALYZE installations")
            let estimate = try await running.number(
                "estimate",
                """
                SELECT tagged_estimate(ARRAY(
                    SELECT 't' || place * 40 FROM generate_series(0, 499) AS place, pg_stats s
                    WHERE s.tablename = 'installations' AND s.attname = 'tags'
                        AND ('t' || place * 40 = ANY (s.most_common_elems::text::text[])) IS NOT TRUE LIMIT 3)) AS estimate
                """)
            #expect((180...720).contains(estimate), "360 installations have one of the three tags, \(estimate) were estimated")
        }
    }

    /// By the statistics: the index on tags would read each of a hundred million rows that have a common tag before a limit ends it.
    @Test("Of the tags that every match needs, the rarest leads; those that too many have lead nowhere, and none is counted")
    func commonTag() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            let app = try await running.app()
            try await running.fill(FanOutStore.maximumRare + 10_000, app: app, tag: "common")
            try await running.execute("UPDATE installations SET tags = '{common,app:beta}'")
            try await running.execute("ANALYZE installations")
            let expression = try TagExpression("beta")
            let (isNamed, looked) = try await running.pool.session { session in
                let before = try session.entriesRead(of: "installations")
                let isNamed = try AudienceCount(session: session, app: app).namesTagsOfApps(expression)
                return (isNamed, try session.entriesRead(of: "installations") - before)
            }
            #expect(isNamed && looked <= 10_100, "\(looked) entries read")
            for (expression, tags) in [
                ("common", nil), ("common AND rare", ["rare"]), ("rare AND (common OR other)", ["rare"]), ("rare OR common", nil),
                ("NOT rare", nil), ("common AND NOT rare", nil), ("rare OR other", ["rare", "other"]),
                ("permission:denied", nil), ("permission:denied AND rare", ["rare"]), ("permission:denied OR rare", nil),
            ] as [(String, [String]?)] {
                let id = try #require(try await shop.send(#"{"tags":"\#(expression)"}"#).json.text("id").flatMap { PushID($0) })
                let (audience, read) = try await running.pool.session { session in
                    let before = try session.entriesRead(of: "installations")
                    let audience = try FanOutStore(session: session).fanOut(of: id)
                    return (audience, try session.entriesRead(of: "installations") - before)
                }
                #expect(try #require(audience).rareTags == tags, "\(expression)")
                #expect(read < 1000, "\(expression)")
            }
        }
    }

    @Test("Where the statistics took a common tag for a rare one, fan-out goes through the app's installations") func staleStatistics()
        async throws
    {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await running.execute("ALTER TABLE installations SET (autovacuum_enabled = off)")
            try await running.fill(1000, app: try await running.app(), tag: nil)
            try await running.execute("ANALYZE installations")
            try await running.execute(
                """
                INSERT INTO installations (app_id, id, tags, registered_at, created_at)
                SELECT app_id, gen_random_uuid(), '{common}', now(), now() FROM installations, generate_series(1, 51)
                """)
            let id = try #require(try await shop.send(#"{"tags":"common"}"#).json.text("id").flatMap { PushID($0) })
            let (audience, page, next) = try await running.pool.session { session in
                let store = FanOutStore(session: session)
                let (audience, now) = (try #require(try store.fanOut(of: id)), UnixClock.now())
                let page = try store.page(of: audience, names: DeliveryNames(id), now: now)
                try session.transaction { _ in try store.commit(page, of: audience, leaseSeconds: 60, now: now) }
                return (audience, page, try #require(try store.fanOut(of: id)))
            }
            #expect(audience.rareTags == ["common"])
            #expect(page.read == FanOutStore.installationsOfPage && !page.isLast)
            // The index on tags is read once, by whatever process the next page is made.
            #expect(page.areTagsCommon && next.rareTags == nil && next.checkpoint.position > 0)
        }
    }

    /// A checkpoint may cause one timeout. The entries of millions of installations that have lost the tag cause one at each search, until
    /// PostgreSQL removes them.
    @Test(
        "Fan-out goes through the app's installations where the search by the index on tags takes too long twice in a row",
        arguments: [(1, 0), (2, 1)] as [(Int64, Int64)])
    func slowIndex(timeouts: Int64, common: Int64) async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for number in 1...3 {
                try await shop.register(installation(number), user: nil, token: token(number), tags: number < 3 ? ["rare"] : [])
            }
            // The sequence counts also in transactions that fail. PostgreSQL prefers an operator of exactly these types to its own.
            for statement: PostgresQuery in [
                "CREATE SEQUENCE searches",
                """
                CREATE FUNCTION slow_at_first(text[], text[]) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
                    IF nextval('searches') <= 3 THEN RAISE query_canceled; END IF;
                    RETURN $1 OPERATOR(pg_catalog.&&) $2;
                END $$
                """, "CREATE OPERATOR && (LEFTARG = text[], RIGHTARG = text[], FUNCTION = slow_at_first)",
                "SELECT setval('searches', 3 - \(timeouts)::bigint)",
            ] { try await running.execute(statement) }
            #expect(try await Self.tokens("rare", 2, running, shop) == [token(1), token(2)])
            // Whatever process makes the next page, it does not try the index again after the second timeout.
            #expect(try await running.count("SELECT count(*) FROM fan_outs WHERE are_tags_common") == common)
            if common == 1 { #expect(try await running.number("last_value", "SELECT last_value FROM searches") == 3) }
        }
    }

    @Test("The oldest fan-out that is due and not over shows its age; what is scheduled does not") func oldest() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            func oldest() async throws -> Int64? {
                try await running.pool.session { session in
                    try WaitingWorkStore(session: session).waitingFanOuts(leaseSeconds: 30).found.compactMap(\.due).min()
                }
            }
            #expect(try await oldest() == nil)
            let later = RFC3339.text(milliseconds: UnixClock.now() + 3_600_000)
            _ = try await shop.send(#"{"user":"ada"}"#, more: #","not_before":"\#(later)""#)
            #expect(try await oldest() == nil)
            let sent = try await shop.send(#"{"all":true}"#)
            #expect(try await oldest() == sent.json.text("accepted_at").flatMap { RFC3339.milliseconds($0) })
            // As if a process had it.
            try await running.execute("UPDATE fan_outs SET free_from = now() + interval '20 seconds' WHERE target = 'all'")
            #expect(try await oldest() != nil)
            try await running.execute("UPDATE fan_outs SET ended_at = now(), free_from = NULL WHERE target = 'all'")
            #expect(try await oldest() == nil)
        }
    }
}
