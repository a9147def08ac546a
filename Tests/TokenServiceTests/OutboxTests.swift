import Logging
import Postgres
import PushModel
import StrictJSON
import SystemIO
import TestBroker
import TestSupport
import Testing

@testable import Broker
@testable import TokenService

@Suite("The outbox: what is accepted stays in it until the broker has confirmed", .serialized, .timeLimit(.minutes(5)))
struct OutboxTests {
    private static let rows: PostgresStatement = "SELECT count(*) FROM outbox"
    private static let listed: PostgresStatement = "SELECT count(*) FROM notifications WHERE free_from IS NOT NULL"

    /// It neither runs out nor is renewed while a test runs.
    private static let longLease = ["RELAY_LEASE_SECONDS": "3600"]

    private static func underWay(_ running: RunningService) -> Int? {
        running.service.services.lazy.compactMap { $0 as? PublishSettlements }.first?.underWayCount
    }

    @Test("Once confirmed, nothing of it is left for anybody to find") func confirmed() async throws {
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
            _ = try await eventually {
                try await running.count("SELECT count(*) FROM notifications WHERE published_at IS NULL") == 0 ? true : nil
            }
            #expect(try await running.count(Self.rows) == 0)
            #expect(try await running.count("SELECT count(*) FROM notifications WHERE state = 'sending'") == 40)
            #expect(try await running.count(Self.listed) == 0)
            _ = try await eventually { Self.underWay(running) == 0 ? true : nil }
        }
    }

    @Test("What ends in it is told again under the same id, until the broker has it; more than that is another event") func toldAgain()
        async throws
    {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            for number in 1...3 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id").flatMap { PushID($0) })
            try await running.sending(id, shop)
            // As if the broker had not taken it.
            try await running.execute("UPDATE notifications SET published_at = NULL")
            func resolve() async throws -> OutboxStore.Claimed {
                try await running.pool.transaction { session in try #require(try OutboxStore(session: session).resolve([id]).first) }
            }
            #expect(try await resolve().stopped.isEmpty)
            _ = try await shop.post("/v1/apps/shop/installations/\(installation(1))/logout")
            let (first, second) = (try await resolve(), try await resolve())
            #expect(first.deliveries.count == 2 && first.stopped.map(\.deliveries.count) == [1])
            #expect(second.stopped.map(\.id) == first.stopped.map(\.id))
            _ = try await shop.post("/v1/apps/shop/installations/\(installation(2))/logout")
            let third = try await resolve()
            #expect(third.deliveries.count == 1 && third.stopped.map(\.deliveries.count) == [2])
            #expect(third.stopped.map(\.id) != first.stopped.map(\.id))
        }
    }

    @Test(
        "Small jobs of one app share a message, each with its own trace, unless parcels are off", arguments: JobPublisher.Parcels.allCases)
    func company(parcels: JobPublisher.Parcels) async throws {
        try await RunningService.run { running in
            let settlements = try #require(running.service.services.lazy.compactMap { $0 as? PublishSettlements }.first)
            let jobs = JobPublisher(
                publisher: running.service.publisher, topology: running.topology, parcels: parcels, lease: .seconds(30),
                settlements: settlements, window: RelayWindow(logger: Logger(label: "test"), onGrowth: {}))
            let delivery = PushJob.Delivery(
                id: .random(), token: try #require(DeviceToken(bytes: [1])), environment: .production, installation: .random(),
                ownerEpoch: 1)
            let slugs = try ["other", "shop"].map { try #require(AppSlug($0)) }
            let accepted = (0..<40).map { number in
                let template = JobTemplate(
                    notification: PushID(high: 7, low: UInt64(number)), app: slugs[number % 2], lane: .now, pushType: .alert, topic: "t",
                    priority: 10, apnsExpiration: 0, expiresAt: .max, acceptedAt: 0, onUnknown: .resend,
                    payload: [UInt8](repeating: 32, count: number < 38 ? 2 : 3000), traceparent: "trace \(number)")
                return JobPublisher.Accepted(template: template, deliveries: [delivery], outbox: nil)
            }
            jobs.publish(accepted)
            let messages = try await running.jobs { try await $0.next(40) }
            var apps: [UInt64: Set<AppSlug>] = [:]
            for message in messages {
                let job = try PushJob(decoding: message.body)
                #expect(message.header("traceparent") == "trace \(job.notification.low)")
                apps[message.receipt.tag, default: []].insert(job.app)
            }
            #expect(Set(messages.compactMap(\.messageID)).count == 40)
            // Of each app sixteen, three, and the large one.
            #expect(apps.count == (parcels == .on ? 6 : 40))
            #expect(apps.values.map(\.count) == [Int](repeating: 1, count: apps.count))
        }
    }

    @Test("What is due at once does not wait for the clock of the process that accepted it", arguments: [3_600_000, -3_600_000] as [Int64])
    func acceptedByAWrongClock(step: Int64) async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let app = try #require(try await AppStore(pool: running.pool).all().first)
            let request = try #require(
                try ParsedRequest(#"{"to":{"users":["ada"]},"content":{"alert":"a"}}"#, now: UnixTime.milliseconds()).request)
            let notification = Notification(
                id: .random(), app: app.slug, topic: app.bundleID, request: request, acceptedAt: UnixTime.milliseconds() + step,
                traceparent: "")
            let item = NotificationStore.Item(notification: notification, app: app, idempotency: nil, leaseSeconds: 0)
            _ = try await running.pool.transaction { session in try NotificationStore(session: session).insert([item]) }
            #expect(try await running.count("SELECT count(*) FROM notifications WHERE free_from <= now() AND state = 'accepted'") == 1)
        }
    }

    /// A process that stood still wakes up and writes down what it published, while a relay has taken it over and ends what is left.
    @Test("What two write down at the same moment is counted as it is") func takenOverAndPublished() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id").flatMap { PushID($0) })
            _ = try await eventually { Self.underWay(running) == 0 ? true : nil }
            try await running.execute("UPDATE notifications SET published_at = NULL, free_from = now(), state = 'accepted'")
            try await running.execute("UPDATE installations SET owner_epoch = owner_epoch + 1")
            let marked = Signal<Void>()
            async let published: Void = running.pool.transaction { session in
                try OutboxStore(session: session).markPublished([id])
                marked.send(())
                try session.execute(
                    """
                    DO $$ BEGIN
                        FOR i IN 1..400 LOOP
                            EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'transactionid');
                            PERFORM pg_sleep(0.05);
                        END LOOP;
                    END $$
                    """)
            }
            _ = try await marked.next()
            _ = try await running.pool.transaction { session in try OutboxStore(session: session).resolve([id]) }
            try await published
            let pending = try await running.count("SELECT sum(pending)::bigint FROM notifications")
            #expect(try await running.count("SELECT count(*) FROM deliveries WHERE class IS NULL") == pending)
        }
    }

    @Test("While the broker says nothing it stays there, and without its lease another process publishes it") func unconfirmed()
        async throws
    {
        let proxy = try FaultProxy(port: RunningService.port(of: RunningService.environment(TestBroker.variable)))
        try await RunningService.run(.init(settings: Self.longLease, without: { $0 is Relay }, brokerPort: proxy.port)) { dying in
            let shop = try await dying.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            _ = try await eventually { dying.service.publisher.state == .ready ? true : nil }
            proxy.set(.paused)
            let sent = try await shop.send(#"{"user":"ada"}"#)
            #expect(sent.status == 202)
            // Longer than it takes to write down what was confirmed.
            _ = try await eventually { Self.underWay(dying) == 1 ? true : nil }
            try await dying.another(.init(without: { $0 is Relay })) { living in
                _ = try await eventually { living.service.publisher.state == .ready ? true : nil }
                let key = living.client.with(key: shop.key)
                let other = try await key.send(#"{"user":"ada"}"#)
                let id = try #require(other.json.text("id"))
                _ = try await eventually { try await key.status(id).text("state") == "sending" ? true : nil }
            }
            #expect(try await dying.count(Self.rows) == 1)
            #expect(try await dying.count("SELECT count(*) FROM notifications WHERE published_at IS NULL AND free_from IS NULL") == 1)
            let backlog = try await dying.pool.session { session in try OutboxStore(session: session).backlog(limit: 100, beyond: 0) }
            #expect(backlog == 1)
            // Its lease has not run out: it is nobody else's.
            #expect(try await dying.pool.session { session in try OutboxStore(session: session).open(10, beyond: 0) } == 0)
            try await dying.execute("UPDATE outbox SET lease_until = now()")
            try await dying.another { living in
                let id = try #require(sent.json.text("id"))
                let key = living.client.with(key: shop.key)
                _ = try await eventually { try await key.status(id).text("state") == "sending" ? true : nil }
                try await living.jobs { signal in
                    while try PushJob(decoding: try await signal.next().body).notification.description != id {}
                }
            }
            #expect(try await dying.count(Self.rows) == 0)
            #expect(try await dying.count(Self.listed) == 0)
            proxy.set(.forwarding)
        }
        proxy.stop()
    }

    @Test("A relay looks no further back than to what may still come, and now and then from the beginning") func reach() {
        let start = ContinuousClock.Instant.now
        var reach = OutboxReach(now: start)
        reach.measured(last: 100, first: nil, at: start)
        #expect(reach.beyond == 0)
        reach.measured(last: 900, first: 850, at: start + .seconds(60))
        #expect(reach.beyond == 0)
        // Two minutes after 100 was the last number, nothing up to it can still appear.
        reach.measured(last: 1000, first: 990, at: start + .seconds(120))
        #expect(reach.beyond == 100)
        // What is still there is not passed over.
        reach.measured(last: 2000, first: 500, at: start + .seconds(240))
        #expect(reach.beyond == 499)
        reach.measured(last: 3000, first: nil, at: start + .seconds(360))
        #expect(reach.beyond == 2000)
        reach.measured(last: 4000, first: nil, at: start + .seconds(1800))
        #expect(reach.beyond == 0)
    }
}
