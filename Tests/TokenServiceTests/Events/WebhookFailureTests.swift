import Configuration
import Logging
import Observability
import Postgres
import PushModel
import StrictJSON
import Synchronization
import TestSupport
import Testing
import TokenServiceEvents

@Suite("Webhooks that fail", .serialized, .timeLimit(.minutes(5)))
struct WebhookFailureTests {
    /// Answers the first so many requests with something else.
    private static func failing(_ times: Int, _ reply: WebhookReceiver.Reply) -> WebhookReceiver.Answering {
        let left = Mutex(times)
        return { _ in
            left.withLock { left in
                left -= 1
                return left >= 0 ? reply : .ok
            }
        }
    }

    @Test(
        "The service sends a failed message again under its id",
        arguments: [
            WebhookReceiver.Reply.status(500), .status(429), .hangUp, .status(307, headers: [("location", "https://example.com/")]),
        ])
    func sentAgain(_ reply: WebhookReceiver.Reply) async throws {
        try await WebhookReceiver.run(Self.failing(2, reply)) { receiver in
            try await RunningService.run(WebhookWorld.options()) { running in
                let world = try await WebhookWorld(running, url: receiver.url, events: ["*"])
                let ping = try await world.ping()
                let received = try await receiver.received.next(3)
                #expect(received.map(\.id) == [ping, ping, ping])
                #expect(Set(received.map(\.body)).count == 1)
                let message = try await world.message(ping, "delivered")
                #expect(message.number("attempts") == 3)
                _ = try await eventually { try await world.webhook()["failing_since"] == nil ? true : nil }
                #expect(try await world.webhook().text("last_failure") != nil)
            }
        }
    }

    @Test("After the last attempt the service gives a message up, and a client can have it sent again") func givenUp() async throws {
        try await WebhookReceiver.run(Self.failing(4, .status(503))) { receiver in
            try await RunningService.run(WebhookWorld.options()) { running in
                let world = try await WebhookWorld(running, url: receiver.url, events: ["*"])
                let ping = try await world.ping()
                let message = try await world.message(ping, "failed")
                #expect(message.number("attempts") == 4)
                #expect(message.number("last_status") == 503)
                #expect(message.text("last_error") == "status_503")
                let webhook = try await world.webhook()
                #expect(webhook["enabled"]?.boolValue == true)
                #expect(webhook.text("failing_since") != nil)
                #expect(running.metrics.render().contains("push_token_service_webhook_messages_failed_total 1"))
                let again = try await world.admin.post("\(world.path)/redeliver", #"{"failed":true}"#)
                #expect(again.json.number("redelivered") == 1)
                #expect(try await world.message(ping, "delivered").number("attempts") == 1)
            }
        }
    }

    @Test("A webhook that answers 410 gets nothing more until it is enabled") func goneReceiver() async throws {
        try await WebhookReceiver.run(Self.failing(1, .status(410))) { receiver in
            try await RunningService.run(WebhookWorld.options()) { running in
                let world = try await WebhookWorld(running, url: receiver.url, events: ["*"])
                let ping = try await world.ping()
                _ = try await eventually { try await world.webhook().text("disabled_reason") == "gone" ? true : nil }
                #expect(try await world.webhook()["enabled"]?.boolValue == false)
                #expect(try await world.admin.post("\(world.path)/ping").code == "webhook_disabled")
                #expect(running.metrics.render().contains(#"push_token_service_webhooks_disabled_total{reason="gone"} 1"#))
                #expect(receiver.received.waiting.count == 1)
                let enabled = try await world.admin.call("PATCH", world.path, #"{"enabled":true}"#)
                #expect(enabled.json["enabled"]?.boolValue == true)
                #expect(enabled.json["disabled_reason"] == nil)
                // What was refused waits still.
                _ = try await world.message(ping, "delivered")
            }
        }
    }

    @Test("After days of failure the service disables a webhook") func daysOfFailure() async throws {
        try await WebhookReceiver.run({ _ in .status(500) }) { receiver in
            try await RunningService.run(WebhookWorld.options()) { running in
                let world = try await WebhookWorld(running, url: receiver.url, events: ["*"])
                _ = try await world.message(try await world.ping(), "failed")
                #expect(try await world.webhook()["enabled"]?.boolValue == true)
                try await running.execute("UPDATE webhooks SET failing_since = now() - interval '6 days'")
                _ = try await world.ping()
                _ = try await eventually { try await world.webhook().text("disabled_reason") == "failing" ? true : nil }
            }
        }
    }

    @Test("The service disables a webhook for which too many messages wait") func largeBacklog() async throws {
        try await RunningService.run(WebhookWorld.options(["WEBHOOK_BACKLOG_LIMIT": "10"])) { running in
            let world = try await WebhookWorld(running, url: "http://127.0.0.1:9/", events: ["*"])
            try await running.execute(
                """
                INSERT INTO webhook_messages (webhook, id, topic, body, created_at, due_at)
                SELECT w.id, gen_random_uuid(), 'webhook.ping', '{}', now(), now() + interval '1 hour'
                    FROM webhooks w, generate_series(1, 11)
                """)
            _ = try await eventually { try await world.webhook().text("disabled_reason") == "backlog_full" ? true : nil }
        }
    }

    /// Every one of its messages hangs, and the other webhook's come through all the same.
    @Test("A slow webhook holds up no other") func slowReceiver() async throws {
        try await WebhookReceiver.run({ _ in .silence }) { slow in
            try await WebhookReceiver.run { quick in
                try await RunningService.run(WebhookWorld.options(["WEBHOOK_TIMEOUT_SECONDS": "60"])) { running in
                    let world = try await WebhookWorld(running, url: slow.url, events: ["installation.registered"])
                    for number in 1...20 { try await world.shop.register(installation(number), user: nil, token: token(number)) }
                    _ = try await slow.received.next(4)
                    _ = try await WebhookWorld.make(url: quick.url, events: ["installation.registered"], world.admin)
                    for number in 21...40 { try await world.shop.register(installation(number), user: nil, token: token(number)) }
                    _ = try await quick.received.next(20)
                    // No more of it is under way than may be.
                    #expect(slow.received.waiting.isEmpty)
                    let begun: PostgresQuery = "SELECT count(*) FROM webhook_messages WHERE webhook::text = \(world.id) AND attempts > 0"
                    #expect(try await running.count(begun) == 4)
                }
            }
        }
    }

    @Test("An attempt ends in time, whatever the receiver does") func silentReceiver() async throws {
        try await WebhookReceiver.run(Self.failing(1, .silence)) { receiver in
            try await RunningService.run(WebhookWorld.options(["WEBHOOK_TIMEOUT_SECONDS": "1"])) { running in
                let world = try await WebhookWorld(running, url: receiver.url, events: ["*"])
                let ping = try await world.ping()
                #expect(try await receiver.received.next(2).map(\.id) == [ping, ping])
                // Two, unless the machine was so busy that the second took a second too.
                #expect(try await world.message(ping, "delivered").number("attempts") ?? 0 >= 2)
            }
        }
    }

    @Test("The service does not read an answer's body to its end") func endlessAnswer() async throws {
        try await WebhookReceiver.run({ _ in .flood }) { receiver in
            try await RunningService.run(WebhookWorld.options()) { running in
                let world = try await WebhookWorld(running, url: receiver.url, events: ["*"])
                #expect(try await world.message(try await world.ping(), "delivered").number("last_status") == 200)
            }
        }
    }

    /// The app `shop` has twenty webhooks, the app `quiet` one; ten messages wait for each.
    @Test("No app takes the places of another one's webhooks, and the app with the fewest messages under way comes first")
    func placesOfApps() async throws {
        try await RunningService.run(.init(settings: WebhookWorld.options().settings, without: { $0 is WebhookDispatcher })) { running in
            _ = try await running.client.makeApp()
            _ = try await running.client.makeApp("quiet")
            try await running.execute(
                """
                INSERT INTO webhooks (id, app_id, url, events, secret)
                SELECT gen_random_uuid(), a.id, 'https://example.com/', '{*}', decode(repeat('0f', 32), 'hex')
                FROM apps a CROSS JOIN LATERAL generate_series(1, CASE a.slug WHEN 'shop' THEN 20 ELSE 1 END)
                """)
            try await running.execute(
                """
                INSERT INTO webhook_messages (webhook, id, topic, body, created_at, due_at)
                SELECT w.id, gen_random_uuid(), 'ping', '{}', now(), now() FROM webhooks w CROSS JOIN generate_series(1, 10)
                """)
            let rows = try await running.texts(
                "webhook", "SELECT a.slug || ' ' || w.id AS webhook FROM webhooks w JOIN apps a ON a.id = w.app_id")
            let apps = try Dictionary(
                uniqueKeysWithValues: rows.map { row in
                    let words = row.split(separator: " ")
                    return (try #require(PushID(String(words[1]))), String(words[0]))
                })
            func claim(_ underWay: [PushID: Int], _ limit: Int) async throws -> [String: Int] {
                let claimed = try await running.pool.transaction { session in
                    let claimed = try WebhookQueue(session: session).claim(
                        underWay: underWay, perWebhook: 4, perApp: 12, limit: limit, leaseSeconds: 3600)
                    // The next call finds the same.
                    try session.execute("UPDATE webhook_messages SET due_at = now()")
                    return claimed
                }
                return claimed.reduce(into: [:]) { $0[apps[$1.webhook] ?? "", default: 0] += 1 }
            }
            #expect(try await claim([:], 100) == ["shop": 12, "quiet": 4])
            let ofShop = apps.filter { $0.value == "shop" }.map(\.key)
            #expect(try await claim([ofShop[0]: 4, ofShop[1]: 4, ofShop[2]: 3], 100) == ["shop": 1, "quiet": 4])
            #expect(try await claim([ofShop[0]: 4, ofShop[1]: 4, ofShop[2]: 4], 100) == ["quiet": 4])
            #expect(try await claim([ofShop[0]: 1], 4) == ["quiet": 4])
        }
    }

    /// The process that had it died: the process that finds it when the lease is over sends it under the same id.
    @Test("Another process sends the messages of a dead process again") func deadProcess() async throws {
        try await WebhookReceiver.run { receiver in
            try await RunningService.run(.init(settings: WebhookWorld.options().settings, without: { $0 is WebhookDispatcher })) {
                running in
                let world = try await WebhookWorld(running, url: receiver.url, events: ["*"])
                let ping = try await world.ping()
                let claimed = try await running.pool.transaction { session in
                    try WebhookQueue(session: session).claim(underWay: [:], perWebhook: 4, perApp: 32, limit: 10, leaseSeconds: 3600)
                }
                #expect(claimed.map(\.id.description) == [ping])
                let none = try await running.pool.transaction { session in
                    try WebhookQueue(session: session).claim(underWay: [:], perWebhook: 4, perApp: 32, limit: 10, leaseSeconds: 3600)
                }
                #expect(none.isEmpty)
                // It had even sent it.
                let settings = try Self.settings(WebhookWorld.options().settings)
                let clients = WebhookClients(
                    settings: settings, addresses: WebhookAddresses(rules: settings.rules), concurrency: 1, logger: Logger(label: "test"))
                let outcome = await WebhookAttempt(clients: clients, settings: settings).post(try #require(claimed.first))
                clients.close()
                #expect(outcome == .init(.delivered, status: 204))
                try await running.execute("UPDATE webhook_messages SET due_at = now()")
                try await running.another(WebhookWorld.options()) { _ in
                    let received = try await receiver.received.next(2)
                    #expect(received.map(\.id) == [ping, ping])
                    #expect(try await world.message(ping, "delivered").number("attempts") == 2)
                }
            }
        }
    }

    static func settings(_ settings: [String: String]) throws -> WebhookSettings {
        try WebhookSettings(
            ConfigReader(provider: EnvironmentVariablesProvider(environmentVariables: settings)), logger: Logger(label: "test"))
    }
}
