import Postgres
import PushModel
import TestSupport
import Testing
import TokenServiceSending

/// The store reads most pages of a notification to all in columns. If any user of the app has quiet hours, it reads them row by row.
@Suite("A notification to all, read in columns", .serialized, .timeLimit(.minutes(5)))
struct EverybodyTests {
    /// 250 installations with all that may make a difference, and a notification to all of them.
    private static func people(_ running: RunningService, more: String = "") async throws -> PushID {
        let shop = try await running.client.makeApp()
        let app = try await running.app()
        try await running.fill(250, app: app)
        let changes: [PostgresQuery] = [
            "UPDATE installations SET owner_epoch = 2 + get_byte(uuid_send(id), 15) % 5",
            "UPDATE installations SET deregistered_at = now() WHERE get_byte(uuid_send(id), 15) % 7 = 0",
            "UPDATE tokens SET state = 'retired', retired_at = now(), retired_reason = 'gone' WHERE id % 11 = 0",
            "UPDATE tokens SET purpose = 'voip' WHERE id % 13 = 0",
            "UPDATE tokens SET environment = 'sandbox' WHERE id % 5 = 0",
            "UPDATE tokens SET proven_at = now() WHERE id % 3 = 0",
            // A second environment of the same installation, and a token of another size.
            """
            INSERT INTO tokens (app_id, environment, purpose, token, installation, ordinal, registered_at)
            SELECT app_id, 'sandbox', 'alert', sha256(token) || '\\xff', installation, ordinal, now() FROM tokens
            WHERE id % 17 = 0 AND environment = 'production' AND purpose = 'alert'
            """,
        ]
        for change in changes { try await running.execute(change) }
        _ = try await running.client.makeApp("blog")
        try await running.fill(20, app: try await running.app("blog"))
        return try #require(try await shop.send(#"{"all":true}"#, more: more).json.text("id").flatMap { PushID($0) })
    }

    /// Every page of a fan-out, none of them committed.
    private static func pages(_ id: PushID, _ running: RunningService, size: Int) async throws -> [PendingFanOut.Page] {
        try await running.pool.transaction(isolation: .repeatableRead) { session in
            let store = FanOutStore(session: session)
            var audience = try #require(try store.fanOut(of: id))
            var pages: [PendingFanOut.Page] = []
            while pages.last?.isLast != true {
                let page = try store.page(of: audience, installations: size, names: DeliveryNames(id), now: 1)
                audience.checkpoint = page.end
                pages.append(page)
            }
            return pages
        }
    }

    private static func isReadInColumns(_ id: PushID, _ running: RunningService) async throws -> Bool {
        try await running.pool.session { session in
            let store = FanOutStore(session: session)
            let audience = try #require(try store.fanOut(of: id))
            return try store.columns(of: audience, installations: 100, now: 1) != nil
        }
    }

    private static func quietHours(_ running: RunningService) async throws {
        try await running.execute(
            """
            INSERT INTO quiet_hours (app_id, owner, begins_at, ends_at, updated_at)
            SELECT id, 'nobody', '00:00', '01:00', now() FROM apps WHERE slug = 'shop'
            """)
    }

    @Test("It is the same as row by row: who is meant, in which job and place, from where fan-out goes on", arguments: [60, 1000])
    func same(size: Int) async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let id = try await Self.people(running)
            #expect(try await Self.isReadInColumns(id, running))
            let columns = try await Self.pages(id, running, size: size)
            try await Self.quietHours(running)
            #expect(try await !Self.isReadInColumns(id, running))
            let rows = try await Self.pages(id, running, size: size)
            #expect(columns.map(\.end) == rows.map(\.end))
            #expect(columns.map(\.read) == rows.map(\.read))
            #expect(columns.count == (250 + size - 1) / size + 1)
            let (ours, theirs) = (columns.flatMap(\.jobs), rows.flatMap(\.jobs))
            // The order of one installation's tokens is not promised; ids go by place.
            for (left, right) in zip(ours, theirs) {
                #expect(left.job.number == right.job.number && left.job.dueAt == right.job.dueAt)
                #expect(left.job.members.sorted() == right.job.members.sorted())
                let (mine, yours) = (try left.deliveries.decoded(), try right.deliveries.decoded())
                #expect(mine.map(\.id) == yours.map(\.id) && mine.map(\.installation) == yours.map(\.installation))
                #expect(Set(mine.map(Self.withoutID)) == Set(yours.map(Self.withoutID)))
            }
            #expect(ours.count == theirs.count && ours.count > 1)
            #expect(ours.contains { $0.deliveries.count < PushJob.maximumDeliveries })
        }
    }

    private static func withoutID(_ delivery: PushJob.Delivery) -> String {
        "\(delivery.token.hex) \(delivery.environment) \(delivery.installation) \(delivery.ownerEpoch) \(delivery.environmentTrial)"
    }

    @Test("What is urgent knows no quiet hours; a token that moved after the notification was accepted is looked at more closely")
    func exceptions() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let id = try await Self.people(running, more: #","urgent":true"#)
            try await Self.quietHours(running)
            #expect(try await Self.isReadInColumns(id, running))
            try await running.execute("UPDATE notifications SET accepted_at = now() - interval '1 hour'")
            try await running.execute(
                """
                INSERT INTO installation_history (app_id, installation, at, event, token_id)
                SELECT app_id, installation, now(), 'token_moved_away', id FROM tokens WHERE id IN (1, 200)
                """)
            try await running.execute("UPDATE tokens SET registered_at = now() - interval '2 hours'")
            #expect(try await Self.isReadInColumns(id, running))
            try await running.execute("UPDATE tokens SET registered_at = now() WHERE id = 1")
            #expect(try await !Self.isReadInColumns(id, running))
        }
    }
}
