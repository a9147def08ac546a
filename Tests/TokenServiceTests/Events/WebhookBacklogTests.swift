import Postgres
import PushModel
import StrictJSON
import TestDatabase
import TestSupport
import Testing

@testable import TokenService
@testable import TokenServiceApps
@testable import TokenServiceEvents
@testable import TokenServiceKit
@testable import TokenServiceRegistry
@testable import TokenServiceSending

@Suite("A webhook with very many messages", .serialized, .timeLimit(.minutes(5)))
struct WebhookBacklogTests {
    /// Nothing is sent: the receiver is not there, and no process looks.
    private static let still = RunningService.Options(
        settings: ["WEBHOOK_INSECURE": "true"], without: { $0 is WebhookDispatcher || $0 is Relay })

    private static func insert(
        _ count: Int, _ state: WebhookMessage.State, due: String = "1 hour", _ running: RunningService
    ) async throws {
        try await running.execute(
            """
            INSERT INTO webhook_messages (webhook, id, topic, body, state, created_at, due_at, settled_at)
            SELECT w.id, new_id(), 'webhook.ping', '{}', \(state), now(), now() + \(due)::text::interval, CASE WHEN \(state) <> 'pending'
                THEN now() END
            FROM webhooks w, generate_series(1, \(count))
            """)
    }

    private static func disableOverfull(_ running: RunningService) async throws -> Int {
        try await running.pool.session { session in
            let queue = WebhookQueue(session: session)
            return try queue.enabled().filter { webhook in try queue.disableOverfull(webhook, limit: 10) }.count
        }
    }

    @Test("One that is enabled again has a day to send its backlog: until then twice the limit may wait, however often it is enabled")
    func enabledAgain() async throws {
        try await RunningService.run(Self.still) { running in
            let world = try await WebhookWorld(running, url: "http://127.0.0.1:9/", events: ["*"])
            try await Self.insert(15, .pending, running)
            #expect(try await Self.disableOverfull(running) == 1)
            #expect(try await world.webhook().text("disabled_reason") == "backlog_full")
            #expect(try await world.admin.call("PATCH", world.path, #"{"enabled":true}"#).json["enabled"]?.boolValue == true)
            try await Self.insert(5, .pending, running)
            #expect(try await Self.disableOverfull(running) == 0)
            // More than twice the limit.
            try await Self.insert(1, .pending, running)
            for _ in 1...2 {
                #expect(try await Self.disableOverfull(running) == 1)
                #expect(try await world.admin.call("PATCH", world.path, #"{"enabled":true}"#).json["enabled"]?.boolValue == true)
            }
            try await running.execute("DELETE FROM webhook_messages")
            try await Self.insert(11, .pending, running)
            #expect(try await Self.disableOverfull(running) == 0)
            // The day is over.
            try await running.execute("UPDATE webhooks SET limited_from = limited_from - interval '1 day'")
            #expect(try await Self.disableOverfull(running) == 1)
            // Up to the limit may wait.
            try await running.execute("DELETE FROM webhook_messages")
            #expect(try await world.admin.call("PATCH", world.path, #"{"enabled":true}"#).json["enabled"]?.boolValue == true)
            try await running.execute("UPDATE webhooks SET limited_from = limited_from - interval '1 day'")
            try await Self.insert(10, .pending, running)
            #expect(try await Self.disableOverfull(running) == 0)
            try await Self.insert(1, .pending, running)
            #expect(try await Self.disableOverfull(running) == 1)
        }
    }

    /// The row of the first webhook is locked, as if counting its messages took too long.
    @Test("An overfull webhook that cannot be disabled keeps no other one enabled") func lockedOne() async throws {
        try await RunningService.run(.init(settings: ["WEBHOOK_INSECURE": "true"], without: { $0 is WebhookDispatcher })) { running in
            let world = try await WebhookWorld(running, url: "http://127.0.0.1:9/", events: ["*"])
            let made = try await WebhookWorld.make(url: "http://127.0.0.1:9/", events: ["*"], world.admin)
            let second = try #require(made.json.text("id"))
            try await Self.insert(11, .pending, running)
            try await withThrowingTaskGroup(of: Void.self) { group in
                let locked = Signal<Void>()
                group.addTask {
                    try await running.pool.transaction(deadline: .seconds(240)) { session in
                        try session.execute("SELECT FROM webhooks WHERE id::text = \(world.id) FOR NO KEY UPDATE")
                        locked.send()
                        while try session.count("SELECT count(*) FROM webhooks WHERE disabled_reason = 'backlog_full'") == 0 {
                            try session.execute("SELECT pg_sleep(0.05)")
                        }
                    }
                }
                try await locked.next()
                try await running.another(.init(settings: ["WEBHOOK_INSECURE": "true", "WEBHOOK_BACKLOG_LIMIT": "10"])) { _ in
                    _ = try await eventually { try await Self.disabled(running).contains(second) ? true : nil }
                }
                try await group.waitForAll()
            }
        }
    }

    private static func disabled(_ running: RunningService) async throws -> [String] {
        try await running.texts("id", "SELECT id::text AS id FROM webhooks WHERE disabled_reason = 'backlog_full'")
    }

    @Test("Enabling makes every waiting message due, in steps that leave those alone that are due") func hastened() async throws {
        try await RunningService.run(Self.still) { running in
            let world = try await WebhookWorld(running, url: "http://127.0.0.1:9/", events: ["*"])
            try await Self.insert(100, .pending, due: "-1 hour", running)
            try await Self.insert(2 * WebhookStore.batch + 5, .pending, running)
            try await running.execute("UPDATE webhooks SET disabled_reason = 'backlog_full', disabled_at = now()")
            let (id, app) = (try #require(PushID(world.id)), try await running.app())
            let first = try await running.pool.session { session in try WebhookStore(session: session, app: app).hasten(id) }
            #expect(first != nil)
            #expect(try await running.count("SELECT count(*) FROM webhook_messages WHERE due_at > now()") == WebhookStore.batch + 5)
            #expect(try await world.admin.call("PATCH", world.path, #"{"enabled":true}"#).status == 200)
            #expect(try await running.count("SELECT count(*) FROM webhook_messages WHERE due_at > now()") == 0)
            #expect(try await running.count("SELECT count(*) FROM webhook_messages WHERE due_at < now() - interval '30 minutes'") == 100)
        }
    }

    @Test("Enabling one that is enabled leaves each message its moment, and changes nothing") func notHastened() async throws {
        try await RunningService.run(Self.still) { running in
            let world = try await WebhookWorld(running, url: "http://127.0.0.1:9/", events: ["*"])
            try await Self.insert(1, .pending, running)
            func moments() async throws -> [String] {
                try await running.texts("due", "SELECT due_at::text AS due FROM webhook_messages")
            }
            let before = try await moments()
            #expect(before.count == 1)
            #expect(try await world.admin.call("PATCH", world.path, #"{"enabled":true}"#).json["enabled"]?.boolValue == true)
            #expect(try await moments() == before)
            #expect(try await running.count("SELECT count(*) FROM audit WHERE action = 'webhook.changed'") == 0)
        }
    }

    @Test("A removal takes the messages in steps, and from the first one on there is no webhook") func removed() async throws {
        try await RunningService.run(Self.still) { running in
            let world = try await WebhookWorld(running, url: "http://127.0.0.1:9/", events: ["*"])
            try await Self.insert(WebhookStore.batch + 5, .delivered, running)
            let (id, app) = (try #require(PushID(world.id)), try await running.app())
            let last = try await running.pool.session { session in
                try session.transaction { session in try WebhookStore(session: session, app: app).beginDeletion(id, by: .service) }
                return try WebhookQueue(session: session).deleteMessages(of: id, after: .lowest)
            }
            #expect(last != nil)
            #expect(try await running.count("SELECT count(*) FROM webhook_messages") == 5)
            // The request was cut off here.
            #expect(try await world.admin.get(WebhookWorld.path).json["webhooks"]?.arrayValue?.isEmpty == true)
            #expect(try await world.admin.get(world.path).status == 404)
            #expect(try await world.admin.call("PATCH", world.path, #"{"enabled":true}"#).status == 404)
            #expect(try await world.admin.post("\(world.path)/rotate").status == 404)
            #expect(try await world.admin.post("\(world.path)/ping").status == 404)
            #expect(try await running.count("SELECT count(*) FROM webhook_messages") == 5)
            #expect(try await world.admin.call("DELETE", world.path).status == 204)
            #expect(try await running.count("SELECT count(*) FROM webhooks") == 0)
            #expect(try await world.admin.call("DELETE", world.path).status == 404)
            let entries: PostgresQuery = "SELECT count(*) FROM audit WHERE object = \(world.id) AND action <> 'webhook.created'"
            #expect(try await running.count(entries) == 1)
        }
    }

    @Test("Messages of a webhook that is not being removed stay") func notRemoved() async throws {
        try await RunningService.run(Self.still) { running in
            let world = try await WebhookWorld(running, url: "http://127.0.0.1:9/", events: ["*"])
            try await Self.insert(5, .delivered, running)
            let id = try #require(PushID(world.id))
            try await WebhookRemoval(pool: running.pool).finish(id)
            #expect(try await running.count("SELECT count(*) FROM webhook_messages") == 5)
            #expect(try await running.count("SELECT count(*) FROM webhooks") == 1)
        }
    }

    @Test("A dispatcher goes on with a removal that was cut off") func cutOffRemoval() async throws {
        try await RunningService.run(.init(settings: ["WEBHOOK_INSECURE": "true"], without: { $0 is WebhookDispatcher })) { running in
            let world = try await WebhookWorld(running, url: "http://127.0.0.1:9/", events: ["*"])
            try await Self.insert(5, .delivered, running)
            try await running.execute("UPDATE webhooks SET disabled_reason = 'deleted', disabled_at = now() - interval '2 minutes'")
            try await running.another(.init(settings: ["WEBHOOK_INSECURE": "true"])) { _ in
                _ = try await eventually { try await running.count("SELECT count(*) FROM webhooks") == 0 ? true : nil }
            }
            #expect(try await running.count("SELECT count(*) FROM webhook_messages") == 0)
            #expect(try await world.admin.get(world.path).status == 404)
        }
    }

    /// Of all webhooks but one, the marks know the old message.
    @Test("However many webhooks have old messages, a search and a claim begin with each one's own") func oldMessages()
        async throws
    {
        try await RunningService.run(Self.still) { running in
            let count = 2000
            try await running.execute(
                """
                INSERT INTO apps (slug, bundle_id, device_policy, environments)
                SELECT 'app-' || n, 'com.example.app', 'multi', '{production}' FROM generate_series(1, \(Int64(count / 20))::bigint) AS n
                """)
            try await running.execute(
                """
                INSERT INTO webhooks (id, app_id, url, events, secret)
                SELECT new_id(), a.id, 'https://example.com/', '{*}', decode(repeat('0f', 32), 'hex') FROM apps a, generate_series(1, 20)
                """)
            try await Self.insert(1, .pending, due: "-1 hour", running)
            try await running.pool.transaction { session in
                for (name, value) in TokenServiceConfiguration.planning { try session.simple("SET LOCAL \(name) = \(value)") }
                let (queue, water) = (WebhookQueue(session: session), LowWater<PushID>())
                func visited(_ body: () throws -> Void) throws -> Int64 {
                    let before = try session.pagesVisitedHere(of: "webhooks") + session.pagesVisitedHere(of: "webhook_messages")
                    try body()
                    return try session.pagesVisitedHere(of: "webhooks") + session.pagesVisitedHere(of: "webhook_messages") - before
                }
                var found = WebhookQueue.Waiting(now: 0)
                let unmarked = try visited { found = try queue.search() }
                #expect(found.oldest.count == count)
                found.oldest[try #require(found.oldest.keys.min())] = nil
                water.found(found.oldest, at: found.now)
                let marks = water.marks
                #expect(marks.exceptions.count == count - 1)
                let marked = try visited { found = try queue.search(from: marks) }
                #expect(found.oldest.count == count - 1)
                #expect(unmarked > 0 && marked <= 2 * unmarked, "\(marked) pages visited, and \(unmarked) without marks")
                let claimed = try queue.claim(
                    underWay: [:], perWebhook: 4, perApp: 32, limit: count, from: marks, leaseSeconds: 30)
                #expect(claimed.count == count - 1)
            }
        }
    }

    @Test("Messages that were given up are found among very many; a page of one state reads a limited number") func failedOnes()
        async throws
    {
        try await RunningService.run(Self.still) { running in
            let world = try await WebhookWorld(running, url: "http://127.0.0.1:9/", events: ["*"])
            let (id, app) = (try #require(PushID(world.id)), try await running.app())
            try await Self.insert(3, .failed, running)
            try await Self.insert(1, .pending, running)
            try await Self.insert(2 * WebhookStore.scannedPerPage, .delivered, running)
            try await running.execute("ANALYZE webhook_messages")
            try await running.pool.session { session in
                let store = WebhookStore(session: session, app: app)
                var before = try session.rowsRead(of: "webhook_messages")
                let failed = try store.messages(of: id, state: .failed, before: nil, limit: 10)
                #expect(failed.messages.count == 3 && failed.next == nil)
                #expect(try session.rowsRead(of: "webhook_messages") - before <= 10)

                before = try session.rowsRead(of: "webhook_messages")
                var next: PushID?
                var pages: [Int] = []
                repeat {
                    let page = try store.messages(of: id, state: .pending, before: next, limit: 10)
                    pages.append(page.messages.count)
                    next = page.next
                } while next != nil
                #expect(pages == [0, 0, 1])

                before = try session.rowsRead(of: "webhook_messages")
                #expect(try store.redeliver(nil, of: id, limit: 10, by: .service) == 3)
                #expect(try session.rowsRead(of: "webhook_messages") - before <= 20)
            }
            #expect(try await world.messages("?state=failed").isEmpty)
        }
    }
}
