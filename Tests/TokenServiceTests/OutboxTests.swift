import Logging
import Observability
import Postgres
import PushModel
import StrictJSON
import SystemIO
import TestBroker
import TestSupport
import Testing

@testable import Broker
@testable import TokenService
@testable import TokenServiceApps
@testable import TokenServiceKit
@testable import TokenServiceSending

@Suite("A job waits to be published until the broker has confirmed it", .serialized, .timeLimit(.minutes(5)))
struct OutboxTests {
    private static let waitingFanOuts: PostgresQuery = "SELECT count(*) FROM fan_outs WHERE free_from IS NOT NULL"

    /// It neither runs out nor is renewed while a test runs.
    private static let longLease = ["RELAY_LEASE_SECONDS": "3600"]

    private static func underWay(_ running: RunningService) -> Int? {
        running.service.services.lazy.compactMap { $0 as? ConfirmWriter }.first?.underWayCount
    }

    /// The jobs that a relay takes over now.
    private static func claim(_ running: RunningService) async throws -> [JobID] {
        try await running.pool.transaction { session in
            try JobStore(session: session).claimFree(100, of: .now, leaseSeconds: 60)
        }
    }

    @Test("Once the broker has confirmed all jobs, a relay finds none") func confirmed() async throws {
        try await RunningService.run(.init(settings: Self.longLease)) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 1...40 {
                    group.addTask {
                        let sent = try await shop.send(#"{"user":"ada"}"#)
                        #expect(sent.status == 202)
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await shop.send(#"{"user":"nobody"}"#).status == 202)
            try await running.allPublished()
            #expect(try await running.count("SELECT count(*) FROM jobs") == 40)
            #expect(try await running.count("SELECT count(*) FROM notifications WHERE state = 'sending'") == 40)
            #expect(try await running.count(Self.waitingFanOuts) == 0)
            #expect(try await Self.claim(running).isEmpty)
            _ = try await eventually { Self.underWay(running) == 0 ? true : nil }
        }
    }

    @Test("An outcome of a job that ends before it is published has one id each time; another set of deliveries makes another event")
    func toldAgain() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            for number in 1...3 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id").flatMap { PushID($0) })
            try await running.sending(id, shop)
            // As if the broker had not taken it.
            try await running.forgetPublishing()
            func resolve() async throws -> PublishableJob {
                try await running.pool.transaction { session in
                    let store = JobStore(session: session)
                    let claimed = try store.claimFree(1, of: .now, leaseSeconds: 0)
                    return try #require(try store.resolve(claimed, now: UnixTime.milliseconds()).first)
                }
            }
            #expect(try await resolve().stopped == nil)
            _ = try await shop.post("/v1/apps/shop/installations/\(installation(1))/logout")
            let (first, second) = (try await resolve(), try await resolve())
            #expect(first.deliveries.count == 2 && first.stopped?.deliveries.count == 1)
            #expect(second.stopped?.id == first.stopped?.id)
            _ = try await shop.post("/v1/apps/shop/installations/\(installation(2))/logout")
            let third = try await resolve()
            #expect(third.deliveries.count == 1 && third.stopped?.deliveries.count == 2)
            #expect(third.stopped?.id != first.stopped?.id)
        }
    }

    @Test("Jobs of several apps that are published together have each a message and a trace of their own") func together() async throws {
        try await RunningService.run { running in
            let confirms = try #require(running.service.services.lazy.compactMap { $0 as? ConfirmWriter }.first)
            let publisher = JobPublisher(
                publisher: running.service.publisher, topology: running.topology, lease: .seconds(30),
                confirms: confirms, window: RelayWindow(logger: Logger(label: "test"), onGrowth: {}),
                waits: LaneWaits(pool: running.pool, logger: Logger(label: "test")), traces: .off)
            let delivery = PushJob.Delivery(
                id: .random(), token: try #require(DeviceToken(bytes: [1])), environment: .production, installation: .random(),
                ownerEpoch: 1)
            let slugs = try ["other", "shop"].map { try #require(AppSlug($0)) }
            let jobs = (0..<40).map { number in
                let template = JobTemplate(
                    notification: PushID(high: 7, low: UInt64(number)), app: slugs[number % 2], lane: .now, pushType: .alert, topic: "t",
                    priority: 10, apnsExpiration: 0, expiresAt: 4_000_000_000_000, acceptedAt: 0, onUnknown: .resend,
                    payload: [UInt8](repeating: 32, count: number < 38 ? 2 : 3000), traceparent: "trace \(number)")
                return PublishableJob(
                    id: JobID(notification: template.notification, number: 0), template: template,
                    deliveries: EncodedDeliveries([delivery]))
            }
            publisher.publish(jobs)
            let messages = try await running.jobs { try await $0.next(40) }
            for message in messages {
                let job = try PushJob(decoding: message.body)
                #expect(message.header("traceparent") == "trace \(job.notification.low)")
                #expect(job.app == slugs[Int(job.notification.low) % 2])
            }
            #expect(Set(messages.compactMap(\.messageID)).count == 40)
        }
    }

    @Test("What is due at once does not wait for the clock of the process that accepted it", arguments: [3_600_000, -3_600_000] as [Int64])
    func wrongClock(step: Int64) async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let app = try #require(try await AppStore(pool: running.pool).all().first)
            let items = try [#"{"users":["ada"]}"#, #"{"user":"ada"}"#].map { target in
                let request = try #require(
                    try ParsedRequest(#"{"to":\#(target),"content":{"alert":"a"}}"#, now: UnixTime.milliseconds()).request)
                let notification = Notification(
                    id: .random(), app: app.slug, topic: app.bundleID, request: request, acceptedAt: UnixTime.milliseconds() + step,
                    traceparent: "")
                return NotificationStore.Item(notification: notification, app: app, idempotency: nil, leaseSeconds: 0)
            }
            _ = try await running.pool.transaction { session in try NotificationStore(session: session).insert(items) }
            #expect(try await running.count("SELECT count(*) FROM fan_outs WHERE free_from <= now() AND due_at <= now()") == 1)
            #expect(try await running.count("SELECT count(*) FROM jobs WHERE free_from <= now()") == 1)
        }
    }

    /// A process that stood still wakes up and writes down what it published, while a relay looks for work.
    @Test("A job that is being written down as published is not taken over, and the first note of it stays")
    func takenOverAndPublished() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id").flatMap { PushID($0) })
            try await running.sending(id, shop)
            _ = try await eventually { Self.underWay(running) == 0 ? true : nil }
            try await running.forgetPublishing()
            try await running.holding("UPDATE jobs SET published_at = now()") {
                let claimed = try await Self.claim(running)
                #expect(claimed.isEmpty)
            }
            #expect(try await Self.claim(running).isEmpty)

            try await running.forgetPublishing()
            #expect(try await Self.claim(running) == [JobID(notification: id, number: 0)])
            func note(isPublished: Bool) async throws -> Int64 {
                try await running.pool.transaction { session in
                    let job = PublishedJob(id: JobID(notification: id, number: 0), isPublished: isPublished, isFirst: true)
                    try JobStore(session: session).record([job])
                }
                return try await running.number("at", "SELECT (extract(epoch FROM published_at) * 1000000)::bigint AS at FROM jobs")
            }
            let noted = try await note(isPublished: true)
            #expect(try await note(isPublished: true) == noted)
            #expect(try await note(isPublished: false) == noted)
        }
    }

    @Test("While the broker says nothing, a job keeps its lease and no other process publishes it; without its lease another one does")
    func unconfirmed() async throws {
        let proxy = try FaultProxy(port: RunningService.port(of: TestBroker.uri()))
        try await RunningService.run(.init(settings: Self.longLease, without: { $0 is Relay }, brokerPort: proxy.port)) { dying in
            let shop = try await dying.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            _ = try await eventually { dying.service.publisher.state == .ready ? true : nil }
            proxy.set(.paused)
            let sent = try await shop.send(#"{"user":"ada"}"#)
            #expect(sent.status == 202)
            let id = try #require(sent.json.text("id").flatMap { PushID($0) })
            // Longer than it takes to write down what was confirmed.
            _ = try await eventually { Self.underWay(dying) == 1 ? true : nil }
            try await dying.another { living in
                _ = try await eventually { living.service.publisher.state == .ready ? true : nil }
                let key = living.client.with(key: shop.key)
                let other = try #require(try await key.send(#"{"user":"ada"}"#).json.text("id").flatMap { PushID($0) })
                try await living.sending(other, key)
                #expect(try await dying.count(RunningService.unpublishedJobs) == 1)
                let leased: PostgresQuery =
                    "SELECT count(*) FROM jobs WHERE notification = \(id) AND free_from > now() + interval '30 minutes'"
                #expect(try await dying.count(leased) == 1)
                // Its lease has not run out: it is no other process's.
                #expect(try await Self.claim(dying).isEmpty)

                try await living.jobs { signal in
                    try await dying.execute("UPDATE jobs SET free_from = now() WHERE notification = \(id)")
                    while try PushJob(decoding: try await signal.next().body).notification != id {}
                }
                try await living.sending(id, key)
            }
            #expect(try await dying.count(RunningService.unpublishedJobs) == 0)
            #expect(try await dying.count(Self.waitingFanOuts) == 0)
            proxy.set(.forwarding)
        }
        proxy.stop()
    }

    @Test("A process that has no connection to the broker for long gives its jobs up, and another one publishes them")
    func cutOff() async throws {
        let proxy = try FaultProxy(port: RunningService.port(of: TestBroker.uri()))
        try await RunningService.run(
            .init(settings: ["RELAY_LEASE_SECONDS": "2"], without: { $0 is Relay }, brokerPort: proxy.port)
        ) { alone in
            let shop = try await alone.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            _ = try await eventually { alone.service.publisher.state == .ready ? true : nil }
            var away = LinkConditions.paused
            away.refusesNew = true
            proxy.set(away)
            for _ in 1...3 { #expect(try await shop.send(#"{"user":"ada"}"#).status == 202) }
            _ = try await eventually { Self.underWay(alone) == 3 ? true : nil }
            proxy.cut()
            try await alone.another { _ in
                try await alone.allPublished()
                #expect(try await TestBroker.messageCount(alone.topology.jobQueue(.now), alone.broker) == 3)
                _ = try await eventually { Self.underWay(alone) == 0 ? true : nil }
            }
            proxy.set(.forwarding)
        }
        proxy.stop()
    }

    @Test("The backlog counts the jobs and fan-outs that wait or are being published, and none that is due later")
    func backlog() async throws {
        try await RunningService.run(.init(settings: ["FENCE_TIMEOUT_MS": "100"], without: { $0 is Publisher || $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            func backlog(limit: Int = 100) async throws -> [Lane: Int] {
                let sizes = try await running.pool.session { session in
                    try WaitingWorkStore(session: session).backlogOfAll(limit: limit, leaseSeconds: 3600)
                }
                return Dictionary(uniqueKeysWithValues: sizes.map { ($0.key.lane, $0.value) })
            }
            #expect(try await backlog().isEmpty)
            for _ in 1...3 { #expect(try await shop.send(#"{"user":"ada"}"#).status == 202) }
            for _ in 1...2 { #expect(try await shop.send(#"{"all":true}"#).status == 202) }
            let later = RFC3339.text(milliseconds: UnixClock.now() + 3_600_000)
            #expect(try await shop.send(#"{"all":true}"#, more: #","not_before":"\#(later)""#).status == 202)
            #expect(try await backlog() == [.now: 3, .bulk: 2])
            // Of each kind counted no further than that.
            #expect(try await backlog(limit: 2) == [.now: 2, .bulk: 2])
            try await running.execute("UPDATE jobs SET free_from = now() + interval '30 seconds'")
            #expect(try await backlog() == [.now: 3, .bulk: 2])
            // A fan-out's jobs are one notification.
            try await running.execute("UPDATE jobs SET number = 7 WHERE notification = (SELECT notification FROM jobs LIMIT 1)")
            #expect(try await backlog() == [.now: 2, .bulk: 2])
            try await running.execute("UPDATE jobs SET due_at = now() + interval '1 hour', free_from = now() + interval '1 hour'")
            #expect(try await backlog() == [.bulk: 2])
        }
    }

    @Test("A look for free jobs reads none that is leased, due later or published") func lookReadsFreeJobs() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            _ = try await running.client.makeApp()
            try await running.execute(
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from, published_at)
                SELECT '00000000-0000-7000-8000-000000000001', n, \(try await running.app().id), 'now', '', now(), int8send(n),
                    CASE n % 3 WHEN 0 THEN now() + interval '1 hour' ELSE now() - interval '1 minute' END,
                    CASE WHEN n % 3 > 0 AND n > 6 THEN now() END
                FROM generate_series(1, 3000) AS n
                """)
            let (found, read) = try await running.service.pool.session { session in
                let before = try session.entriesRead(of: "jobs")
                let found = try session.transaction { session in
                    try JobStore(session: session).claimFree(100, of: .now, leaseSeconds: 60)
                }
                return (found.map(\.number), try session.entriesRead(of: "jobs") - before)
            }
            #expect(found.sorted() == [1, 2, 4, 5])
            #expect(read < 100)
        }
    }
}
