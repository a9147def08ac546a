import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenService
import TokenServiceKit
import TokenServiceSending

@Suite("Stopping notifications (`docs/promises.md`, 6)", .serialized, .timeLimit(.minutes(5)))
struct CancellationTests {
    /// Every cancellation on the control stream at this moment.
    private func cancelled(_ running: RunningService) async throws -> Set<PushID> {
        let marker = PushID.random()
        let message = OutgoingMessage(
            exchange: "", routingKey: running.topology.controlStream, messageID: .random(), contentType: ControlMessage.contentType,
            body: ControlMessage.marker(id: marker).encoded())
        #expect(await running.service.publisher.publish([message], deadline: .seconds(30)) == [.confirmed])
        return try await running.tap(.stream(running.topology.controlStream, prefetch: 100)) { signal in
            var cancelled: Set<PushID> = []
            while true {
                switch try ControlMessage(decoding: try await signal.next().body) {
                case .marker(let id) where id == marker: return cancelled
                case .cancel(_, let notification, _): cancelled.insert(notification)
                default: continue
                }
            }
        }
    }

    /// Those that the control stream got, or is to get. The others say so from the beginning.
    private static let published: PostgresQuery = "SELECT count(*) FROM cancellations WHERE published_at IS DISTINCT FROM at"

    @Test("The control stream gets no notification that was stopped before it had a job") func neverPublished() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let later = RFC3339.text(milliseconds: UnixClock.now() + 3_600_000)
            let more = #","not_before":"\#(later)","supersede_key":"reminder""#
            var newest = ""
            for _ in 1...20 { newest = try #require(try await shop.send(#"{"user":"ada"}"#, more: more).json.text("id")) }
            let answer = try await shop.delete("/v1/apps/shop/notifications/\(newest)")
            #expect(answer.json.text("state") == "cancelled" && answer.json.text("fence") == "effective")
            #expect(try await running.count("SELECT count(*) FROM cancellations") == 20)
            #expect(try await running.count(Self.published) == 0)
            #expect(try await cancelled(running).isEmpty)
        }
    }

    @Test("A cancellation does not wait for a process that takes the job at this moment, and the control stream gets it")
    func takenMeanwhile() async throws {
        try await RunningService.run(.init(settings: ["RELAY_INTERVAL_MS": "60000"])) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let id = try await Self.sendInQuietHours(shop, running)
            let answer = try await running.pool.transaction { session in
                try session.execute("UPDATE jobs SET due_at = now(), free_from = now()")
                let jobs = try Lane.allCases.flatMap { try JobStore(session: session).claimFree(10, of: $0, leaseSeconds: 30) }
                #expect(jobs.count == 1)
                let answer = Task { try await shop.delete("/v1/apps/shop/notifications/\(id)") }
                let end = ContinuousClock.now + .seconds(60)
                while try session.execute("SELECT FROM cancellations").isEmpty, ContinuousClock.now < end {}
                return answer
            }
            #expect(try await answer.value.json.text("fence") == "effective")
            #expect(try await running.count(Self.published) == 1)
            #expect(try await cancelled(running).map(\.description) == [id])
        }
    }

    @Test("A page that is committed while the cancellation waits for it is stopped by the control stream") func committedMeanwhile()
        async throws
    {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await running.fill(3, app: try await running.app())
            let id = try #require(try await shop.send(#"{"all":true}"#).json.text("id").flatMap { PushID($0) })
            let answer = try await running.pool.transaction { session in
                try session.execute(
                    "UPDATE notifications SET jobs = 1, total = 3, pending = 3, state = 'expanding' WHERE id = \(id)")
                try session.execute(
                    """
                    INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from)
                    SELECT f.notification, 0, f.app_id, f.lane, '', now(), (SELECT string_agg(int8send(id), ''::bytea) FROM tokens),
                        now() + interval '1 minute'
                    FROM fan_outs f WHERE f.notification = \(id)
                    """)
                let answer = Task { try await shop.delete("/v1/apps/shop/notifications/\(id)") }
                // The cancellation waits for this transaction.
                while try session.execute("SELECT FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'").isEmpty {}
                return answer
            }
            #expect(try await answer.value.json.text("fence") == "effective")
            #expect(try await running.count(Self.published) == 1)
            #expect(try await cancelled(running) == [id])
        }
    }

    @Test("A cancellation reads none of a campaign's jobs to know that the control stream needs it") func campaign() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            let app = try await running.app()
            let id = try #require(try await shop.send(#"{"all":true}"#).json.text("id").flatMap { PushID($0) })
            try await running.execute(
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from, published_at)
                SELECT n.id, number, n.app_id, n.lane, '', now(), int8send(-1 - number), now(), now()
                FROM notifications n, generate_series(0, 19999) AS number WHERE n.id = \(id)
                """)
            try await running.execute(
                "UPDATE notifications SET state = 'sending', jobs = 20000, total = 20000, pending = 20000 WHERE id = \(id)")
            let (stopped, visited) = try await running.pool.transaction { session in
                let before = try session.pagesVisitedHere(of: "jobs")
                let stopped = try CancellationStore(session: session, app: app).cancel(id)
                return (stopped, try session.pagesVisitedHere(of: "jobs") - before)
            }
            #expect(stopped.state == .cancelled && !stopped.isPublished)
            #expect(visited <= 50, "\(visited) pages visited")
        }
    }

    @Test("The control stream stops a delivery that waits in the broker") func waitingInBroker() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            let path = "/v1/apps/shop/notifications/\(job.notification)"
            for _ in 1...2 {
                let answer = try await shop.delete(path)
                #expect(answer.status == 200)
                #expect(answer.json.text("state") == "cancelled")
                #expect(answer.json.number("stoppable") == 1)
                #expect(answer.json.text("fence") == "effective")
            }
            #expect(try await cancelled(running) == [job.notification])
            #expect(try await running.count(Self.published) == 1)
            try await running.report(.cancelled, of: job)
            let status = try await eventually {
                let status = try await shop.status(job.notification.description)
                return status.text("completed_at") == nil ? nil : status
            }
            #expect(status.text("state") == "cancelled")
            #expect(status["counts"]?.number("cancelled") == 1)
        }
    }

    @Test("A cancellation leaves a completed notification alone") func completedNotification() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            try await running.report(.accepted, of: job, status: 200)
            _ = try await running.completed(job.notification, shop)
            let answer = try await shop.delete("/v1/apps/shop/notifications/\(job.notification)")
            #expect(answer.json.text("state") == "completed")
            #expect(answer.json.number("stoppable") == 0)
            #expect(answer.json.text("fence") == "none")
            #expect(try await cancelled(running).isEmpty)
            #expect(try await shop.delete("/v1/apps/shop/notifications/\(PushID.random())").status == 404)
        }
    }

    @Test("A cancellation leaves a notification alone that ended after its fan-out") func endedFanOut() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let id = try #require(try await shop.send(#"{"users":["nobody"]}"#).json.text("id"))
            _ = try await eventually { try await shop.status(id).text("state") == "no_targets" ? true : nil }
            let answer = try await shop.delete("/v1/apps/shop/notifications/\(id)")
            #expect(answer.status == 200)
            #expect(answer.json.text("state") == "no_targets")
            #expect(answer.json.number("stoppable") == 0)
            #expect(answer.json["not_expanded"] == nil)
            #expect(answer.json.text("fence") == "none")
        }
    }

    @Test("A fan-out that has read a page commits none of it once the notification is stopped, and nothing of it waits")
    func stoppedBeforeCommit() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await running.fill(3, app: try await running.app())
            let id = try #require(try await shop.send(#"{"all":true}"#).json.text("id").flatMap { PushID($0) })
            let audience = try await running.pool.session { session in
                try #require(try FanOutStore(session: session).fanOut(of: id))
            }
            let page = try await running.pool.session { session in
                try FanOutStore(session: session).page(of: audience, names: DeliveryNames(id), now: UnixClock.now())
            }
            #expect(page.count == 3)
            #expect(try await shop.delete("/v1/apps/shop/notifications/\(id)").json["not_expanded"]?.boolValue == true)
            await #expect(throws: FanOutTakenOver.self) {
                try await running.pool.transaction { session in
                    try FanOutStore(session: session).commit(page, of: audience, leaseSeconds: 60, now: UnixClock.now())
                }
            }
            #expect(try await shop.status(id.description).text("state") == "cancelled")
            let (waiting, claimed) = try await running.pool.session { session in
                let store = WaitingWorkStore(session: session)
                return (try store.backlogOfAll(limit: 10, leaseSeconds: 60), try store.waitingFanOuts(leaseSeconds: 60).found)
            }
            #expect(waiting.isEmpty && claimed.isEmpty)
        }
    }

    @Test("A scheduled notification that is cancelled never begins") func scheduledNotification() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let later = RFC3339.text(milliseconds: UnixClock.now() + 3_600_000)
            let id = try #require(try await shop.send(#"{"user":"ada"}"#, more: #","not_before":"\#(later)""#).json.text("id"))
            let answer = try await shop.delete("/v1/apps/shop/notifications/\(id)")
            #expect(answer.json.text("state") == "cancelled")
            #expect(answer.json["not_expanded"]?.boolValue == true)
            try await running.execute("UPDATE fan_outs SET free_from = now(), due_at = now()")
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            #expect(job.notification.description != id)
            #expect(try await running.count("SELECT count(*) FROM jobs WHERE notification = \(id)::text::uuid") == 0)
        }
    }

    @Test("Jobs that are due later get their outcome at once") func laterJobs() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let id = try await Self.sendInQuietHours(shop, running)
            #expect(try await shop.delete("/v1/apps/shop/notifications/\(id)").json.number("stoppable") == 1)
            // No process has taken the job.
            #expect(try await running.count(Self.published) == 0)
            let status = try await eventually {
                let status = try await shop.status(id)
                return status.text("completed_at") == nil ? nil : status
            }
            #expect(status["counts"]?.number("cancelled") == 1)
            // Who may disturb does not wait.
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop, more: #","urgent":true"#)
            #expect(job.deliveries.count == 1)
        }
    }

    /// To `ada`, whose quiet hours end in an hour. Returns when the job is there that waits for their end.
    private static func sendInQuietHours(_ shop: APITestClient, _ running: RunningService) async throws -> String {
        try await running.execute(
            """
            INSERT INTO quiet_hours (app_id, owner, begins_at, ends_at, updated_at)
            SELECT id, 'ada', (now() AT TIME ZONE 'UTC' - interval '1 hour')::time, (now() AT TIME ZONE 'UTC' + interval '1 hour')::time,
                now() FROM apps
            """)
        let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))
        _ = try await eventually {
            try await running.count("SELECT count(*) FROM jobs WHERE due_at > now() AND published_at IS NULL") == 1 ? true : nil
        }
        return id
    }

    @Test("Jobs of a cancelled campaign become due in pieces, whatever their number") func manyLaterJobs() async throws {
        try await RunningService.run(.init(settings: ["RELAY_INTERVAL_MS": "60000"])) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            for _ in 1...2 {
                let sent = try await shop.send(#"{"user":"ada"}"#)
                let id = try #require(sent.json.text("id").flatMap { PushID($0) })
                try await running.execute(
                    """
                    INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from)
                    SELECT notification, n, app_id, lane, locale, now() + interval '1 hour', members, now() + interval '1 hour'
                    FROM jobs, generate_series(1, 5) AS n WHERE notification = \(id) AND number = 0
                    """)
                try await running.execute("UPDATE notifications SET state = 'cancelled' WHERE id = \(id)")
                try await running.execute("INSERT INTO cancellations (notification, at, reason) VALUES (\(id), now(), 'cancelled')")
            }
            func step() async throws -> Bool {
                try await running.pool.transaction { try CancellationOutbox(session: $0).hastenAll(limit: 4) }
            }
            #expect(try await step())
            #expect(try await running.count("SELECT count(*) FROM jobs WHERE number > 0 AND free_from <= now()") == 6)
            #expect(try await !step())
            #expect(try await running.count("SELECT count(*) FROM jobs WHERE number > 0 AND free_from <= now()") == 10)
            #expect(try await running.count("SELECT count(*) FROM cancellations WHERE hastened_at IS NULL") == 0)
        }
    }

    /// The relay's, which does not run.
    static func hastening(_ running: RunningService) -> Cancellation {
        let publisher = running.service.publisher
        let control = ControlPublisher(stream: publisher, copies: publisher, topology: running.topology, patience: .seconds(60))
        return Cancellation(pool: running.pool, control: control, relay: WorkSignal(), marks: OutboxMarks())
    }

    /// Cancelled notifications of two jobs each, which are due in an hour.
    static func insertCancelled(_ count: Int, locale: String = "", _ running: RunningService) async throws {
        try await running.execute(
            """
            WITH made AS (
                INSERT INTO cancellations (notification, at, reason) SELECT new_id(), now() - interval '10 minutes', 'cancelled'
                FROM generate_series(1, \(count))
                RETURNING notification
            )
            INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from)
            SELECT m.notification, number, a.id, 'now', \(locale), now() + interval '1 hour', int8send(1), now() + interval '1 hour'
            FROM made m, generate_series(0, 1) AS number, apps a
            """)
    }

    @Test("A locked job keeps no other cancelled notification's jobs from becoming due") func lockedLaterJobs() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            _ = try await running.client.makeApp()
            let hastening = Self.hastening(running)
            let due: PostgresQuery = "SELECT count(*) FROM jobs WHERE free_from <= now()"
            // A step takes ten notifications.
            try await Self.insertCancelled(12, running)
            try await running.holding("SELECT FROM jobs WHERE number = 1 FOR UPDATE") {
                try await Self.insertCancelled(1, running)
                for _ in 1...2 { try await hastening.hastenJobs() }
                #expect(try await running.count(due) == 12 + 2)
            }
            #expect(try await running.count("SELECT count(*) FROM cancellations WHERE hastened_at IS NULL AND hastened_through = 0") == 12)
            try await running.execute("UPDATE cancellations SET hasten_from = now()")
            for _ in 1...2 { try await hastening.hastenJobs() }
            #expect(try await running.count(due) == 26)
            #expect(try await running.count("SELECT count(*) FROM cancellations WHERE hastened_at IS NULL") == 0)
        }
    }

    @Test("A job that cannot be read keeps no other cancelled notification's jobs from becoming due") func unreadableLaterJobs()
        async throws
    {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            _ = try await running.client.makeApp()
            let hastening = Self.hastening(running)
            for statement: PostgresQuery in [
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    RAISE EXCEPTION 'invalid page in block 7' USING ERRCODE = 'XX001';
                END $$
                """,
                "CREATE TRIGGER refuse BEFORE UPDATE ON jobs FOR EACH ROW WHEN (NEW.locale = 'damaged') EXECUTE FUNCTION refuse()",
            ] { try await running.execute(statement) }
            try await Self.insertCancelled(12, locale: "damaged", running)
            try await Self.insertCancelled(1, running)
            for _ in 1...2 { await #expect(throws: PostgresError.self) { try await hastening.hastenJobs() } }
            #expect(try await running.count("SELECT count(*) FROM jobs WHERE free_from <= now()") == 2)
            #expect(try await running.count("SELECT count(*) FROM cancellations WHERE hastened_at IS NULL AND hasten_from > now()") == 12)
            // They are mended.
            try await running.execute("DROP TRIGGER refuse ON jobs")
            try await running.execute("UPDATE cancellations SET hasten_from = now()")
            for _ in 1...2 { try await hastening.hastenJobs() }
            #expect(try await running.count("SELECT count(*) FROM cancellations WHERE hastened_at IS NULL") == 0)
        }
    }

    @Test("A job that is put aside while its notification is cancelled gets its outcome all the same") func heldMeanwhile() async throws {
        try await RunningService.run(.init(settings: ["RELAY_INTERVAL_MS": "60000"])) { running in
            let (shop, chief) = try await running.operate()
            try await shop.register(installation(1), user: "ada", token: token(1))
            _ = try await chief.setHold(#"{"all":true,"reason":"r"}"#)
            let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))
            async let cancelled = running.pool.transaction { session in
                let jobs = try Lane.allCases.flatMap { try JobStore(session: session).claimFree(10, of: $0, leaseSeconds: 30) }
                let store = HoldOutbox(session: session)
                #expect(try store.putAside(jobs: jobs, under: try store.lockInForce()).count == 1)
                let answer = Task { try await shop.delete("/v1/apps/shop/notifications/\(id)") }
                // The cancellation waits for this transaction.
                while try session.execute("SELECT FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'").isEmpty {}
                return answer
            }
            #expect(try await cancelled.value.json.text("state") == "cancelled")
            let status = try await eventually {
                let status = try await shop.status(id)
                return status.text("completed_at") == nil ? nil : status
            }
            #expect(status["counts"]?.number("cancelled") == 1)
        }
    }

    @Test("A newer notification with the same key stops the older one") func newerNotification() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await shop.register(installation(2), user: "grace", token: token(2))
            func send(_ user: String, _ key: String) async throws -> String {
                let sent = try await shop.send(#"{"user":"\#(user)"}"#, more: #","supersede_key":"\#(key)""#)
                #expect(sent.status == 202, "\(sent.json)")
                return try #require(sent.json.text("id"))
            }
            let minutesAway = try await send("ada", "order-1")
            try await running.sending(try #require(PushID(minutesAway)), shop)
            let others = [try await send("grace", "order-1"), try await send("ada", "order-2")]
            let arrived = try await send("ada", "order-1")
            #expect(try await shop.status(minutesAway).text("state") == "cancelled")
            _ = try await eventually { try await cancelled(running).map(\.description) == [minutesAway] ? true : nil }
            for id in others + [arrived] {
                _ = try await eventually { try await shop.status(id).text("state") == "sending" ? true : nil }
            }
        }
    }

    @Test("A newer one that comes in the middle of a relay's round goes after the message that stops the older")
    func newerMeanwhile() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            func send() async throws -> String {
                let more = #","lane":"bulk","supersede_key":"order-1""#
                return try #require(try await shop.send(#"{"user":"ada"}"#, more: more).json.text("id"))
            }
            let older = try await send()
            try await running.sending(try #require(PushID(older)), shop)
            let later = RFC3339.text(milliseconds: UnixClock.now() + 3_600_000)
            #expect(try await shop.send(#"{"all":true}"#, more: #","not_before":"\#(later)""#).status == 202)
            // The relay's round stands between the cancellations and the fan-outs: it takes no jobs over until there are three
            // notifications. The acceptance of the third one sees its own row, and does not wait.
            try await running.pool.session { session in
                try session.simple(
                    """
                    CREATE FUNCTION wait_for_three() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                        LOOP
                            EXIT WHEN (SELECT count(*) FROM notifications) = 3;
                            PERFORM pg_sleep(0.02);
                        END LOOP;
                        RETURN NULL;
                    END $$;
                    CREATE TRIGGER wait_for_three BEFORE UPDATE ON jobs FOR EACH STATEMENT EXECUTE FUNCTION wait_for_three()
                    """)
            }
            // A round takes over jobs and fan-outs of an app only if some waited when it began.
            try await running.execute(
                """
                WITH due AS (
                    INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from)
                    SELECT notification, 1, app_id, lane, locale, now(), members, now() FROM jobs
                ), counted AS (
                    UPDATE notifications SET jobs = 2 WHERE jobs = 1
                )
                UPDATE fan_outs SET free_from = now(), due_at = now() WHERE target = 'all'
                """)
            _ = try await eventually {
                let asleep: PostgresQuery =
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
                return try await running.count(asleep) > 0 ? true : nil
            }
            let newer = try await send()
            try await running.sending(try #require(PushID(newer)), shop)
            _ = try await eventually { try await cancelled(running).map(\.description) == [older] ? true : nil }
            let order = try await running.count(
                """
                SELECT count(*) FROM cancellations o, jobs j
                WHERE o.published_at <= j.published_at AND o.notification = \(older)::text::uuid AND j.notification = \(newer)::text::uuid
                """)
            #expect(order == 1)
        }
    }
}
