import Broker
import Postgres
import PushModel
import ServiceLifecycle
import StrictJSON
import TestSupport
import Testing
import TokenServiceSending

@Suite("A fan-out through a large audience", .serialized, .timeLimit(.minutes(5)))
struct FanOutTests {
    /// Promise 1 for large audiences: the first process makes a page and dies before it publishes; the second goes on.
    @Test("Another process goes on from the checkpoint") func fromCheckpoint() async throws {
        // Two pages and a bit.
        let count = 2 * FanOutStore.installationsOfPage + 50
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await running.fill(count, app: try await running.app())
            let sent = try await shop.send(#"{"all":true}"#)
            let id = try #require(sent.json.text("id").flatMap { PushID($0) })
            let made = try await running.pool.transaction { session in
                let store = FanOutStore(session: session)
                let audience = try #require(try store.fanOut(of: id))
                let page = try store.page(of: audience, names: DeliveryNames(id), now: UnixClock.now())
                try store.commit(page, of: audience, leaseSeconds: 0, now: UnixClock.now())
                return page
            }
            #expect(made.count == FanOutStore.installationsOfPage)
            #expect(!made.isLast)
            try await running.another { other in
                let jobs = try await other.jobs(.bulk) { signal in
                    var jobs: [PushJob] = []
                    while jobs.reduce(0, { $0 + $1.deliveries.count }) < count {
                        jobs.append(try PushJob(decoding: try await signal.next().body))
                    }
                    return jobs
                }
                let deliveries = jobs.flatMap(\.deliveries)
                #expect(deliveries.count == count)
                #expect(Set(deliveries.map(\.token)).count == count, "each token once")
                // What the first process had made has the ids that it gave.
                let names = Dictionary(uniqueKeysWithValues: deliveries.map { ($0.token, $0.id) })
                let first = try made.jobs.flatMap { try $0.deliveries.decoded() }
                #expect(first.allSatisfy { names[$0.token] == $0.id })
                let status = try await eventually {
                    let status = try await shop.status(id.description)
                    return status.text("state") == "sending" ? status : nil
                }
                #expect(status["counts"]?.number("total") == Int64(count))
            }
        }
    }

    @Test("Two processes never make the same page") func twoProcesses() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await running.fill(3, app: try await running.app())
            let id = try #require(try await shop.send(#"{"all":true}"#).json.text("id").flatMap { PushID($0) })
            let audience = try await running.pool.session { session in
                try #require(try FanOutStore(session: session).fanOut(of: id))
            }
            func makePage() async throws {
                try await running.pool.transaction { session in
                    let store = FanOutStore(session: session)
                    let page = try store.page(of: audience, names: DeliveryNames(id), now: UnixClock.now())
                    try store.commit(page, of: audience, leaseSeconds: 60, now: UnixClock.now())
                }
            }
            try await makePage()
            await #expect(throws: FanOutTakenOver.self) { try await makePage() }
            #expect(try await running.count("SELECT count(*) FROM jobs") == 1)
        }
    }

    @Test("Counters are exact however often an outcome is reported") func exactCounters() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await running.fill(250, app: try await running.app())
            let id = try #require(try await shop.send(#"{"all":true}"#).json.text("id").flatMap { PushID($0) })
            let jobs = try await running.jobs(.bulk) { signal in try await signal.next(3).map { try PushJob(decoding: $0.body) } }
            // Again only when it was applied, and before the others: together it would count once, and last the database would refuse it.
            var reported: Int64 = 0
            for job in jobs {
                for round in 1...2 {
                    var (good, bad) = (job, job)
                    bad.deliveries = [job.deliveries[0]]
                    good.deliveries.removeFirst()
                    try await running.report(
                        .throttled, of: bad, final: false, status: 429, reason: "TooManyRequests", retryAt: UnixClock.now() + 60_000)
                    try await running.report(
                        .tokenGone, of: bad, status: 410, reason: "Unregistered", timestamp: UnixClock.now() + 1000, attempt: 2)
                    try await running.report(.accepted, of: good, status: 200)
                    if round == 1 { reported += Int64(job.deliveries.count) }
                    let pending = 250 - reported
                    _ = try await eventually {
                        try await running.number("pending", "SELECT min(pending) AS pending FROM notifications") == pending ? true : nil
                    }
                }
            }
            // The queue keeps its order: when this one's outcome is applied, all earlier reports are.
            let last = try await running.sendAndTake(#"{"installation":"\#(jobs[1].deliveries[1].installation)"}"#, with: shop)
            try await running.report(.accepted, of: last, status: 200)
            _ = try await running.completed(last.notification, shop)
            let status = try await running.completed(id, shop).json
            #expect(status["counts"]?.number("total") == 250)
            #expect(status["counts"]?.number("accepted") == 247)
            #expect(status["counts"]?.number("token_gone") == 3)
            #expect(status["counts"]?.number("pending") == 0)
            // Receipts of what failed, and only of that.
            #expect(status["deliveries"]?.arrayValue?.count == 3)
            #expect(status["deliveries"]?.arrayValue?.allSatisfy { $0.text("reason") == "Unregistered" } == true)
            #expect(try await running.count("SELECT count(*) FROM tokens WHERE state = 'retired'") == 3)
            #expect(try await running.count("SELECT count(*) FROM tokens WHERE proven_at IS NOT NULL") == 247)
            #expect(try await running.count("SELECT count(*) FROM installation_history WHERE event = 'throttled'") == 3)
        }
    }

    /// Promise 3 for what a dead process left unpublished.
    @Test("The relay resolves a left-over job anew") func leftOverJob() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            for number in 1...4 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            let id = try #require(try await shop.send(#"{"users":["ada"]}"#).json.text("id").flatMap { PushID($0) })
            try await running.pool.transaction { session in
                let store = FanOutStore(session: session)
                let audience = try #require(try store.fanOut(of: id))
                let page = try store.page(of: audience, names: DeliveryNames(id), now: UnixClock.now())
                try store.commit(page, of: audience, leaseSeconds: 0, now: UnixClock.now())
            }
            try await shop.register(installation(2), user: "grace", token: token(2))
            try await running.execute(
                "UPDATE tokens SET state = 'retired', retired_reason = 'gone', retired_at = now() WHERE installation = \(installation(4))")
            try await running.another { other in
                let job = try await other.jobs(.soon) { signal in try PushJob(decoding: try await signal.next().body) }
                #expect(Set(job.deliveries.map(\.token.hex)) == [token(1), token(3)])
                try await other.report(.accepted, of: job, status: 200)
                let status = try await other.completed(id, shop).json
                #expect(status["counts"]?.number("fenced") == 2)
                let reasons = status["deliveries"]?.arrayValue?.filter { $0.text("state") == "fenced" }.compactMap { $0.text("reason") }
                #expect(reasons?.sorted() == ["owner_changed", "token_retired"])
                #expect(status["counts"]?.number("accepted") == 2)
            }
        }
    }

    /// Promise 1: the token's second place is not a second delivery, and does not stop fan-out.
    @Test("A token that moves ahead of the fan-out gets one delivery") func movingToken() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            let count = FanOutStore.entriesOfPage + 1
            for number in [1, count] { try await shop.register(installation(number), user: nil, token: token(number)) }
            let list = (1...count).map { "\"\(installation($0))\"" }.joined(separator: ",")
            let id = try #require(try await shop.send(#"{"installations":[\#(list)]}"#).json.text("id").flatMap { PushID($0) })
            try await makePage(id, running)
            try await shop.register(installation(count), user: nil, token: token(1))
            try await running.another { other in
                let job = try await other.jobs(.soon) { signal in try PushJob(decoding: try await signal.next().body) }
                #expect(job.deliveries.map(\.token.hex) == [token(1)])
                let status = try await eventually {
                    let status = try await shop.status(id.description)
                    return status.text("state") == "sending" ? status : nil
                }
                #expect(status["counts"]?.number("total") == 1)
            }
        }
    }

    /// Promise 2: a process died between the outcomes and writing down that it had published.
    @Test("The relay does not publish a delivery again that has its outcome", arguments: ["all", "failures"])
    func settledDelivery(receipts: String) async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for number in 1...2 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            var job = try await running.jobs(.soon) { signal in
                _ = try await shop.send(#"{"users":["ada"]}"#, more: #","receipts":"\#(receipts)""#)
                return try PushJob(decoding: try await signal.next().body)
            }
            let left = job.deliveries.removeLast()
            try await running.report(.accepted, of: job, status: 200)
            _ = try await eventually {
                let isReported = try await running.number("pending", "SELECT pending FROM notifications") == 1
                // Or else fan-out's own mark comes behind the update.
                let isMarked = try await running.count("SELECT count(*) FROM jobs WHERE published_at IS NULL") == 0
                return isReported && isMarked ? true : nil
            }
            let again = try await running.jobs(.soon) { signal in
                try await running.execute("UPDATE jobs SET published_at = NULL, free_from = now()")
                return try PushJob(decoding: try await signal.next().body)
            }
            #expect(again.deliveries == [left])
        }
    }

    @Test("The outcome says that a device without its tag has left the audience") func lostTag() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            for number in 1...2 {
                try await shop.register(installation(number), user: "ada", token: token(number), tags: ["beta"])
            }
            let sent = try await shop.send(#"{"tags":"beta"}"#, more: #","receipts":"all""#)
            let id = try #require(sent.json.text("id").flatMap { PushID($0) }, "\(sent.json)")
            try await makePage(id, running)
            try await running.execute("UPDATE installations SET tags = '{}' WHERE id = \(installation(2))")
            try await running.another { other in
                let job = try await other.jobs(.bulk) { signal in try PushJob(decoding: try await signal.next().body) }
                #expect(job.deliveries.map(\.installation) == [installation(1)])
                try await other.report(.accepted, of: job, status: 200)
                let listed = try await other.completed(id, shop).json["deliveries"]?.arrayValue ?? []
                #expect(listed.first { $0.text("state") == "fenced" }?.text("reason") == "left_audience", "\(listed)")
            }
            let why = try await shop.get("/v1/apps/shop/notifications/\(id)/why?user=ada").json
            let ended = (why["steps"]?.arrayValue ?? []).compactMap { $0.text("why") }
            #expect(ended.contains("It was not sent: it was not in the audience any more when its turn came."), "\(ended)")
        }
    }

    @Test("A user whose quiet hours are at another time does not wait") func laterQuietHours() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await running.execute(
                """
                INSERT INTO quiet_hours (app_id, owner, begins_at, ends_at, updated_at)
                SELECT id, 'ada', (now() AT TIME ZONE 'UTC' + interval '2 hours')::time,
                    (now() AT TIME ZONE 'UTC' + interval '3 hours')::time,
                    now() FROM apps
                """)
            let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id").flatMap { PushID($0) })
            let page = try await running.pool.session { session in
                let store = FanOutStore(session: session)
                let audience = try #require(try store.fanOut(of: id))
                // Long before the database's clock: what is due now is due at fan-out's now.
                return try store.page(of: audience, names: DeliveryNames(id), now: 1)
            }
            #expect(page.jobs.map(\.job.dueAt) == [1])
        }
    }

    private func makePage(_ id: PushID, _ running: RunningService) async throws {
        try await running.pool.transaction { session in
            let store = FanOutStore(session: session)
            let audience = try #require(try store.fanOut(of: id))
            let now = UnixClock.now()
            let page = try store.page(of: audience, names: DeliveryNames(id), now: now)
            try store.commit(page, of: audience, leaseSeconds: 0, now: now)
        }
    }

    /// After a restore, a promotion or an update of its tzdata.
    @Test("A time zone that the server has forgotten stops no fan-out") func forgottenZone() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for (number, user) in ["ada", "grace"].enumerated() {
                try await shop.register(installation(number), user: user, token: token(number))
            }
            for statement: PostgresQuery in [
                "INSERT INTO time_zones VALUES ('Mars/Olympus')",
                "UPDATE installations SET time_zone = 'Mars/Olympus' WHERE owner = 'ada'",
                """
                INSERT INTO quiet_hours (app_id, owner, begins_at, ends_at, updated_at)
                SELECT id, 'ada', (now() AT TIME ZONE 'UTC' + interval '2 hours')::time,
                    (now() AT TIME ZONE 'UTC' + interval '3 hours')::time, now() FROM apps
                """,
            ] {
                try await running.execute(statement)
            }
            let job = try await running.jobs(.soon) { jobs in
                let sent = try await shop.send(#"{"users":["ada","grace"]}"#)
                #expect(sent.status == 202)
                return try PushJob(decoding: try await jobs.next().body)
            }
            #expect(job.deliveries.count == 2)
        }
    }

    @Test("The time zones are those of the server that runs") func zonesOfTheServer() async throws {
        try await RunningService.run { running in
            try await running.execute("DELETE FROM time_zones WHERE name = 'Europe/Berlin'")
            try await running.execute("INSERT INTO time_zones VALUES ('Mars/Olympus')")
            #expect(try await running.pool.session { try TimeZones.refresh(in: $0) } == 2)
            let names: PostgresQuery = "SELECT count(*) FROM time_zones WHERE name = 'Europe/Berlin' OR name LIKE 'Mars/%'"
            #expect(try await running.count(names) == 1)
            #expect(try await running.pool.session { try TimeZones.refresh(in: $0) } == 0)
        }
    }

    @Test(
        """
        A send answers with the state of its row, also when it is repeated: with a local time it is due as soon as it is that late anywhere
        """
    )
    func stateOfLocalTime() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            for (minutes, state) in [(60, "accepted"), (2 * 1440, "scheduled")] as [(Int64, String)] {
                let time = RFC3339.text(milliseconds: UnixClock.now() + minutes * 60_000).prefix(16)
                for _ in 1...2 {
                    let sent = try await shop.send(
                        #"{"user":"ada"}"#, more: #","local_time":"\#(time)""#, headers: ["idempotency-key": state])
                    #expect(sent.status == 202 && sent.json.text("state") == state, "\(sent.json)")
                    let id = try #require(sent.json.text("id"))
                    #expect(try await shop.status(id).text("state") == state)
                }
            }
        }
    }

    /// A zone that the database does not know counts as UTC.
    @Test("A local time comes to each zone at its own moment") func zoneMoments() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            let zones = ["Europe/Berlin", "America/Los_Angeles", "Atlantis/Nowhere"]
            for (index, zone) in zones.enumerated() {
                try await shop.register(installation(index), user: "ada", token: token(index))
                try await running.execute("UPDATE installations SET time_zone = \(zone) WHERE id = \(installation(index))")
            }
            let date = String(RFC3339.text(milliseconds: UnixClock.now() + 2 * 86_400_000).prefix(10))
            let sent = try await shop.send(#"{"users":["ada"]}"#, more: #","local_time":"\#(date)T09:00""#)
            #expect(sent.json.text("state") == "scheduled", "\(sent.json)")
            let id = try #require(sent.json.text("id").flatMap { PushID($0) })
            let jobs = try await running.pool.transaction { session in
                let store = FanOutStore(session: session)
                let audience = try #require(try store.fanOut(of: id))
                let page = try store.page(of: audience, names: DeliveryNames(id), now: UnixClock.now())
                try store.commit(page, of: audience, leaseSeconds: 0, now: UnixClock.now())
                return page.jobs
            }
            let local = "\(date) 09:00"
            let expected: [Int64] = try await running.pool.session { session in
                let moments = try session.execute(
                    """
                    SELECT \(local)::text::timestamp AT TIME ZONE zone AS moment
                    FROM unnest(ARRAY['Europe/Berlin', 'America/Los_Angeles', 'UTC']) AS zone
                    """)
                return try moments.map { row in try row.milliseconds("moment") }
            }
            #expect(Set(jobs.map(\.job.dueAt)) == Set(expected))
            #expect(jobs.allSatisfy { $0.deliveries.count == 1 })
        }
    }

    @Test(
        "A fan-out that is late makes nothing live longer than from its local moment, with quiet hours or without",
        arguments: [false, true])
    func lateFanOut(hasQuietHours: Bool) async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            if hasQuietHours {
                try await running.execute(
                    """
                    INSERT INTO quiet_hours (app_id, owner, begins_at, ends_at, updated_at)
                    SELECT id, 'ada', (now() AT TIME ZONE 'UTC' + interval '5 hours')::time,
                        (now() AT TIME ZONE 'UTC' + interval '6 hours')::time, now() FROM apps
                    """)
            }
            let date = String(RFC3339.text(milliseconds: UnixClock.now() + 86_400_000).prefix(10))
            let sent = try await shop.send(#"{"users":["ada"]}"#, more: #","local_time":"\#(date)T09:00","ttl_seconds":7200"#)
            let id = try #require(sent.json.text("id").flatMap { PushID($0) }, "\(sent.json)")
            // Fan-out should have come an hour ago.
            try await running.execute("UPDATE notifications SET accepted_at = now() - interval '1 day'")
            try await running.execute("UPDATE fan_outs SET local_time = now() AT TIME ZONE 'UTC' - interval '1 hour'")
            let local: Int64 = try await running.pool.session { session in
                try session.execute("SELECT local_time AT TIME ZONE 'UTC' AS moment FROM fan_outs").only().milliseconds("moment")
            }
            let (page, template) = try await running.pool.session { session in
                let store = FanOutStore(session: session)
                let audience = try #require(try store.fanOut(of: id))
                let page = try store.page(of: audience, names: DeliveryNames(id), now: UnixClock.now())
                return (page, page.jobs.first.map { audience.template(of: $0.job) } ?? audience.template)
            }
            #expect(page.jobs.map(\.job.dueAt) == [local])
            #expect(template.expiresAt == local + 7_200_000)
            #expect(template.apnsExpiration == (local + 7_200_000) / 1000)
        }
    }

    /// Hours from now. Quiet hours last six hours from their beginning.
    @Test(
        "A late fan-out finds the moment that a fan-out in time would have found, and waits for the end of quiet hours that have begun",
        arguments: [
            // Within them, and they are over: it counts from their end.
            (local: -9.0, quiet: -10.0, lifetime: 1.0, due: -4.0),
            // Before them, and they have begun: over, or due at their end.
            (local: -3, quiet: -1, lifetime: 1, due: -3), (local: -3, quiet: -1, lifetime: 24, due: 5),
            // Within those that have begun.
            (local: -1, quiet: -2, lifetime: 1, due: 4),
            // Not late.
            (local: 3, quiet: -1, lifetime: 1, due: 5), (local: 3, quiet: 5, lifetime: 1, due: 3),
        ])
    func dueAt(local: Double, quiet: Double, lifetime: Double, due: Double) async throws {
        let (localMinutes, quietMinutes, lifetimeMinutes) = (Int32(local * 60), Int32(quiet * 60), Int32(lifetime * 60))
        try await RunningService.run { running in
            let hours: Double = try await running.pool.session { session in
                try session.execute(
                    """
                    SELECT extract(epoch FROM due_at(here + make_interval(mins => \(localMinutes)), \(lifetimeMinutes)::bigint * 60000,
                        now() - interval '1 day', quiet::time, (quiet + interval '6 hours')::time,
                            'Asia/Tokyo') - now())::float8 / 3600 AS hours
                    FROM (
                        SELECT here, here + make_interval(mins => \(quietMinutes)) AS quiet
                        FROM (SELECT now() AT TIME ZONE 'Asia/Tokyo' AS here) AS zone
                    ) AS times
                    """
                ).only()["hours"]
            }
            #expect(abs(hours - due) < 0.001)
        }
    }
}
