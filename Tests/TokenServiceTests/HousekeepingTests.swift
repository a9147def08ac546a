import Observability
import Postgres
import PushModel
import StrictJSON
import TestDatabase
import Testing

@testable import TokenService
@testable import TokenServiceApps
@testable import TokenServiceEvents
@testable import TokenServiceRegistry
@testable import TokenServiceUpkeep

@Suite("Stale installations and retention", .serialized, .timeLimit(.minutes(5)))
struct HousekeepingTests {
    /// No housekeeping but what the test asks for.
    private static let still = RunningService.Options(without: { $0 is Housekeeper })

    private static func app(_ running: RunningService) async throws -> App {
        try #require(try await AppStore(pool: running.pool).all().first)
    }

    private static func age(_ running: RunningService, days: Int) async throws {
        try await running.execute("UPDATE installations SET registered_at = now() - make_interval(days => \(Int32(days)))")
    }

    private static func flag(_ running: RunningService) async throws -> StaleInstallations.Page {
        let app = try await app(running)
        return try await running.pool.transaction { session in
            try StaleInstallations(session: session, app: app).flag(after: PushID(high: 0, low: 0))
        }
    }

    private static func remove(_ ids: [PushID], _ running: RunningService) async throws -> RegistryStore.Committed {
        let app = try await app(running)
        return try await running.pool.transaction { session in try StaleInstallations(session: session, app: app).remove(ids) }
    }

    @Test("The housekeeping flags an installation that stays silent, and a registration clears the flag")
    func silentInstallation() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            for number in 1...2 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            try await Self.age(running, days: 31)
            #expect(try await Self.flag(running).flagged == 0, "the app says nothing of staleness")
            try await running.execute("UPDATE apps SET stale_after_days = 30")
            try await shop.register(installation(2), user: "ada", token: token(2))
            let page = try await Self.flag(running)
            #expect(page.flagged == 1)
            #expect(page.removable.isEmpty)
            #expect(try await running.count("SELECT count(*) FROM installations WHERE stale_since IS NOT NULL") == 1)
            #expect(try await running.count("SELECT count(*) FROM installation_history WHERE event = 'stale'") == 1)
            #expect(try await Self.flag(running).flagged == 0)
            #expect(try await shop.record(installation(1)).text("user") == "ada")
            try await shop.register(installation(1), user: "ada", token: token(1))
            #expect(try await running.count("SELECT count(*) FROM installations WHERE stale_since IS NOT NULL") == 0)
        }
    }

    /// A statement that reads all of an app's installations takes longer than any statement may, and nothing after it is ever done.
    @Test("A step reads one page, and nothing if the app has no rule for stale installations") func onePage() async throws {
        try await withTestDatabase(migrations: RunningService.migrationsDirectory()) { _, uri in
            var configuration = try TestServer.configuration(uri: uri)
            configuration.poolSize = 1
            configuration.sessionSettings = TokenServiceConfiguration.planning
            let pool = PostgresPool(configuration)
            let apps = AppStore(pool: pool)
            let slug = try #require(AppSlug("shop"))
            _ = try await apps.create(
                slug: slug, AppProperties(bundleID: "com.example.shop", devicePolicy: .multi, environments: [.production]),
                by: .service)
            try await pool.session { session in
                _ = try session.execute(
                    """
                    INSERT INTO installations (app_id, id, registered_at, created_at)
                    SELECT id, gen_random_uuid(), now(), now() FROM apps, generate_series(1, 5000)
                    """)
            }
            #expect(try await Self.reads(pool, by: #require(try await apps.read(slug))) == 0)
            try await pool.session { session in _ = try session.execute("UPDATE apps SET stale_after_days = 30") }
            #expect(try await Self.reads(pool, by: #require(try await apps.read(slug))) == Int64(StaleInstallations.page))
            await pool.close()
        }
    }

    /// Rows of installations that a step of an app reads.
    private static func reads(_ pool: PostgresPool, by app: App) async throws -> Int64 {
        try await pool.session { session in
            let before = try session.rowsRead(of: "installations")
            _ = try session.transaction { session in
                try StaleInstallations(session: session, app: app).flag(after: PushID(high: 0, low: 0))
            }
            return try session.rowsRead(of: "installations") - before
        }
    }

    @Test("The service counts a round that it cannot finish, and the next round tries again") func failedRound() async throws {
        try await RunningService.run(.init(settings: ["HOUSEKEEPING_INTERVAL_SECONDS": "1"])) { running in
            func rounds(_ result: String) -> Int { running.counter("housekeeping_rounds_total{result=\"\(result)\"}") }
            try await running.execute("ALTER TABLE outcome_counts RENAME TO away")
            _ = try await eventually { rounds("failed") > 0 ? true : nil }
            let finished = rounds("finished")
            try await running.execute("ALTER TABLE away RENAME TO outcome_counts")
            _ = try await eventually { rounds("finished") > finished ? true : nil }
        }
    }

    @Test("After a step that failed the housekeeping pauses as it does after others") func pauses() async throws {
        struct Failed: Error {}
        var pauses = 0
        let pause: (Duration) async -> Bool = { _ in
            pauses += 1
            return true
        }
        let done = try await Housekeeper.paced(pause: pause) { 1 }
        #expect(done == 1 && pauses == 1)
        do {
            _ = try await Housekeeper.paced(pause: pause) { () -> Int in throw Failed() }
            Issue.record("the step did not fail")
        } catch is Failed {}
        #expect(pauses == 2)
    }

    @Test("What cannot be done for one app, or for one kind of rows, keeps nothing else from being done", arguments: ["shop", "blog"])
    func oneFault(refused: String) async throws {
        try await RunningService.run(.init(settings: ["HOUSEKEEPING_INTERVAL_SECONDS": "1"])) { running in
            for (number, slug) in [(1, "shop"), (2, "blog")] {
                let app = try await running.client.makeApp(slug)
                try await app.register(installation(number), user: "ada", token: token(number), app: slug)
                try await app.register(installation(number), user: "ada", token: token(number + 10), app: slug)
            }
            func rounds(_ result: String) -> Int { running.counter("housekeeping_rounds_total{result=\"\(result)\"}") }
            #expect(try await running.count("SELECT count(*) FROM tokens") == 4)
            // The first sweep fails; the tokens come last.
            for statement: PostgresQuery in [
                "ALTER TABLE outcome_counts RENAME TO away", "CREATE TABLE refused (id bigint)",
                "INSERT INTO refused SELECT id FROM apps WHERE slug = \(refused)",
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF EXISTS (SELECT FROM refused WHERE id = NEW.app_id) THEN RAISE 'not in this test'; END IF;
                    RETURN NEW;
                END $$
                """,
                """
                CREATE TRIGGER refused BEFORE UPDATE ON installations FOR EACH ROW
                    WHEN (NEW.stale_since IS NOT NULL) EXECUTE FUNCTION refuse()
                """,
                "UPDATE installations SET registered_at = now() - interval '31 days'",
                "UPDATE tokens SET retired_at = now() - interval '3000 days' WHERE state = 'retired'",
                "UPDATE apps SET stale_after_days = 30",
            ] { try await running.execute(statement) }
            _ = try await eventually { try await running.count("SELECT count(*) FROM tokens") == 2 ? true : nil }
            _ = try await eventually {
                let flagged = try await running.count(
                    "SELECT count(*) FROM installations WHERE stale_since IS NOT NULL AND app_id NOT IN (SELECT id FROM refused)")
                return flagged == 1 ? true : nil
            }
            let failed = rounds("failed")
            _ = try await eventually { rounds("failed") > failed ? true : nil }
            #expect(try await running.count("SELECT count(*) FROM installations WHERE stale_since IS NOT NULL") == 1)
        }
    }

    @Test("If the app wants it, the housekeeping removes and fences stale installations") func removedInstallation() async throws {
        try await RunningService.run(.init(settings: ["HOUSEKEEPING_INTERVAL_SECONDS": "1"])) { running in
            let shop = try await running.client.makeApp()
            for number in 1...2 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            try await Self.age(running, days: 31)
            try await shop.register(installation(2), user: "ada", token: token(2))
            try await running.execute("UPDATE apps SET stale_after_days = 30, removes_stale = true")
            _ = try await eventually { try await shop.record(installation(1)).text("user") == nil ? true : nil }
            #expect(
                try await running.count(
                    """
                    SELECT count(*) FROM installations i JOIN tokens t ON t.installation = i.id
                    WHERE i.signed_out_reason = 'stale' AND i.owner IS NULL AND i.owner_epoch = 2 AND t.retired_reason = 'stale'
                    """) == 1)
            #expect(
                try await running.count("SELECT count(*) FROM installation_history WHERE event = 'deregistered' AND reason = 'stale'") == 1)
            _ = try await eventually {
                try await running.count("SELECT count(*) FROM fences WHERE published_at IS NULL") == 0 ? true : nil
            }
            #expect(try await running.fences() == [.init(installation: installation(1), epochsBelow: 2)])
            try await running.counted("stale_flagged_total", 1)
            try await running.counted("stale_removed_total", 1)
            #expect(try await shop.record(installation(2)).text("user") == "ada")
            #expect(try await shop.register(installation(1), user: "ada", token: token(1)).status == 201)
        }
    }

    @Test("The retention of all apps does not wait for the removal of one app's stale installations") func order() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await Self.age(running, days: 31)
            try await running.execute("UPDATE apps SET stale_after_days = 30, removes_stale = true")
            try await running.execute(
                "INSERT INTO outcome_counts (app_id, minute, class, count) SELECT id, now() - interval '25 hours', 'accepted', 1 FROM apps")
            let lines = LogLines()
            try await running.another(.init(settings: ["HOUSEKEEPING_INTERVAL_SECONDS": "1"], logger: lines.logger)) { _ in
                let work = try await eventually { () -> [String]? in
                    let found = lines.all.filter { $0.hasPrefix("Retention is over") || $0.hasPrefix("Stale installations") }
                    return found.count > 1 ? found : nil
                }
                #expect(work.first?.contains("outcome_counts") == true && work.last?.hasPrefix("Stale installations") == true, "\(work)")
            }
        }
    }

    /// The database notes what it finds when the second app's turn comes. The first app's has made work for a round between them.
    @Test("While stale installations are removed over several rounds, old rows go and missing periods are made")
    func severalRounds() async throws {
        try await RunningService.run(Self.still) { running in
            for (number, slug) in [(1, "shop"), (2, "blog")] {
                let app = try await running.client.makeApp(slug)
                try await app.register(installation(number), user: "ada", token: token(number), app: slug)
            }
            try await Self.age(running, days: 31)
            let periods: PostgresQuery = "SELECT count(*) FROM partitions WHERE family = 'idempotency_records'"
            let before = try await running.count(periods)
            for statement: PostgresQuery in [
                "CREATE TABLE found (old_rows bigint, periods bigint)",
                """
                CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF NEW.app_id = (SELECT min(id) FROM apps) THEN
                        INSERT INTO outcome_counts (app_id, minute, class, count)
                            VALUES (NEW.app_id, now() - interval '25 hours', 'accepted', 1);
                        EXECUTE (SELECT format('DROP TABLE %I', name) FROM partitions WHERE family = 'idempotency_records'
                            ORDER BY ends_at DESC LIMIT 1);
                    ELSE
                        INSERT INTO found SELECT (SELECT count(*) FROM outcome_counts), (
                            SELECT count(*) FROM partitions WHERE family = 'idempotency_records');
                    END IF;
                    RETURN NEW;
                END $$
                """,
                """
                CREATE TRIGGER look BEFORE UPDATE ON installations FOR EACH ROW
                WHEN (OLD.stale_since IS NULL AND NEW.stale_since IS NOT NULL) EXECUTE FUNCTION look()
                """,
                "UPDATE apps SET stale_after_days = 30, removes_stale = true",
            ] { try await running.execute(statement) }
            let options = RunningService.Options(
                settings: ["HOUSEKEEPING_INTERVAL_SECONDS": "1"], housekeeping: { $0.staleSteps = 1 })
            try await running.another(options) { _ in
                _ = try await eventually {
                    try await running.count("SELECT count(*) FROM installations WHERE signed_out_reason = 'stale'") == 2 ? true : nil
                }
            }
            #expect(try await running.number("old_rows", "SELECT old_rows FROM found") == 0)
            #expect(try await running.number("periods", "SELECT periods FROM found") == before)
        }
    }

    @Test("The housekeeping does not remove an installation that has registered since it was flagged") func registeredSince() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await running.execute("UPDATE apps SET stale_after_days = 30, removes_stale = true")
            for number in 1...2 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            try await Self.age(running, days: 31)
            let removable = try await Self.flag(running).removable
            #expect(removable == [installation(1), installation(2)])
            try await shop.register(installation(2), user: "ada", token: token(2))
            #expect(try await Self.remove(removable, running).installations.count == 1)
            #expect(try await shop.record(installation(2)).tokenStates == ["\(hint(2)) active"])
            #expect(try await running.number("owner_epoch", "SELECT owner_epoch FROM installations WHERE owner IS NOT NULL") == 1)
        }
    }

    @Test(
        "A removal goes by the app's settings of its own moment, not by those with which the round began",
        arguments: [
            "UPDATE apps SET removes_stale = false", "UPDATE apps SET stale_after_days = 365", "UPDATE apps SET stale_after_days = NULL",
        ] as [PostgresQuery])
    func changedRule(change: PostgresQuery) async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await running.execute("UPDATE apps SET stale_after_days = 30, removes_stale = true")
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await Self.age(running, days: 31)
            let app = try await Self.app(running)
            let removable = try await Self.flag(running).removable
            #expect(removable == [installation(1)])
            // The change is under way: the removal waits for it.
            try await running.holding(change) {
                _ = await #expect(throws: PostgresError.self) {
                    try await running.pool.transaction { session in
                        try session.execute("SET LOCAL lock_timeout = '100ms'")
                        _ = try StaleInstallations(session: session, app: app).remove(removable)
                    }
                }
            }
            let removed = try await running.pool.transaction { session in
                try StaleInstallations(session: session, app: app).remove(removable)
            }
            #expect(removed.installations.isEmpty && removed.fences.isEmpty)
            #expect(try await shop.record(installation(1)).tokenStates == ["\(hint(1)) active"])
            let page = try await running.pool.transaction { session in
                try StaleInstallations(session: session, app: app).flag(after: PushID(high: 0, low: 0))
            }
            #expect(page.removable.isEmpty)
        }
    }

    @Test("A removal that an operator stops ends with the batch that is under way") func stoppedRemoval() async throws {
        try await RunningService.run(.init(settings: ["HOUSEKEEPING_INTERVAL_SECONDS": "1"])) { running in
            _ = try await running.client.makeApp()
            try await running.fill(250, app: try await Self.app(running), owner: "ada")
            try await Self.age(running, days: 31)
            for statement: PostgresQuery in [
                // The operator's change comes with the first batch.
                """
                CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    UPDATE apps SET removes_stale = false
                    WHERE removes_stale AND EXISTS (SELECT FROM changed WHERE deregistered_at IS NOT NULL);
                    RETURN NULL;
                END $$
                """,
                """
                CREATE TRIGGER stop AFTER UPDATE ON installations REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION
                    stop()
                """, "UPDATE apps SET stale_after_days = 30, removes_stale = true",
            ] { try await running.execute(statement) }
            let removed: PostgresQuery = "SELECT count(*) FROM installations WHERE signed_out_reason = 'stale'"
            _ = try await eventually { try await running.count(removed) > 0 ? true : nil }
            let rounds = "housekeeping_rounds_total{result=\"finished\"}"
            let finished = running.counter(rounds)
            _ = try await eventually { running.counter(rounds) > finished ? true : nil }
            #expect(try await running.count(removed) == Int64(StaleInstallations.removalBatch))
        }
    }

    @Test("Removals that race with registrations remove no installation that registered") func racingRemovals() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await running.execute("UPDATE apps SET stale_after_days = 30, removes_stale = true")
            for number in 1...40 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            try await Self.age(running, days: 31)
            let removable = try await Self.flag(running).removable
            #expect(removable.count == 40)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 1...20 { group.addTask { try await shop.register(installation(number), user: "ada", token: token(number)) } }
                for batch in [Array(removable[0..<20]), Array(removable[20...])] {
                    group.addTask { _ = try await Self.remove(batch, running) }
                }
                try await group.waitForAll()
            }
            for number in 1...20 { #expect(try await shop.record(installation(number)).tokenStates == ["\(hint(number)) active"]) }
            #expect(try await running.count("SELECT count(*) FROM installations WHERE signed_out_reason = 'stale'") == 20)
        }
    }

    @Test("Only one process does the housekeeping at a time") func oneProcess() async throws {
        try await RunningService.run(.init(without: { $0 is Housekeeper || $0 is EventFeed })) { running in
            _ = try await running.client.makeApp()
            // Held by one that lives: its lease is in the future, but not so far that PostgreSQL's clock must have been set back.
            try await running.execute(
                "UPDATE leases SET holder = gen_random_uuid(), free_from = now() + interval '110 seconds' WHERE name = 'housekeeping'")
            try await running.fill(user: "ada", count: 5)
            try await running.execute("UPDATE installation_history SET at = now() - interval '130 days'")
            try await running.another(.init(settings: ["HOUSEKEEPING_INTERVAL_SECONDS": "1"], without: { $0 is EventFeed })) { _ in
                _ = try await eventually {
                    try await running.count(
                        """
                        SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                            AND query LIKE 'UPDATE leases SET holder = $%'
                        """) > 0 ? true : nil
                }
                #expect(try await running.count("SELECT count(*) FROM installation_history") == 10)
                // It died; the lease runs out.
                try await running.execute("UPDATE leases SET free_from = now() WHERE name = 'housekeeping'")
                _ = try await eventually { try await running.count("SELECT count(*) FROM installation_history") == 0 ? true : nil }
            }
        }
    }

    @Test("A step that finds a retired token which is activated meanwhile is not the last step") func activatedToken() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            for number in 1...2 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            try await running.execute(
                "UPDATE tokens SET state = 'retired', retired_at = now() - interval '91 days', retired_reason = 'gone'")
            let activation: PostgresQuery = """
                UPDATE tokens SET state = 'active', retired_at = NULL, retired_reason = NULL WHERE id = (SELECT min(id) FROM tokens)
                """
            let stepping = try await running.holding(activation) {
                let stepping = Task {
                    try await running.pool.transaction { session in try Retention(session: session).removeTokens(olderThan: 90, limit: 1) }
                }
                try await running.waits("WITH locked")
                return stepping
            }
            let step = try await stepping.value
            #expect(step.removed == 0 && !step.isDone)
        }
    }

    @Test(
        "The housekeeping removes only retired tokens past their retention",
        arguments: [
            ("retired long ago", "", true),
            ("retired lately", "UPDATE tokens SET retired_at = now() - interval '89 days'", false),
            ("active", "UPDATE tokens SET state = 'active', retired_at = NULL, retired_reason = NULL", false),
            ("quarantined lately", "UPDATE tokens SET quarantined_at = now() - interval '1 day'", false),
            ("quarantined long ago", "UPDATE tokens SET quarantined_at = now() - interval '91 days'", false),
            ("with a late receipt", "UPDATE receipts SET class = 'accepted', updated_at = now()", false),
            ("with a pending delivery", "UPDATE receipts SET class = NULL", false),
        ] as [(String, PostgresQuery, Bool)])
    func retiredTokens(_ name: String, change: PostgresQuery, goes: Bool) async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            _ = try await shop.send(#"{"user":"ada"}"#)
            try await running.execute(
                """
                INSERT INTO receipts (notification, number, position, token_id, installation, owner_epoch, environment, class, updated_at)
                SELECT notification, number, position, token_id, installation, owner_epoch, environment, 'token_gone',
                    now() - interval '91 days' FROM deliveries
                """)
            try await running.execute(
                "UPDATE tokens SET state = 'retired', retired_at = now() - interval '91 days', retired_reason = 'gone'")
            if name != "retired long ago" { try await running.execute(change) }
            let step = try await running.pool.transaction { try Retention(session: $0).removeTokens(olderThan: 90) }
            #expect(step.removed == (goes ? 1 : 0) && step.isDone, "\(name)")
            #expect(try await running.count("SELECT count(*) FROM tokens") == (goes ? 0 : 1))
        }
    }
}
