import Postgres
import PushModel
import TestSupport
import Testing

@testable import TokenServiceApps
@testable import TokenServiceKit
@testable import TokenServiceSending

@Suite("What an acceptance reads", .timeLimit(.minutes(5)))
struct AcceptancePlanTests {
    /// A new database, or a restored one: PostgreSQL knows of no table how its values are spread.
    @Test("An acceptance reads its users' tokens, even if the tables were never analyzed") func tokensOfUsers() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            _ = try await running.client.makeApp()
            let app = try await running.app()
            let (early, late) = (try (0..<20).map { try Self.items($0..<$0 + 1, of: app) }, try Self.items(100..<120, of: app))
            let (found, read) = try await running.pool.session { session in
                func accept(_ items: [NotificationStore.Item]) throws -> Int {
                    try session.transaction { session in try NotificationStore(session: session).insert(items).count }
                }
                try session.execute(
                    """
                    WITH made AS (
                        INSERT INTO installations (app_id, id, owner, registered_at, created_at)
                        SELECT \(app.id), ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'u' || n, now(), now()
                        FROM generate_series(1, 2000) AS n RETURNING id, ordinal
                    )
                    INSERT INTO tokens (app_id, environment, purpose, token, installation, ordinal, registered_at)
                    SELECT \(app.id), 'production', 'alert', sha256(uuid_send(id)), id, ordinal, now() FROM made
                    """)
                // Often enough for a plan that is kept.
                for item in early { _ = try accept(item) }
                let before = try session.rowsRead(of: "tokens")
                return (try accept(late), try session.rowsRead(of: "tokens") - before)
            }
            #expect(found == 20)
            #expect(20...100 ~= read, "twenty users with a token each")
        }
    }

    @Test("An acceptance reads its users' quiet hours, even if many users set theirs since the table was analyzed")
    func quietHoursOfUsers() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            _ = try await running.client.makeApp()
            let app = try await running.app()
            try await running.fill(user: "u100", count: 20)
            let (early, late) = (try (0..<20).map { try Self.items($0..<$0 + 1, of: app) }, try Self.items(100..<101, of: app))
            let (found, read) = try await running.pool.session { session in
                func accept(_ items: [NotificationStore.Item]) throws -> [NotificationStore.Insertion] {
                    try session.transaction { session in try NotificationStore(session: session).insert(items) }
                }
                func setQuietHours(_ users: ClosedRange<Int32>) throws {
                    try session.execute(
                        """
                        INSERT INTO quiet_hours (app_id, owner, begins_at, ends_at, updated_at)
                        SELECT \(app.id), 'q' || n, '22:00', '07:00', now()
                        FROM generate_series(\(users.lowerBound)::int, \(users.upperBound)::int) AS n
                        """)
                }
                try setQuietHours(1...1)
                try session.execute("ANALYZE quiet_hours")
                try setQuietHours(2...20_000)
                for item in early { _ = try accept(item) }
                let before = try session.entriesRead(of: "quiet_hours")
                return (try accept(late), try session.entriesRead(of: "quiet_hours") - before)
            }
            guard case .resolved(let deliveries) = found[0] else { throw CorruptRow(table: "jobs") }
            #expect(deliveries.count == 20)
            #expect(read < 100)
        }
    }

    private static func items(_ users: Range<Int>, of app: App) throws -> [NotificationStore.Item] {
        try users.map { user in
            let now = UnixTime.milliseconds()
            let request = try #require(try ParsedRequest(#"{"to":{"user":"u\#(user)"},"content":{"alert":"a"}}"#, now: now).request)
            let notification = Notification(
                id: .random(), app: app.slug, topic: app.bundleID, request: request, acceptedAt: now, traceparent: "")
            return NotificationStore.Item(notification: notification, app: app, idempotency: nil, leaseSeconds: 0)
        }
    }
}
