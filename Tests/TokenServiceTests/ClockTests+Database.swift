import Broker
import FoundationEssentials
import OpenSSL
import Postgres
import PushModel
import StrictJSON
import Testing

@testable import TokenServiceKit
@testable import TokenServiceSending
@testable import TokenServiceUpkeep

@Suite("When PostgreSQL's clock is set", .serialized, .timeLimit(.minutes(5)))
struct DatabaseClockTests {
    private static let still = RunningService.Options(without: { $0 is Housekeeper })

    @Test("Notifications are published and users signed out at once after a step, and after the step back", arguments: ClockStep.all)
    func goesOn(step: Int64) async throws {
        try await SteppedDatabase.with { database in
            try await RunningService.run(on: database.pool, uri: database.uri, Self.still) { running in
                let shop = try await running.client.makeApp()
                for (number, ahead) in [(1, 0), (2, step), (3, 0)] as [(Int, Int64)] {
                    try await database.set(ahead)
                    try await shop.register(installation(number), user: "ada", token: token(number))
                    for target in [#"{"user":"ada"}"#, #"{"users":["ada"]}"#] {
                        let sent = try await shop.send(target, more: #","ttl_seconds":259200"#)
                        let id = try #require(sent.json.text("id").flatMap { PushID($0) }, "\(sent.json)")
                        _ = try await eventually {
                            let published: PostgresQuery =
                                "SELECT count(*) FROM jobs WHERE notification = \(id) AND published_at IS NOT NULL"
                            return try await running.count(published) == 1 ? true : nil
                        }
                    }
                    let out = try await shop.post("/v1/apps/shop/installations/\(installation(number))/logout")
                    #expect(out.status == 200 && out.json.text("fence") == "effective", "\(out.json)")
                }
            }
        }
    }

    @Test("An id of a clock that was ahead makes no period longer, and its rows stay", arguments: ClockStep.all)
    func periods(step: Int64) async throws {
        try await RunningService.run(Self.still) { running in
            _ = try await running.client.makeApp()
            let id = PushID.timeOrdered(milliseconds: UnixTime.milliseconds() + step)
            try await running.execute("INSERT INTO notification_variants (notification, locale, payload) VALUES (\(id), 'de', '{}')")
            let made = try await running.pool.session { session in
                try (1...4).map { _ in
                    try session.execute("SELECT make_partition('notifications', interval '4 days', now() + interval '9 days')").count
                }
            }
            // Two periods reach more than thirteen days ahead.
            #expect(made.map { $0 > 0 } == [true, true, false, false])
            let days = try await running.count(
                "SELECT (extract(epoch FROM max(ends_at) - now()) / 86400)::bigint AS count FROM partitions WHERE family = 'notifications'")
            #expect(days <= 17)
            #expect(try await running.ids("SELECT notification AS id FROM notification_variants") == [id])
        }
    }

    @Test("One key, one notification, also when PostgreSQL's clock was set back over midnight", arguments: ClockStep.all)
    func keys(step: Int64) async throws {
        try await SteppedDatabase.with { database in
            try await RunningService.run(on: database.pool, uri: database.uri, Self.still) { running in
                let shop = try await running.client.makeApp()
                // Half an hour after midnight, UTC.
                let now = UnixTime.milliseconds()
                let early = now / (24 * ClockStep.hour) * (24 * ClockStep.hour) + ClockStep.hour / 2 - now
                func send() async throws -> APITestClient.Answer {
                    try await shop.send(#"{"user":"ada"}"#, headers: ["idempotency-key": "any"])
                }
                try await database.set(early)
                let first = try await send()
                #expect(first.status == 202)
                try await database.set(early + step)
                let again = try await send()
                // A key is known for a day at least.
                #expect((again.json.text("id") == first.json.text("id")) == (step < 24 * ClockStep.hour), "\(again.json)")
            }
        }
    }

    @Test("A key of a time that is ahead does not outlive its notification") func keyOfGone() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            #expect(try await shop.send(#"{"user":"ada"}"#, headers: ["idempotency-key": "any"]).status == 202)
            try await running.execute("UPDATE idempotency_records SET day = day + interval '365 days', notification = \(PushID.random())")
            #expect(try await shop.send(#"{"user":"ada"}"#, headers: ["idempotency-key": "any"]).status == 202)
        }
    }

    @Test("A lease that was given back by a clock that was ahead is free again", arguments: ClockStep.all)
    func leases(step: Int64) async throws {
        try await RunningService.run(Self.still) { running in
            // As a release with an hour's pause wrote it, seen two hours later.
            try await running.execute(
                """
                UPDATE leases SET holder = NULL, free_from = now() + \(step - ClockStep.hour) * interval '1 millisecond'
                WHERE name = 'housekeeping'
                """)
            let isTaken = try await running.pool.session { session in
                try Lease("housekeeping", seconds: 60, longestPause: .seconds(3_600)).take(in: session)
            }
            #expect(isTaken)
            try await running.execute("UPDATE leases SET holder = NULL, free_from = now() + interval '1 hour' WHERE name = 'housekeeping'")
            let isTakenEarly = try await running.pool.session { session in
                try Lease("housekeeping", seconds: 60, longestPause: .seconds(3_600)).take(in: session)
            }
            #expect(!isTakenEarly)
        }
    }

    @Test("The relay publishes a hold that a process left, whatever PostgreSQL's clock shows", arguments: ClockStep.all)
    func holds(step: Int64) async throws {
        try await SteppedDatabase.with { database in
            try await RunningService.run(on: database.pool, uri: database.uri, Self.still) { running in
                let (_, admin) = try await running.operate()
                try await database.set(step)
                _ = try await admin.setHold(#"{"lane":"bulk","reason":"test"}"#)
                try await database.execute("UPDATE holds SET published_at = NULL, set_at = now() - interval '10 seconds'")
                _ = try await eventually {
                    try await running.count("SELECT count(*) FROM holds WHERE published_at IS NOT NULL") == 1 ? true : nil
                }
            }
        }
    }

    @Test("What a process asks of Apple's channels is due by PostgreSQL's clock for every process", arguments: ClockStep.all)
    func channels(step: Int64) async throws {
        let apple = AppleChannels()
        try await SteppedDatabase.with { database in
            try await RunningService.run(on: database.pool, uri: database.uri, Self.still) { running in
                let shop = try await running.client.makeApp()
                try await database.set(step)
                try await apple.serve(running) {
                    for name in ["game-1", "game-2"] {
                        _ = try await eventually {
                            let path = "/v1/apps/shop/channels/\(name)"
                            return try await shop.put(path, #"{"environment":"production","storage":"none"}"#).status == 200 ? true : nil
                        }
                    }
                    let lists = apple.commands.count { $0.request.operation == .list }
                    // As another process asks for a list.
                    try await database.execute("UPDATE channel_scopes SET list_from = now(), due_at = now()")
                    _ = try await eventually { apple.commands.count { $0.request.operation == .list } > lists ? true : nil }
                    #expect(
                        try await database.count(
                            "SELECT count(*) AS count FROM channels WHERE abs(extract(epoch FROM now() - created_at)) < 600") == 2)
                }
            }
        }
    }

    @Test("The housekeeping makes and removes nothing while PostgreSQL's clock is not near its own", arguments: ClockStep.all)
    func housekeeping(step: Int64) async throws {
        try await SteppedDatabase.with { database in
            let options = RunningService.Options(settings: ["HOUSEKEEPING_INTERVAL_SECONDS": "1"])
            try await RunningService.run(on: database.pool, uri: database.uri, options) { running in
                let shop = try await running.client.makeApp()
                try await shop.register(installation(1), user: "ada", token: token(1))
                #expect(try await shop.send(#"{"user":"ada"}"#).status == 202)
                try await running.execute("UPDATE apps SET stale_after_days = 30")
                func rounds(_ result: String) -> Int { running.counter("housekeeping_rounds_total{result=\"\(result)\"}") }
                _ = try await eventually { rounds("finished") > 0 ? true : nil }
                try await database.set(step)
                // The first of them may have begun before the step.
                let before = rounds("finished") + rounds("failed")
                _ = try await eventually { rounds("finished") + rounds("failed") >= before + 2 ? true : nil }
                #expect(
                    try await running.count("SELECT count(*) FROM partitions WHERE ends_at > pg_catalog.now() + interval '60 days'") == 0)
                #expect(try await running.count("SELECT count(*) FROM notifications") == 1)
                #expect(try await running.count("SELECT count(*) FROM installation_history") > 0)
                #expect(try await running.count("SELECT count(*) FROM installations WHERE stale_since IS NOT NULL") == 0)
                try await database.set(0)
                let finished = rounds("finished")
                _ = try await eventually { rounds("finished") > finished ? true : nil }
            }
        }
    }

    @Test("The handbook's statements release what a clock that was far ahead holds back", arguments: [96, 8760] as [Int64])
    func release(hours: Int64) async throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let page = String(decoding: try Data(contentsOf: root.appending(path: "docs/clocks.md")), as: UTF8.self)
        let statements = try #require(page.components(separatedBy: "```sql\n").dropFirst().first?.components(separatedBy: "```").first)
        try await RunningService.run(.init(without: { $0 is Relay || $0 is Housekeeper })) { running in
            _ = try await running.client.makeApp()
            try await CancellationTests.insertCancelled(2, running)
            let ahead = hours * ClockStep.hour
            try await running.execute("UPDATE jobs SET due_at = now() WHERE number = 1")
            try await running.execute("UPDATE jobs SET free_from = now() + \(ahead) * interval '1 millisecond'")
            try await running.execute("UPDATE cancellations SET hasten_from = now() + \(ahead) * interval '1 millisecond'")
            let free: PostgresQuery = "SELECT count(*) FROM jobs WHERE free_from <= now()"
            let hastening = CancellationTests.hastening(running)
            try await hastening.hastenJobs()
            #expect(try await running.count(free) == 0)
            try await running.pool.session { session in try session.simple(statements) }
            // Those that are due.
            #expect(try await running.count(free) == 2)
            // Those that are due later end now, because their notifications are cancelled.
            try await hastening.hastenJobs()
            #expect(try await running.count(free) == 4)
        }
    }

    @Test("A device is noted as throttled for an hour at most, whatever the dispatcher's clock shows", arguments: [96, 8760] as [Int64])
    func throttled(hours: Int64) async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            let ahead = UnixTime.milliseconds() + hours * ClockStep.hour
            try await running.report(
                .throttled, of: job, final: false, status: 429, reason: "TooManyRequests", sentAt: ahead, retryAt: ahead + 60_000)
            _ = try await eventually {
                try await running.count("SELECT count(*) FROM installations WHERE throttled_until IS NOT NULL") == 1 ? true : nil
            }
            #expect(try await running.count("SELECT count(*) FROM installations WHERE throttled_until <= now() + interval '1 hour'") == 1)
        }
    }
}
