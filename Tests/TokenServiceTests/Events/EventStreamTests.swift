import Broker
import Foundation
import Observability
import Postgres
import PushModel
import RabbitMQ
import StrictJSON
import TestBroker
import TestDatabase
import TestSupport
import Testing
import TokenServiceEvents

@Suite("The service publishes state changes on push.outcomes as CloudEvents", .serialized, .timeLimit(.minutes(5)))
struct EventStreamTests {
    /// Binds a queue to what `key` says of everything, as a team would, and reads it.
    static func listen<R: Sendable>(
        _ key: String, _ running: RunningService, _ body: @Sendable (Signal<ReceivedMessage>) async throws -> R
    ) async throws -> R {
        let queue = "\(running.topology.prefix).team"
        let exchange = "\(running.topology.prefix).outcomes"
        try await TestBroker.withConnection(running.broker) { connection in
            try connection.declareQueue(queue, arguments: ["x-queue-type": "quorum"])
            try connection.bind(queue: queue, to: exchange, routingKey: key)
        }
        let result: Result<R, any Error>
        do { result = .success(try await running.tap(Subscription(queue: queue, prefetch: 100), body)) } catch { result = .failure(error) }
        try await TestBroker.withConnection(running.broker) { try $0.deleteQueue(queue) }
        return try result.get()
    }

    static func stream(_ logs: String, _ running: RunningService) async throws {
        let changed = try await running.client.call("PATCH", "/v1/admin/apps/shop", #"{"event_stream":[\#(logs)]}"#)
        try #require(changed.status == 200)
    }

    /// Events until all of these have come; each may come more than once, with the same id, also one of those that are known.
    private static func events(
        _ keys: Set<String>, after known: Set<String?> = [], from signal: Signal<ReceivedMessage>
    ) async throws -> [String: JSONValue] {
        var found: [String: JSONValue] = [:]
        while Set(found.keys) != keys {
            let message = try await signal.next()
            if known.contains(message.messageID?.description) { continue }
            let event = try JSONValue.parse(message.body)
            #expect(message.contentType == "application/cloudevents+json")
            #expect(event.text("id") == message.messageID?.description)
            #expect(event.text("type") == "push.\(message.routingKey.split(separator: ".").dropFirst().joined(separator: ".")).v1")
            #expect(event.text("specversion") == "1.0" && event.text("source") == "/push/token-service")
            #expect(keys.contains(message.routingKey), "\(message.routingKey)")
            if let before = found[message.routingKey], before.text("subject") == event.text("subject") {
                #expect(before.text("id") == event.text("id"))
            }
            found[message.routingKey] = event
            let text = String(decoding: message.body, as: UTF8.self)
            #expect(!text.contains("somebody") && !text.contains("hello") && !text.contains(token(1)))
        }
        return found
    }

    private static func subject(_ signal: Signal<ReceivedMessage>) async throws -> String? {
        try JSONValue.parse(try await signal.next().body).text("subject")
    }

    private static func ids(_ events: [String: JSONValue]) -> Set<String?> { Set(events.values.map { $0.text("id") }) }

    @Test("The events show a notification's life") func notificationLife() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await Self.stream(#""notifications""#, running)
            try await shop.register(installation(1), user: "somebody", token: token(1))
            try await Self.listen("shop.notification.*", running) { signal in
                let job = try await running.sendAndTake(#"{"user":"somebody"}"#, with: shop)
                try await running.sending(job.notification, shop)
                try await running.report(.accepted, of: job, status: 200)
                let events = try await Self.events(
                    ["shop.notification.accepted", "shop.notification.sending", "shop.notification.completed"], from: signal)
                for event in events.values {
                    #expect(event.text("subject") == "notifications/\(job.notification)")
                    #expect(event["data"]?.number("total") == 1)
                }
                #expect(events["shop.notification.completed"]?["data"]?["counts"]?.number("accepted") == 1)
                #expect(events["shop.notification.accepted"]?["data"]?["counts"] == nil)
            }
        }
    }

    /// No dispatcher ever sees it.
    @Test("A delivery that ends before it is published has its outcome event, too") func unpublishedEnd() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await running.operate()
            let users = ["ada", "grace", "linus"]
            for (number, user) in zip(1..., users) { try await shop.register(installation(number), user: user, token: token(number)) }
            let hold = try await chief.setHold(#"{"all":true,"reason":"wrong prices"}"#)
            var ids: [String?] = []
            for user in users { ids.append(try await shop.send(#"{"user":"\#(user)"}"#).json.text("id")) }
            let (stopped, fenced, late) = (try #require(ids[0]), try #require(ids[1]), try #require(ids[2]))
            let published = try await Self.listen("shop.*", running) { signal in
                // The service publishes its end in spite of the hold.
                _ = try await shop.delete("/v1/apps/shop/notifications/\(stopped)")
                _ = try await shop.post("/v1/apps/shop/installations/\(installation(2))/logout")
                try await running.execute("UPDATE notifications SET expires_at = now() WHERE id = \(late)::text::uuid")
                try await chief.liftHold(hold)
                var published: [String: OutcomeEvent] = [:]
                while published.count < users.count {
                    let message = try await signal.next()
                    published[message.routingKey] = try OutcomeEvent(decoding: message.body)
                }
                return published
            }
            for (key, id, reason, number) in [
                ("shop.cancelled", stopped, "cancelled_before_publishing", 1), ("shop.fenced", fenced, "owner_changed", 2),
                ("shop.expired", late, "expired_before_publishing", 3),
            ] {
                let event = try #require(published[key], "\(published.keys)")
                #expect(event.source == "/push/token-service" && event.isFinal)
                #expect(event.deliveries.map(\.notification.description) == [id])
                #expect(event.deliveries.map(\.installation) == [installation(number)])
                #expect(event.deliveries.map(\.reason) == [reason])
                _ = try await eventually { try await shop.status(id).text("completed_at") == nil ? nil : true }
            }
            let left: PostgresQuery = "SELECT count(*) FROM jobs WHERE published_at IS NULL"
            _ = try await eventually { try await running.count(left) == 0 ? true : nil }
        }
    }

    @Test("The events show notifications that are fanned out, cancelled, superseded or without a device") func otherStates() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await Self.stream(#""notifications""#, running)
            try await shop.register(installation(1), user: "somebody", token: token(1), tags: ["beta"])
            try await Self.listen("shop.notification.#", running) { signal in
                #expect(try await shop.send(#"{"user":"nobody"}"#).status == 202)
                var known = Self.ids(try await Self.events(["shop.notification.no_targets"], from: signal))

                let scheduled = try await shop.send(#"{"user":"somebody"}"#, more: #","not_before":"2099-01-01T00:00:00Z""#)
                #expect(scheduled.status == 400)
                let soon = RFC3339.text(milliseconds: UnixClock.now() + 3_600_000)
                for key in ["", ""] {
                    #expect(
                        try await shop.send(#"{"user":"somebody"}"#, more: #","not_before":"\#(soon)","supersede_key":"eta"\#(key)"#).status
                            == 202)
                }
                let superseded = try await Self.events(
                    ["shop.notification.scheduled", "shop.notification.superseded"], after: known, from: signal)
                known.formUnion(Self.ids(superseded))

                let later = try await shop.send(#"{"all":true}"#, more: #","not_before":"\#(soon)""#)
                let id = try #require(later.json.text("id"))
                #expect(try await shop.delete("/v1/apps/shop/notifications/\(id)").status == 200)
                let cancelled = try await Self.events(
                    ["shop.notification.scheduled", "shop.notification.cancelled"], after: known, from: signal)
                known.formUnion(Self.ids(cancelled))
                #expect(cancelled["shop.notification.cancelled"]?.text("subject") == "notifications/\(id)")

                let job = try await running.jobs(.bulk) { jobs in
                    #expect(try await shop.send(#"{"tags":"beta"}"#).status == 202)
                    return try PushJob(decoding: try await jobs.next().body)
                }
                try await running.sending(job.notification, shop)
                try await running.report(.rejected, of: job, status: 413, reason: "PayloadTooLarge")
                let fannedOut = try await Self.events(
                    [
                        "shop.notification.accepted", "shop.notification.expanding", "shop.notification.sending",
                        "shop.notification.completed",
                    ], after: known, from: signal)
                #expect(fannedOut["shop.notification.completed"]?["data"]?["counts"]?.number("rejected") == 1)
                #expect(fannedOut["shop.notification.accepted"]?["data"]?["total"] == nil)
            }
        }
    }

    @Test("The events show the life of an installation and of its tokens") func installationLife() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await Self.stream(#""installations""#, running)
            try await Self.listen("shop.#", running) { signal in
                try await shop.register(installation(1), user: "somebody", token: token(1))
                try await shop.register(installation(2), user: "somebody", token: token(1))
                _ = try await shop.post("/v1/apps/shop/installations/\(installation(2))/logout")
                _ = try await shop.delete("/v1/apps/shop/installations/\(installation(2))")
                let events = try await Self.events(
                    [
                        "shop.installation.registered", "shop.installation.signed_out", "shop.installation.deregistered",
                        "shop.token.moved_here", "shop.token.moved_away",
                    ], from: signal)
                let moved = try #require(events["shop.token.moved_here"])
                #expect(moved.text("subject") == "installations/\(installation(2))")
                #expect(moved["data"]?.text("other_installation") == installation(1).description)
                #expect(moved["data"]?["token"]?.text("hint") == hint(1))
                #expect(events["shop.installation.signed_out"]?["data"]?.text("reason") == "logout")
            }
        }
    }

    @Test("The events show what devices reported, each event of a delivery once") func deviceReceipts() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await Self.stream(#""device_receipts""#, running)
            try await shop.register(installation(1), user: "somebody", token: token(1))
            try await Self.listen("shop.delivery.*", running) { signal in
                let job = try await running.sendAndTake(#"{"user":"somebody"}"#, with: shop, more: #","device_receipts":true"#)
                try await running.sending(job.notification, shop)
                let receipts = ["shown", "shown", "opened"].map {
                    #"{"notification":"\#(job.notification)","job":0,"event":"\#($0)","at":"2026-11-26T10:00:00Z"}"#
                }
                let body = #"{"receipts":[\#(receipts.joined(separator: ","))]}"#
                #expect(try await shop.post("/v1/apps/shop/installations/\(installation(1))/receipts", body).status == 200)
                let events = try await Self.events(["shop.delivery.shown", "shop.delivery.opened"], from: signal)
                for event in events.values {
                    #expect(event.text("subject") == "deliveries/\(job.deliveries[0].id)")
                    #expect(event["data"]?.text("delivery") == job.deliveries[0].id.description)
                    #expect(event["data"]?.text("notification") == job.notification.description)
                    #expect(event["data"]?.text("installation") == installation(1).description)
                }
            }
        }
    }

    /// What comes from a queue that is still bound to everything is ours and no outcome.
    @Test("The service does not take its own events for outcomes") func ownEvents() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "somebody", token: token(1))
            // Once it has taken one, it is connected, and takes no binding away any more.
            try await Self.settleOne(running, shop)
            try await TestBroker.withConnection(running.broker) { [topology = running.topology] connection in
                try connection.bind(queue: topology.tokenServiceOutcomesQueue, to: "\(topology.prefix).outcomes", routingKey: "#")
            }
            try await Self.stream(#""installations""#, running)
            try await shop.register(installation(2), user: "somebody", token: token(2))
            // One, or two: that of the first installation too, if the feed had not got so far yet.
            let series = ["1", "2"].map { #"push_token_service_events_published_total{log="installations",sink="broker"} \#($0)\#n"# }
            _ = try await eventually { series.contains { running.metrics.render().contains($0) } ? true : nil }
            try await Self.settleOne(running, shop)
            #expect(!running.metrics.render().contains("push_token_service_outcomes_undecodable_total 1"))
            #expect(try await TestBroker.messageCount(running.topology.deadQueue, running.broker) == 0)
        }
    }

    /// The service reads reports in the order in which it gets them.
    private static func settleOne(_ running: RunningService, _ shop: APITestClient) async throws {
        let job = try await running.sendAndTake(#"{"installation":"\#(installation(1))"}"#, with: shop)
        try await running.report(.accepted, of: job, status: 200)
        _ = try await running.completed(job.notification, shop)
    }

    /// The feed also publishes a row with a lower number that is committed later, and holds back rows with higher numbers until then.
    @Test("The feed does not pass over a row that is committed late") func lateCommit() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await Self.stream(#""installations""#, running)
            try await Self.listen("shop.installation.*", running) { signal in
                let late = Signal<Void>()
                let inserted = Signal<Void>()
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask {
                        try await running.pool.transaction(deadline: .seconds(240)) { session in
                            try session.execute(
                                """
                                INSERT INTO installation_history (app_id, installation, at, event)
                                SELECT id, \(installation(9)), now(), 'stale' FROM apps
                                """)
                            inserted.send()
                            // Until the others are there, which have higher numbers, and a reader had time to see them.
                            while try session.count("SELECT count(*) FROM installation_history") < 2 {
                                try session.execute("SELECT pg_sleep(0.05)")
                            }
                            try session.execute("SELECT pg_sleep(1.5)")
                        }
                        late.send()
                    }
                    try await inserted.next()
                    try await shop.register(installation(1), user: "somebody", token: token(1))
                    let events = try await Self.events(
                        ["shop.installation.stale", "shop.installation.registered"], from: signal)
                    #expect(events["shop.installation.stale"]?.text("subject") == "installations/\(installation(9))")
                    try await late.next()
                    try await group.waitForAll()
                }
            }
        }
    }

    @Test("A queue that takes nothing holds up the events of its own app only, and gets them later in their order")
    func refusingQueue() async throws {
        try await RunningService.run { running in
            let (shop, other) = (try await running.client.makeApp(), try await running.client.makeApp("other"))
            for app in ["shop", "other"] {
                let changed = try await running.client.call("PATCH", "/v1/admin/apps/\(app)", #"{"event_stream":["installations"]}"#)
                try #require(changed.status == 200)
            }
            let full = "\(running.topology.prefix).full"
            let (exchange, key) = (running.topology.outcomesExchange, "other.installation.registered")
            try await TestBroker.withConnection(running.broker) { connection in
                try connection.declareQueue(full, arguments: ["x-queue-type": "quorum", "x-max-length": 0, "x-overflow": "reject-publish"])
                try connection.bind(queue: full, to: exchange, routingKey: key)
            }
            // RabbitMQ takes a message above the limit, and then no more.
            try await other.register(installation(9), user: nil, token: token(9), app: "other")
            _ = try await eventually { try await TestBroker.messageCount(full, running.broker) == 1 ? true : nil }
            try await Self.listen("shop.installation.registered", running) { signal in
                for number in 1...5 {
                    try await other.register(installation(number), user: nil, token: token(number), app: "other")
                    try await shop.register(installation(number), user: nil, token: token(number))
                    let subject = try await Self.subject(signal)
                    #expect(subject == "installations/\(installation(number))")
                }
                #expect(signal.waiting.isEmpty)
            }
            #expect(try await TestBroker.messageCount(full, running.broker) == 1)
            let behind: PostgresQuery = """
                SELECT count(*) FROM event_feeds f, unnest(f.behind_apps, f.behind_positions) AS b (app, position)
                WHERE b.app = (SELECT id FROM apps WHERE slug = 'other') AND b.position < f.position
                    AND f.position >= (SELECT max(id) FROM installation_history WHERE app_id <> b.app)
                """
            _ = try await eventually { try await running.count(behind) == 1 ? true : nil }
            try await Self.listen(key, running) { signal in
                try await TestBroker.withConnection(running.broker) { try $0.deleteQueue(full) }
                var found: [String?] = []
                while found.count < 5 {
                    let subject = try await Self.subject(signal)
                    if !found.contains(subject) { found.append(subject) }
                }
                #expect(found == (1...5).map { "installations/\(installation($0))" })
            }
            _ = try await eventually { try await running.count(behind) == 0 ? true : nil }
        }
    }

    @Test("Another process goes on with an app that is behind, and publishes no other app's events again") func nextProcessBehind()
        async throws
    {
        try await RunningService.run(.init(without: { $0 is EventFeed })) { running in
            let (shop, other) = (try await running.client.makeApp(), try await running.client.makeApp("other"))
            for app in ["shop", "other"] {
                let changed = try await running.client.call("PATCH", "/v1/admin/apps/\(app)", #"{"event_stream":["installations"]}"#)
                try #require(changed.status == 200)
            }
            for number in 1...2 {
                try await other.register(installation(number), user: nil, token: token(number), app: "other")
                try await shop.register(installation(number), user: nil, token: token(number))
            }
            try await running.execute(
                """
                UPDATE event_feeds SET position = (SELECT max(id) FROM installation_history),
                    behind_apps = ARRAY[(SELECT id FROM apps WHERE slug = 'other')], behind_positions = '{0}'
                WHERE log = 'installations' AND sink = 'broker'
                """)
            try await Self.listen("*.installation.registered", running) { signal in
                try await running.another { _ in
                    var found: Set<String> = []
                    while found.count < 2 {
                        let message = try await signal.next()
                        #expect(message.routingKey == "other.installation.registered")
                        found.insert(try #require(try JSONValue.parse(message.body).text("subject")))
                    }
                    _ = try await eventually {
                        try await running.count("SELECT count(*) FROM event_feeds WHERE behind_apps <> '{}'") == 0 ? true : nil
                    }
                }
                #expect(signal.waiting.allSatisfy { $0.routingKey == "other.installation.registered" })
            }
        }
    }

    /// The process that takes over begins where the other one had got to, and an event that is published twice has the same id.
    @Test("Another process goes on where the first one stopped") func nextProcess() async throws {
        try await RunningService.run(.init(without: { $0 is EventFeed })) { running in
            let shop = try await running.client.makeApp()
            try await Self.stream(#""installations""#, running)
            let found = Signal<[String: PushID]>()
            try await Self.listen("shop.installation.registered", running) { signal in
                for number in 1...3 { try await shop.register(installation(number), user: nil, token: token(number)) }
                var rounds: [[String: PushID]] = []
                for _ in 1...2 {
                    try await running.another { _ in
                        var ids: [String: PushID] = [:]
                        while ids.count < 3 {
                            let message = try await signal.next()
                            let subject = try #require(try JSONValue.parse(message.body).text("subject"))
                            #expect(
                                ids.updateValue(try #require(message.messageID), forKey: subject).map { $0 == message.messageID } ?? true)
                        }
                        found.send(ids)
                    }
                    rounds.append(try await found.next())
                    // It had published them and died before it wrote that down.
                    try await running.execute("UPDATE event_feeds SET position = 0")
                }
                #expect(rounds[0] == rounds[1])
            }
        }
    }

    @Test("The service writes no events down if no consumer wants them") func noConsumer() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "somebody", token: token(1))
            _ = try await running.sendAndTake(#"{"user":"somebody"}"#, with: shop)
            #expect(try await running.count("SELECT count(*) FROM notification_events") == 0)
            // A webhook for something else does not change that; one for notifications does.
            let admin = try await running.client.makeKey(app: "shop", scopes: ["admin"])
            _ = try await WebhookWorld.make(url: "https://example.invalid/", events: ["token.*", "delivery.failed"], admin)
            _ = try await running.sendAndTake(#"{"user":"somebody"}"#, with: shop)
            #expect(try await running.count("SELECT count(*) FROM notification_events") == 0)
            let made = try await WebhookWorld.make(url: "https://example.invalid/", events: ["notification.completed"], admin)
            _ = try await running.sendAndTake(#"{"user":"somebody"}"#, with: shop)
            #expect(try await running.count("SELECT count(*) FROM notification_events") > 0)
            _ = try await admin.delete("\(WebhookWorld.path)/\(try #require(made.json.text("id")))")
            #expect(try await running.count("SELECT count(*) FROM apps WHERE reports_notifications") == 0)
        }
    }
}
