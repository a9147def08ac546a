import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenService

@Suite("The steps of a relay's round", .serialized, .timeLimit(.minutes(5)))
struct RelayStepTests {
    @Test("A step that fails in each round keeps no other from its work") func independent() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let stopped = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))
            for statement in [
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    RAISE EXCEPTION 'a statement takes too long' USING ERRCODE = '57014';
                END $$
                """, "CREATE TRIGGER refuse BEFORE UPDATE ON cancellations FOR EACH STATEMENT EXECUTE FUNCTION refuse()",
            ] {
                try await running.pool.session { session in try session.simple(statement) }
            }
            _ = try await shop.delete("/v1/apps/shop/notifications/\(stopped)")
            // A fan-out is the relay's work.
            let job = try await running.sendAndTake(#"{"users":["ada"]}"#, with: shop)
            #expect(job.deliveries.count == 1)
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
