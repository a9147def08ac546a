import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenService
@testable import TokenServiceApps
@testable import TokenServiceEvents
@testable import TokenServiceKit
@testable import TokenServiceRegistry
@testable import TokenServiceSending
@testable import TokenServiceUpkeep

/// While a snapshot is open, as of a dump, PostgreSQL keeps the entries that ended rows had in an index of waiting ones. Here one
/// transaction ends the rows and looks again: until it is over, its own entries stay as well.
@Suite("Beside an open snapshot, a step reads none of the entries that earlier steps have ended", .serialized, .timeLimit(.minutes(5)))
struct OpenSnapshotTests {
    /// Nothing else reads what waits.
    private static let still = RunningService.Options(
        settings: ["WEBHOOK_INSECURE": "true"],
        without: { $0 is Relay || $0 is WebhookDispatcher || $0 is Housekeeper || $0 is EventFeed })

    // MARK: Webhooks

    private static func insert(_ count: Int, due: String, _ running: RunningService) async throws {
        try await running.execute(
            """
            INSERT INTO webhook_messages (webhook, id, topic, body, created_at, due_at)
            SELECT w.id, new_id(), 'webhook.ping', '{}', now(), now() + \(due)::text::interval + n * interval '1 microsecond'
            FROM webhooks w, generate_series(1, \(count)) AS n
            """)
    }

    @Test("The dispatcher of webhooks reads no message that was over before its last search") func webhookMessages() async throws {
        try await RunningService.run(Self.still) { running in
            _ = try await WebhookWorld(running, url: "http://127.0.0.1:9/", events: ["*"])
            try await Self.insert(3000, due: "-2 minutes", running)
            try await running.pool.transaction { session in
                let (queue, waiting) = (WebhookQueue(session: session), LowWater<PushID>())
                func read(_ body: () throws -> Void) throws -> Int64 {
                    let before = try session.entriesReadHere(of: "webhook_messages_due")
                    try body()
                    return try session.entriesReadHere(of: "webhook_messages_due") - before
                }
                try session.execute("UPDATE webhook_messages SET state = 'delivered', settled_at = now()")
                let unmarked = try read {
                    let found = try queue.search()
                    #expect(found.oldest.isEmpty)
                    waiting.found(found.oldest, at: found.now)
                }
                let marks = waiting.marks
                let searched = try read {
                    let found = try queue.search(from: marks)
                    #expect(found.oldest.isEmpty)
                }
                let counted = try read {
                    for webhook in try queue.enabled() {
                        #expect(try !queue.disableOverfull(webhook, limit: 10, from: marks[webhook]))
                    }
                }
                let claimed = try read {
                    let claimed = try queue.claim(underWay: [:], perWebhook: 4, perApp: 32, limit: 10, from: marks, leaseSeconds: 30)
                    #expect(claimed.isEmpty)
                }
                #expect(
                    unmarked >= 3000 && searched < 50 && counted < 50 && claimed < 50,
                    "\(unmarked), \(searched), \(counted) and \(claimed) entries read")
            }
        }
    }

    @Test("Whatever the marks, a message that waits is found: of a webhook that was disabled, after a retry, and when it is sent again")
    func waitingMessage() async throws {
        try await RunningService.run(Self.still) { running in
            let world = try await WebhookWorld(running, url: "http://127.0.0.1:9/", events: ["*"])
            let waiting = LowWater<PushID>()
            try await Self.insert(1, due: "-1 day", running)
            @Sendable func search() async throws -> WebhookQueue.Waiting {
                try await running.pool.session { session in
                    let found = try WebhookQueue(session: session).search(from: waiting.marks)
                    waiting.found(found.oldest, at: found.now)
                    return found
                }
            }
            @Sendable func claim() async throws -> WebhookMessage.Claimed {
                let claimed = try await running.pool.transaction { session in
                    try WebhookQueue(session: session).claim(
                        underWay: [:], perWebhook: 4, perApp: 32, limit: 10, from: waiting.marks, leaseSeconds: 3600)
                }
                #expect(claimed.count == 1)
                return try #require(claimed.first)
            }
            @Sendable func record(_ outcome: WebhookAttempt.Outcome, of message: WebhookMessage.Claimed) async throws {
                _ = try await running.pool.transaction { session in
                    try WebhookQueue(session: session).record(outcome, of: message, delay: .zero, disableAfterDays: 5)
                }
            }
            try await running.execute("UPDATE webhooks SET disabled_reason = 'by_request', disabled_at = now()")
            for _ in 1...2 {
                let found = try await search()
                #expect(found.oldest.count == 1 && found.lag == 0, "its webhook is disabled")
            }
            #expect(try await world.admin.call("PATCH", world.path, #"{"enabled":true}"#).status == 200)
            let message = try await claim()
            // Under way, it waits for nothing before its lease is over.
            #expect(try await search().oldest.isEmpty)
            try await record(.init(.failed, error: "timeout"), of: message)
            #expect(try await search().oldest.count == 1)
            try await record(.init(.delivered, status: 204), of: try await claim())
            #expect(try await search().oldest.isEmpty)
            let again = try await world.admin.post("\(world.path)/redeliver", #"{"messages":["\#(message.id)"]}"#)
            #expect(again.json.number("redelivered") == 1)
            #expect(try await claim().id == message.id)
        }
    }

    @Test("A step that makes messages due begins where the one before it ended") func hastened() async throws {
        try await RunningService.run(Self.still) { running in
            let world = try await WebhookWorld(running, url: "http://127.0.0.1:9/", events: ["*"])
            try await Self.insert(3 * WebhookStore.batch, due: "1 hour", running)
            let (id, app) = (try #require(PushID(world.id)), try await running.app())
            try await running.pool.transaction { session in
                let store = WebhookStore(session: session, app: app)
                let first = try #require(try store.hasten(id))
                let second = try #require(try store.hasten(id, after: first))
                let before = try session.entriesReadHere(of: "webhook_messages_due")
                _ = try store.hasten(id, after: second)
                let read = try session.entriesReadHere(of: "webhook_messages_due") - before
                // Those of one millisecond are read again: here all are less than three apart.
                #expect(read <= Int64(2 * WebhookStore.batch) + 50, "\(read) entries read")
                let left: Int = try session.execute("SELECT count(*) AS count FROM webhook_messages WHERE due_at > now()").only()["count"]
                #expect(left == 0)
                let start = try session.entriesReadHere(of: "webhook_messages_due")
                _ = try store.hasten(id)
                let whole = try session.entriesReadHere(of: "webhook_messages_due") - start
                #expect(whole >= Int64(3 * WebhookStore.batch), "\(whole) entries read from the beginning")
            }
        }
    }

    // MARK: Others

    @Test("The release of a hold goes on where its last step ended, and comes to its end") func heldJobs() async throws {
        try await RunningService.run(Self.still) { running in
            _ = try await running.client.makeApp()
            let (app, hold) = (try await running.app(), PushID.random())
            try await running.execute(
                """
                INSERT INTO holds (id, app_id, reason, set_at, set_by, lifted_at, lifted_by, published_at)
                VALUES (\(hold), \(app.id), 'r', now(), 'key', now(), 'key', now())
                """)
            try await running.execute(
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from, held_by)
                SELECT '00000000-0000-7000-8000-000000000001', n, \(app.id), 'now', '', now(), int8send(n), now(), \(hold)
                FROM generate_series(0, 2499) AS n
                """)
            try await running.pool.transaction { session in
                let store = HoldOutbox(session: session)
                var (place, steps, read): (HoldOutbox.Place?, [Int], [Int64]) = (nil, [], [])
                for _ in 1...4 {
                    let before = try session.entriesReadHere(of: "jobs_held")
                    let (count, end) = try store.release(hold, after: place, limit: 1000)
                    steps.append(count)
                    read.append(try session.entriesReadHere(of: "jobs_held") - before)
                    place = end
                }
                #expect(steps == [1000, 1000, 500, 0])
                // A step without statistics sorts the jobs that are still held. The last step begins anew.
                #expect(read[1] <= 1510 && read[2] <= 510 && read[3] >= 2500, "\(read) entries read")
                #expect(try session.execute("SELECT FROM holds WHERE released_at IS NOT NULL").count == 1)
            }
        }
    }

    @Test("A repeated erasure or sign-out reads no fence that was published before the relay's last search")
    func publishedFences() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let app = try await running.app()
            try await running.execute("UPDATE installations SET owner = NULL, signed_out_reason = 'erased'")
            try await running.execute(
                """
                INSERT INTO fences (app_id, installation, epochs_below, created_at, free_from)
                SELECT \(app.id), \(installation(1)), n + 1, now() - interval '2 minutes', now() - interval '2 minutes'
                    FROM generate_series(1, 3000) AS n
                """)
            try await running.pool.transaction { session in
                try session.execute("UPDATE fences SET published_at = now() WHERE published_at IS NULL")
                let (store, marks) = (ErasureStore(session, app: app, user: "ada"), OutboxMarks())
                let (now, oldest) = try FenceStore(session: session).oldestLeftOver()
                #expect(oldest == nil)
                marks.fences.found([:], at: now)
                func read(from: Int64) throws -> Int64 {
                    func entries() throws -> Int64 {
                        try session.entriesReadHere(of: "fences_left_over") + session.entriesReadHere(of: "fences_open")
                    }
                    let before = try entries()
                    #expect(try store.openFences(from: from).isEmpty)
                    return try entries() - before
                }
                let (unmarked, marked) = (try read(from: 0), try read(from: marks.fences.marks.lowest))
                #expect(unmarked >= 3000 && marked < 50, "\(unmarked) and \(marked) entries read")
                let before = try session.entriesReadHere(of: "fences_open")
                #expect(try InstallationStore(session: session, app: app).openFences(of: "ada").isEmpty)
                #expect(try session.entriesReadHere(of: "fences_open") - before < 50)
            }
        }
    }

    @Test("A search for cancellations reads none that was over before the last one") func cancellations() async throws {
        try await RunningService.run(Self.still) { running in
            try await running.service.pool.transaction { session in
                let (outbox, marks) = (CancellationOutbox(session: session), OutboxMarks())
                func read(_ body: () throws -> Void) throws -> Int64 {
                    func entries() throws -> Int64 {
                        try session.entriesReadHere(of: "cancellations_unpublished")
                            + session.entriesReadHere(of: "cancellations_unhastened")
                    }
                    let before = try entries()
                    try body()
                    return try entries() - before
                }
                try session.execute(
                    """
                    INSERT INTO cancellations (notification, at, hasten_from, reason)
                    SELECT new_id(), now() - interval '2 minutes', now() - interval '2 minutes', 'cancelled' FROM generate_series(1, 3000)
                    """)
                try session.execute("UPDATE cancellations SET published_at = now(), hastened_at = now()")
                let unmarked = try read {
                    marks.unpublished.found([:], at: try outbox.leftOver(limit: 500).now)
                    marks.unhastened.found([:], at: try outbox.oldestUnhastened().now)
                }
                let marked = try read {
                    let leftOver = try outbox.leftOver(limit: 500, from: marks.unpublished.marks.lowest)
                    let oldest = try outbox.oldestUnhastened(from: marks.unhastened.marks.lowest)
                    let unhastened = try outbox.unhastened(limit: 11, from: marks.unhastened.marks.lowest)
                    #expect(leftOver.found.isEmpty && oldest.oldest == nil && unhastened.isEmpty)
                }
                #expect(unmarked >= 6000 && marked < 50, "\(unmarked) and \(marked) entries read")
            }
        }
    }

    @Test("A dispatcher's report visits no page for each of those before it") func credentialReports() async throws {
        try await RunningService.run(Self.still) { running in
            let apps = try (1...40).map { number in try #require(AppSlug("app-\(number)")) }
            let report = CredentialReport(
                id: .random(), source: "/push/dispatcher/d1", time: 1_782_214_201_125,
                credentials: APNsEnvironment.allCases.map { environment in
                    CredentialReport.Credential(kind: .key, id: "DEMO123456", environment: environment, apps: apps)
                })
            try await running.pool.transaction { session in
                for (name, value) in TokenServiceConfiguration.planning { try session.simple("SET LOCAL \(name) = \(value)") }
                func visited() throws -> Int64 {
                    try session.pagesVisitedHere(of: "dispatchers") + session.pagesVisitedHere(of: "credential_reports")
                }
                let visits = try (0...200).map { _ in
                    let before = try visited()
                    try CredentialReports(session: session).replace(by: report)
                    return try visited() - before
                }
                // The very first one makes the rows.
                #expect(visits[1] > 0 && visits[200] <= 2 * visits[1], "\(visits[1]) and then \(visits[200]) pages visited")
            }
        }
    }

    @Test("A step that removes retired tokens begins where the one before it ended") func retiredTokens() async throws {
        try await RunningService.run(Self.still) { running in
            _ = try await running.client.makeApp()
            try await running.fill(1200, app: try await running.app())
            try await running.execute(
                """
                UPDATE tokens SET state = 'retired', retired_reason = 'gone',
                    retired_at = now() - interval '91 days' + id * interval '1 millisecond'
                """)
            try await running.pool.transaction { session in
                let first = try Retention(session: session).removeTokens(olderThan: 90)
                let before = try session.entriesReadHere(of: "tokens_retired")
                let second = try Retention(session: session).removeTokens(olderThan: 90, from: try #require(first.last))
                let read = try session.entriesReadHere(of: "tokens_retired") - before
                #expect(first.removed == 500 && second.removed == 500 && read <= 710, "\(read) entries read")
                let start = try session.entriesReadHere(of: "tokens_retired")
                _ = try Retention(session: session).removeTokens(olderThan: 90)
                let whole = try session.entriesReadHere(of: "tokens_retired") - start
                #expect(whole >= 1200, "\(whole) entries read from the beginning")
            }
        }
    }
}
