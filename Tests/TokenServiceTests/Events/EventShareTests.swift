import Postgres
import PushModel
import TestSupport
import Testing

@testable import TokenServiceApps
@testable import TokenServiceEvents
@testable import TokenServiceKit

@Suite("Shares of events for webhooks", .serialized, .timeLimit(.minutes(5)))
struct EventShareTests {
    /// Queued messages stay as they are.
    private static let still = RunningService.Options(settings: WebhookWorld.options().settings, without: { $0 is WebhookDispatcher })

    /// The app `shop` has twenty webhooks, the app `quiet` one; all want everything.
    private static func makeWebhooks(_ running: RunningService) async throws {
        _ = try await running.client.makeApp()
        _ = try await running.client.makeApp("quiet")
        try await running.execute(
            """
            INSERT INTO webhooks (id, app_id, url, events, secret)
            SELECT gen_random_uuid(), a.id, 'https://example.com/', '{*}', decode(repeat('0f', 32), 'hex')
            FROM apps a CROSS JOIN LATERAL generate_series(1, CASE a.slug WHEN 'shop' THEN 20 ELSE 1 END)
            """)
    }

    /// Messages that one transaction has stored, at most.
    private static func largestTransaction(_ running: RunningService) async throws -> Int64 {
        try await running.count(
            "SELECT max(number) AS count FROM (SELECT count(*) AS number FROM webhook_messages GROUP BY xmin::text) AS transactions")
    }

    @Test("An app with many events for many webhooks gets a share in each round, and the others' events do not wait for it")
    func shares() async throws {
        try await RunningService.run(Self.still) { running in
            try await Self.makeWebhooks(running)
            // The event of `quiet` comes last.
            try await running.execute(
                """
                INSERT INTO installation_history (app_id, installation, at, event)
                SELECT a.id, gen_random_uuid(), now(), 'stale'
                FROM apps a CROSS JOIN LATERAL generate_series(1, CASE a.slug WHEN 'shop' THEN 600 ELSE 1 END) ORDER BY a.slug DESC
                """)
            _ = try await eventually { try await running.count("SELECT count(*) FROM webhook_messages") == 600 * 20 + 1 ? true : nil }
            #expect(try await Self.largestTransaction(running) <= EventSink.Interest.share)
            let before = try await running.count(
                """
                SELECT count(DISTINCT m.xmin::text) FROM webhook_messages m WHERE m.created_at < (
                    SELECT q.created_at FROM webhook_messages q JOIN webhooks w ON w.id = q.webhook JOIN apps a ON a.id = w.app_id
                    WHERE a.slug = 'quiet')
                """)
            // The share of the round in which `shop` fell behind, and that of the next one.
            #expect(before <= 2)
        }
    }

    @Test("Outcomes for many webhooks are stored in several transactions") func outcomes() async throws {
        try await RunningService.run(Self.still) { running in
            try await Self.makeWebhooks(running)
            let app = try #require(AppSlug("shop"))
            let events = (0..<150).map { _ in
                OutcomeEvent(
                    id: .random(), source: "/push/dispatcher/a", time: 0, app: app, outcome: .accepted, isFinal: true,
                    deliveries: [OutcomeEvent.Delivery(id: .random(), notification: .random(), installation: .random(), attempt: 1)])
            }
            let webhooks = WebhookSubscriptions(pool: running.pool, wakeUp: WorkSignal())
            // Twice: nothing comes twice.
            for _ in 1...2 { #expect(try await webhooks.queue(events)) }
            #expect(try await running.count("SELECT count(*) FROM webhook_messages") == 150 * 20)
            #expect(try await Self.largestTransaction(running) <= WebhookQueue.insertedAtOnce)
        }
    }

    /// Every app is within its share, and all of them together are above the limit.
    @Test("The first events are stored whose messages one transaction may have") func portion() throws {
        let all = try #require(WebhookFilter("*"))
        let apps = 10
        let slugs = try (0...apps).map { app in try #require(AppSlug("shop-\(app)")) }
        var interest = EventSink.Interest(apps: (1...apps).map { App.ID($0) })
        for app in 1...apps {
            interest.webhooks[slugs[app]] = (0..<20).map { _ in
                Webhook.Subscription(id: .random(), app: App.ID(app), slug: slugs[app], events: [all])
            }
        }
        func event(_ app: Int) -> PlatformEvent {
            PlatformEvent(id: .random(), topic: EventTopic.ping, app: App.ID(app), slug: slugs[app], subject: "installations/1", time: 0)
        }
        let turns = (0..<200).map { event($0 % apps + 1) }
        #expect(interest.portion(of: turns).count == WebhookQueue.insertedAtOnce / 20)
        #expect(interest.portion(of: turns).late.isEmpty)
        let one = interest.portion(of: (0..<30).map { _ in event(1) } + [event(2)])
        #expect(one.count == 31)
        #expect(one.late == [1: EventSink.Interest.share / 20])
        #expect(EventSink.Interest(apps: interest.apps).portion(of: turns).count == turns.count)
    }
}
