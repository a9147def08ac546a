import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenService

@Suite("Held work stays in the database, and goes when the hold is over", .serialized, .timeLimit(.minutes(5)))
struct HeldWorkTests {
    /// Jobs and fan-outs that a hold keeps.
    private static func held(by hold: String) -> PostgresQuery {
        """
        SELECT (SELECT count(*) FROM jobs WHERE held_by = \(hold)::text::uuid AND published_at IS NULL)
            + (SELECT count(*) FROM fan_outs WHERE held_by = \(hold)::text::uuid AND free_from IS NOT NULL) AS count
        """
    }

    @Test("Jobs and fan-outs wait until an operator lifts the hold") func untilLifted() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await running.operate()
            let other = try await running.client.makeApp("other")
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await other.register(installation(2), user: "ada", token: token(2), app: "other")
            let hold = try await chief.setHold(#"{"all":true,"reason":"r"}"#)
            try await running.jobs { jobs in
                let resolved = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))
                let fannedOut = try #require(try await shop.send(#"{"users":["ada"]}"#, more: #","lane":"soon""#).json.text("id"))
                _ = try await eventually {
                    try await running.count(Self.held(by: hold)) == 2 ? true : nil
                }
                // Another app's notification does not wait behind it.
                let free = try #require(try await other.send(#"{"user":"ada"}"#, app: "other").json.text("id"))
                #expect(try PushJob(decoding: try await jobs.next().body).notification.description == free)
                let made = try await running.count("SELECT count(*) FROM jobs WHERE notification = \(fannedOut)::text::uuid")
                #expect(made == 0, "a held fan-out makes no jobs")
                #expect(try await shop.status(resolved).text("state") == "sending")
                #expect(try await shop.status(fannedOut).text("state") == "accepted")
                try await chief.liftHold(hold)
                #expect(try PushJob(decoding: try await jobs.next().body).notification.description == resolved)
                let job = try await running.jobs(.soon) { soon in try PushJob(decoding: try await soon.next().body) }
                #expect(job.notification.description == fannedOut)
                _ = try await eventually {
                    try await running.count("SELECT count(*) FROM holds WHERE released_at IS NOT NULL") == 1 ? true : nil
                }
            }
        }
    }

    @Test("A fan-out waits, too, if another process sets the hold while a relay takes the fan-out over") func setElsewhere() async throws {
        // A round begins when the notification is accepted: none reads the hold later.
        try await RunningService.run(.init(settings: ["RELAY_INTERVAL_MS": "60000"])) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            for statement in [
                """
                CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    PERFORM pg_advisory_xact_lock_shared(4711);
                    RETURN NEW;
                END $$
                """, "CREATE TRIGGER pause BEFORE UPDATE ON fan_outs FOR EACH ROW EXECUTE FUNCTION pause()",
            ] {
                try await running.pool.session { session in try session.simple(statement) }
            }
            let hold = PushID.random()
            let claiming: PostgresQuery =
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'"
            try await running.holding("SELECT pg_advisory_xact_lock(4711)") {
                #expect(try await shop.send(#"{"users":["ada"]}"#).status == 202)
                _ = try await eventually { try await running.count(claiming) == 1 ? true : nil }
                try await running.execute(
                    """
                    INSERT INTO holds (id, app_id, reason, set_at, set_by, published_at)
                    SELECT \(hold)::uuid, id, 'r', now(), 'k', now() FROM apps
                    """)
            }
            let isHeld = try await eventually { () -> Bool? in
                if try await running.count(Self.held(by: hold.description)) == 1 { return true }
                return try await running.count("SELECT count(*) FROM jobs") == 0 ? nil : false
            }
            #expect(isHeld)
        }
    }

    @Test("Held work does not count as a backlog that keeps other apps out") func noBacklog() async throws {
        // Nothing is put aside or measured meanwhile.
        try await RunningService.run(.init(settings: ["BACKLOG_LIMIT": "5", "RELAY_INTERVAL_MS": "60000"])) { running in
            let (shop, chief) = try await running.operate()
            let other = try await running.client.makeApp("other")
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await other.register(installation(2), user: "ada", token: token(2), app: "other")
            _ = try await chief.setHold(#"{"all":true,"reason":"r"}"#)
            for _ in 1...10 { #expect(try await shop.send(#"{"user":"ada"}"#).status == 202) }
            #expect(try await other.send(#"{"user":"ada"}"#, app: "other").status == 202)
        }
    }

    @Test("Jobs that become due under a hold wait, and go when the hold ends by itself") func ownEnd() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await running.operate()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let id = try await Self.waitingJob(running, shop)
            _ = try await chief.setHold(#"{"notification":"\#(id)","reason":"r","ttl_seconds":3600}"#)
            try await running.execute("UPDATE jobs SET due_at = now(), free_from = now()")
            _ = try await eventually { try await running.count("SELECT count(*) FROM jobs WHERE held_by IS NOT NULL") == 1 ? true : nil }
            #expect(
                try await running.count("SELECT count(*) FROM jobs j JOIN holds h ON h.id = j.held_by AND h.ends_at = j.free_from") == 1
            )
            try await running.jobs(.soon) { jobs in
                // Its hour is over.
                try await running.execute("UPDATE holds SET ends_at = now()")
                try await running.execute("UPDATE jobs SET free_from = now()")
                #expect(try PushJob(decoding: try await jobs.next().body).notification.description == id)
            }
        }
    }

    /// A notification whose fan-out has made one job, which is due later: its user has quiet hours.
    private static func waitingJob(_ running: RunningService, _ shop: APITestClient) async throws -> String {
        try await running.execute(
            """
            INSERT INTO quiet_hours (app_id, owner, begins_at, ends_at, updated_at)
            SELECT id, 'ada', (now() AT TIME ZONE 'UTC' - interval '1 hour')::time, (now() AT TIME ZONE 'UTC' + interval '1 hour')::time,
                now() FROM apps
            """)
        let id = try #require(try await shop.send(#"{"users":["ada"]}"#).json.text("id"))
        _ = try await eventually { try await running.count("SELECT count(*) FROM jobs WHERE due_at > now()") == 1 ? true : nil }
        return id
    }

    @Test("A held notification can still be cancelled and still expires") func whatIsHeldIsStillCancelledAndStillExpires() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await running.operate()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let dueLater = try await Self.waitingJob(running, shop)
            _ = try await chief.setHold(#"{"all":true,"reason":"r"}"#)
            try await running.execute("UPDATE jobs SET due_at = now(), free_from = now()")
            try await running.execute("DELETE FROM quiet_hours")
            var ids: [String] = []
            for _ in 1...2 { ids.append(try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))) }
            func held() async throws -> Int64 {
                try await running.count("SELECT count(*) FROM jobs WHERE held_by IS NOT NULL AND published_at IS NULL")
            }
            _ = try await eventually { try await held() == 3 ? true : nil }
            func ended(_ id: String, as outcome: String) async throws {
                let status = try await eventually {
                    let status = try await shop.status(id)
                    return status.text("completed_at") == nil ? nil : status
                }
                #expect(status["counts"]?.number(outcome) == 1, "\(status)")
            }
            for id in [dueLater, ids[0]] {
                #expect(try await shop.delete("/v1/apps/shop/notifications/\(id)").json.number("stoppable") == 1)
                try await ended(id, as: "cancelled")
            }
            let untilItsExpiry: PostgresQuery = """
                SELECT count(*) FROM jobs j JOIN notifications n ON n.id = j.notification
                WHERE n.id = \(ids[1])::text::uuid AND j.held_by IS NOT NULL AND j.free_from = n.expires_at
                """
            #expect(try await running.count(untilItsExpiry) == 1)
            try await running.execute("UPDATE notifications SET expires_at = now() WHERE id = \(ids[1])::text::uuid")
            try await running.execute("UPDATE jobs SET free_from = now() WHERE notification = \(ids[1])::text::uuid")
            try await ended(ids[1], as: "expired")
        }
    }

    @Test("A notification that is held before its fan-out expires as well") func whatIsHeldBeforeItsFanOutExpiresAsWell() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await running.operate()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let hold = try await chief.setHold(#"{"lane":"soon","reason":"r"}"#)
            let id = try #require(try await shop.send(#"{"users":["ada"]}"#).json.text("id"))
            _ = try await eventually { try await running.count(Self.held(by: hold)) == 1 ? true : nil }
            try await running.execute("UPDATE notifications SET expires_at = now()")
            try await running.execute("UPDATE fan_outs SET free_from = now()")
            let status = try await eventually {
                let status = try await shop.status(id)
                return status.text("completed_at") == nil ? nil : status
            }
            #expect(status.text("state") == "expired" && status["counts"]?.number("total") == 0, "\(status)")
        }
    }

    @Test("The service gives many held jobs back in batches, and another hold can hold them again") func heldAgain() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await running.operate()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let first = try await chief.setHold(#"{"lane":"now","reason":"first"}"#)
            let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))
            func held(by hold: String) async throws -> Int64 {
                try await running.count(Self.held(by: hold))
            }
            _ = try await eventually { try await held(by: first) == 1 ? true : nil }
            // More than one batch. They have expired and have their outcomes: each is over as soon as it is given back.
            try await running.execute(
                """
                WITH expired AS (
                    INSERT INTO notifications SELECT (jsonb_populate_record(n, jsonb_build_object('id', gen_random_uuid(),
                        'expires_at', now(), 'total', 0, 'pending', 0))).*
                    FROM notifications n WHERE n.id = \(id)::text::uuid RETURNING id
                )
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, ended, free_from, held_by)
                SELECT expired.id, made.number, j.app_id, j.lane, '', j.due_at, j.members, ~B'0'::bit(100), j.free_from,
                    \(first)::text::uuid
                FROM expired, jobs j, generate_series(0, 2499) AS made (number) WHERE j.notification = \(id)::text::uuid
                """)
            let second = try await chief.setHold(#"{"all":true,"reason":"second"}"#)
            try await chief.liftHold(first)
            _ = try await eventually { try await held(by: first) == 0 ? true : nil }
            _ = try await eventually { try await held(by: second) == 1 ? true : nil }
            _ = try await eventually { try await running.count(RunningService.unpublishedJobs) == 1 ? true : nil }
            try await running.jobs { jobs in
                try await chief.liftHold(second)
                #expect(try PushJob(decoding: try await jobs.next().body).notification.description == id)
            }
        }
    }
}
