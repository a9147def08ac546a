import Postgres
import PushModel
import TestSupport
import Testing

@testable import TokenService

/// Right after a large audience with a receipt for each delivery, the planner still believes that a notification has one.
@Suite("What a large audience with receipts makes the database read", .timeLimit(.minutes(5)))
struct LargeReceiptsTests {
    private static let devices = 3000
    private static let page = 1500

    @Test("A page looks each token's delivery up, and not all of them for each token", arguments: ["{rare}", "{}"])
    func pages(tags: String) async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await running.fill(Self.devices, app: try await running.app())
            try await running.execute("UPDATE installations SET tags = $1::text[]", [.text(tags)])
            try await Self.analyzeSingles(running)
            let target = tags == "{}" ? #"{"all":true}"# : #"{"tags":"rare"}"#
            let id = try #require(try await shop.send(target, more: #","receipts":"all""#).json.text("id").flatMap { PushID($0) })
            let (found, read) = try await running.pool.session { session in
                func next() throws -> (found: Int, read: Int64) {
                    let before = try session.rowsRead(of: "deliveries")
                    let found = try session.transaction { session in
                        let store = AudienceStore(session: session)
                        let audience = try #require(try store.audience(of: id))
                        let now = UnixTime.milliseconds()
                        let page = try store.page(of: audience, installations: Self.page, names: DeliveryNames(id), now: now)
                        try store.commit(page, of: audience, leaseSeconds: 60, now: now)
                        return page.count
                    }
                    return (found, try session.rowsRead(of: "deliveries") - before)
                }
                let (first, second) = (try next(), try next())
                return ([first.found, second.found], second.read)
            }
            #expect(found == [Self.page, Self.page])
            #expect(read <= 2 * Int64(Self.page), "one row for each token at most, and those it writes")
        }
    }

    @Test("A chunk that is resolved anew looks its own members up") func chunks() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await running.fill(Self.devices, app: try await running.app())
            try await Self.analyzeSingles(running)
            let id = try #require(
                try await shop.send(#"{"all":true}"#, more: #","receipts":"all""#).json.text("id").flatMap { PushID($0) })
            let (left, read) = try await running.pool.session { session in
                let store = AudienceStore(session: session)
                let audience = try #require(try store.audience(of: id))
                let now = UnixTime.milliseconds()
                let page = try store.page(of: audience, installations: Self.devices, names: DeliveryNames(id), now: now)
                try session.transaction { _ in try store.commit(page, of: audience, leaseSeconds: 0, now: now) }
                try session.execute("UPDATE deliveries SET class = 'accepted', status = 200 WHERE notification = $1", [.id(id)])
                let claimed = try store.claimChunks(1, of: .bulk, leaseSeconds: 60)
                #expect(claimed.map(\.chunk.members.count) == [PushJob.maximumDeliveries])
                let before = try session.rowsRead(of: "deliveries")
                let left = try store.resolve(claimed, now: now).map(\.deliveries.count)
                return (left, try session.rowsRead(of: "deliveries") - before)
            }
            #expect(left == [0], "all of it has its outcome")
            #expect(read <= Int64(PushJob.maximumDeliveries))
        }
    }

    @Test("An outcome looks its own delivery up, and not all of its notification", arguments: [false, true])
    func outcomes(isFinal: Bool) async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await Self.analyzeSingles(running)
            let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id").flatMap { PushID($0) })
            try await Self.insert(100_000, of: id, running)
            let read = try await running.pool.session { session in
                let deliveries = try session.execute("SELECT id, installation FROM deliveries WHERE notification = $1 LIMIT 500", [.id(id)])
                    .map { row in OutcomeEvent.Delivery(id: try row.id(0), notification: id, installation: try row.id(1), attempt: 1) }
                let batch = OutcomeBatch([
                    OutcomeEvent(
                        id: .random(), source: "/push/dispatcher/test", time: UnixTime.milliseconds(), app: try #require(AppSlug("shop")),
                        outcome: isFinal ? .accepted : .throttled, isFinal: isFinal, deliveries: deliveries)
                ])
                let before = try session.rowsRead(of: "deliveries")
                try session.transaction { session in
                    let store = OutcomeStore(session: session)
                    let receipts = try store.lockDeliveries(of: batch)
                    try store.noteAttempts(batch.attempts)
                    _ = try store.finish(batch.final, receipts: receipts, counted: [:])
                }
                return try session.rowsRead(of: "deliveries") - before
            }
            #expect((500...5000).contains(read))
        }
    }

    /// Statistics of ordinary days: a notification has one delivery.
    private static func analyzeSingles(_ running: RunningService) async throws {
        try await insert(100, of: nil, running)
        try await running.execute("ANALYZE deliveries")
    }

    /// Deliveries of nobody.
    /// - Parameter notification: nil for one of its own for each, which is nowhere.
    private static func insert(_ count: Int32, of notification: PushID?, _ running: RunningService) async throws {
        try await running.pool.transaction { session in
            try session.execute("SET LOCAL session_replication_role = replica")
            try session.execute(
                """
                INSERT INTO deliveries (id, notification, token_id, installation, owner_epoch, environment, class, updated_at)
                SELECT gen_random_uuid(), coalesce($2::text::uuid, lpad(to_hex(n), 32, '0')::uuid), -n, gen_random_uuid(), 1, 'production',
                    CASE WHEN $2 IS NULL THEN 'accepted' END, now()
                FROM generate_series(1, $1::int) AS n
                """, [.int32(count), .optionalText(notification?.description)])
        }
    }
}
