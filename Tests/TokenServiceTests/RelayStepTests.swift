import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenServiceSending

@Suite("The steps of a relay's round", .serialized, .timeLimit(.minutes(5)))
struct RelayStepTests {
    @Test("A step that fails in each round keeps no other from its work") func independent() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let stopped = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))
            // Only of a notification that may be at the broker does the control stream hear.
            try await running.sending(try #require(PushID(stopped)), shop)
            for statement in [
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    RAISE EXCEPTION 'a statement takes too long' USING ERRCODE = '57014';
                END $$
                """, "CREATE TRIGGER refuse BEFORE UPDATE ON cancellations FOR EACH ROW EXECUTE FUNCTION refuse()",
            ] {
                try await running.pool.session { session in try session.simple(statement) }
            }
            _ = try await shop.delete("/v1/apps/shop/notifications/\(stopped)")
            // A fan-out is the relay's work.
            let job = try await running.sendAndTake(#"{"users":["ada"]}"#, with: shop)
            #expect(job.deliveries.count == 1)
            _ = try await eventually { running.counter(#"relay_steps_failed_total{step="cancellations"}"#) > 0 ? true : nil }
            #expect(running.counter(#"relay_steps_failed_total{step="jobs"}"#) == 0)
        }
    }

    @Test("Many fences that are left over keep no job waiting") func manyFences() async throws {
        // This process commits and dies: nothing in it ever publishes.
        try await RunningService.run(.init(settings: ["FENCE_TIMEOUT_MS": "100"], without: { $0 is Publisher || $0 is Relay })) { dying in
            let shop = try await dying.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            _ = try await shop.send(#"{"user":"ada"}"#)
            try await dying.execute("UPDATE jobs SET free_from = now()")
            try await dying.execute(
                """
                INSERT INTO fences (app_id, installation, epochs_below, created_at, free_from)
                SELECT app_id, id, 1, now(), now() FROM installations CROSS JOIN generate_series(1, 2000)
                """)
            // No job can be taken over once all fences are published.
            for statement in [
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF EXISTS (SELECT FROM changed WHERE published_at IS NULL) AND NOT EXISTS (SELECT FROM open_fences) THEN
                        RAISE EXCEPTION 'the job waited for all fences';
                    END IF;
                    RETURN NULL;
                END $$
                """,
                """
                CREATE TRIGGER refuse AFTER UPDATE ON jobs REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION refuse()
                """,
            ] {
                try await dying.pool.session { session in try session.simple(statement) }
            }
            try await dying.another { _ in
                _ = try await eventually {
                    try await dying.count("SELECT count(*) FROM jobs WHERE published_at IS NOT NULL") == 1 ? true : nil
                }
                _ = try await eventually { try await dying.count("SELECT count(*) FROM open_fences") == 0 ? true : nil }
            }
        }
    }

    @Test("A search for one kind of work that takes too long leaves the other kind's search and marks alone") func searches() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            try await running.holding("LOCK TABLE fan_outs IN ACCESS EXCLUSIVE MODE") {
                _ = try await eventually { running.counter(#"relay_steps_failed_total{step="waiting_fan_outs"}"#) > 0 ? true : nil }
            }
            #expect(running.counter(#"relay_steps_failed_total{step="waiting_jobs"}"#) == 0)
        }
    }

    @Test(
        "A job that cannot be read keeps no other waiting, of its app or of another one, and is tried again",
        arguments: [
            "UPDATE jobs SET due_at = 'infinity' WHERE notification = $1", "UPDATE notifications SET push_type = 'wondered' WHERE id = $1",
        ])
    func unreadable(damage: String) async throws {
        // This process commits and dies: nothing in it ever publishes.
        try await RunningService.run(.init(settings: ["FENCE_TIMEOUT_MS": "100"], without: { $0 is Publisher || $0 is Relay })) { dying in
            let shop = try await dying.client.makeApp()
            let other = try await dying.client.makeApp("other")
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await other.register(installation(2), user: "ada", token: token(2), app: "other")
            var ids: [PushID] = []
            for _ in 1...4 { ids.append(try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id").flatMap { PushID($0) })) }
            ids.append(try #require(try await other.send(#"{"user":"ada"}"#, app: "other").json.text("id").flatMap { PushID($0) }))
            try await dying.pool.session { [ids] session in
                try session.simple(damage.replacing("$1", with: "'\(ids[1])'"))
            }
            try await dying.another { [ids] living in
                let published: PostgresQuery = "SELECT count(*) FROM jobs WHERE published_at IS NOT NULL"
                _ = try await eventually { try await dying.count(published) == 4 ? true : nil }
                try await living.counted("jobs_unreadable_total", 1)
                // Longer than a lease, and not lost.
                let putOff: PostgresQuery = """
                    SELECT count(*) FROM jobs
                    WHERE notification = \(ids[1]) AND published_at IS NULL AND free_from > now() + interval '45 seconds'
                    """
                _ = try await eventually { try await dying.count(putOff) == 1 ? true : nil }
                // It is mended.
                try await dying.execute("UPDATE jobs SET due_at = now(), free_from = now() WHERE notification = \(ids[1])")
                try await dying.execute("UPDATE notifications SET push_type = 'alert' WHERE id = \(ids[1])")
                _ = try await eventually { try await dying.count(published) == 5 ? true : nil }
            }
        }
    }

    @Test("The log names a notification whose job alone takes too long to be read") func slowAlone() async throws {
        // This process commits and dies: nothing in it ever publishes.
        try await RunningService.run(.init(settings: ["FENCE_TIMEOUT_MS": "100"], without: { $0 is Publisher || $0 is Relay })) { dying in
            let shop = try await dying.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))
            let lines = LogLines()
            try await dying.holding("LOCK TABLE notification_variants IN ACCESS EXCLUSIVE MODE") {
                try await dying.another(.init(logger: lines.logger)) { _ in
                    _ = try await eventually {
                        lines.all.contains { $0.hasPrefix("Jobs of a notification could not be read") && $0.contains(id) } ? true : nil
                    }
                }
            }
        }
    }

    @Test("A job that cannot be read is tried again after as long as it has been due, an hour at most") func lessAndLessOften() async throws
    {
        try await RunningService.run(.init(without: { $0 is Relay || $0 is Publisher })) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id").flatMap { PushID($0) })
            let minutes = try await running.pool.session { session in
                try ["1 second", "20 minutes", "3 days"].map { (age: String) -> Int64 in
                    try session.transaction { session in
                        try session.execute("UPDATE jobs SET due_at = now() - \(age)::text::interval")
                        try JobStore(session: session).putOff([JobID(notification: id, number: 0)])
                        return try session.execute("SELECT (extract(epoch FROM free_from - now()) / 60)::bigint AS minutes FROM jobs")
                            .only()[
                                "minutes"]
                    }
                }
            }
            #expect(minutes == [1, 20, 60])
        }
    }

    @Test("If taking over many jobs takes too long, the relay takes over fewer") func smaller() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let sent = try await shop.send(#"{"user":"ada"}"#)
            let id = try #require(sent.json.text("id").flatMap { PushID($0) })
            // More than forty jobs at once are too many. A lease is half a minute long; a job that is done has none.
            for statement in [
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF (SELECT count(*) FROM changed WHERE published_at IS NULL AND free_from > now() + interval '5 seconds') > 40 THEN
                        RAISE EXCEPTION 'the statement takes too long' USING ERRCODE = '57014';
                    END IF;
                    RETURN NULL;
                END $$
                """,
                """
                CREATE TRIGGER refuse AFTER UPDATE ON jobs REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION refuse()
                """,
            ] {
                try await running.pool.session { session in try session.simple(statement) }
            }
            try await running.execute(
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from)
                SELECT notification, n, app_id, lane, locale, now(), members, now()
                FROM jobs, generate_series(1, 150) AS n WHERE notification = \(id) AND number = 0
                """)
            _ = try await eventually {
                try await running.count("SELECT count(*) FROM jobs WHERE number > 0 AND published_at IS NOT NULL") == 150 ? true : nil
            }
        }
    }
}
