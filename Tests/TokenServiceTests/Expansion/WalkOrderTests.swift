import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenService

/// What a walk goes by: the order in which installations were made, which nothing that happens to them changes.
@Suite("A walk goes in the order in which installations were made, and stays in it", .serialized, .timeLimit(.minutes(5)))
struct WalkOrderTests {
    /// Every way in which a page is read.
    enum Way: String, CaseIterable {
        case inColumns = #"{"all":true}"#
        case rowByRow = #"{"all":true} "#
        case byIndexOfTags = #"{"tags":"red"}"#
        case byInstallations = #"{"tags":"NOT blue"}"#

        var more: String { self == .rowByRow ? #","receipts":"all""# : #","receipts":"failures""# }
    }

    /// Their ids go the other way round than the order in which they register.
    private static let audience = Array(stride(from: 8, through: 1, by: -1))

    /// One step of a walk that looks at two installations; nil when it is over.
    private func page(_ id: PushID, _ running: RunningService) async throws -> [String]? {
        try await running.pool.transaction(isolation: .repeatableRead) { session in
            let store = AudienceStore(session: session)
            guard let audience = try store.audience(of: id) else { return nil }
            let now = UnixClock.now()
            let page = try store.page(of: audience, installations: 2, names: DeliveryNames(id), now: now)
            try store.commit(page, of: audience, leaseSeconds: 60, now: now)
            return try page.chunks.flatMap { try $0.deliveries.decoded() }.map(\.token.hex)
        }
    }

    private func rest(_ id: PushID, _ running: RunningService) async throws -> [String] {
        var tokens: [String] = []
        while let page = try await page(id, running) { tokens += page }
        return tokens
    }

    private func register(_ numbers: [Int], _ shop: APITestClient) async throws {
        for number in numbers {
            try await shop.register(installation(number), user: "user-\(number)", token: token(number), more: #","tags":["red"]"#)
        }
    }

    private func send(_ way: Way, _ shop: APITestClient) async throws -> PushID {
        try #require(try await shop.send(way.rawValue, more: way.more).json.text("id").flatMap { PushID($0) })
    }

    @Test("Everybody is met once, though rows move and everybody registers anew between any two pages", arguments: Way.allCases)
    func refreshed(way: Way) async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await register(Self.audience, shop)
            let id = try await send(way, shop)
            var met: [String] = []
            while let page = try await page(id, running) {
                met += page
                // In another order than before, and then every row lies somewhere else.
                try await register(Self.audience.sorted { ($0 % 3, $0) < ($1 % 3, $1) }, shop)
                try await running.execute("UPDATE installations SET tags = tags || ARRAY['again']")
                for table in ["installations", "tokens"] {
                    try await running.pool.session { session in try session.simple("VACUUM FULL \(table)") }
                }
            }
            #expect(met == Self.audience.map { token($0) })
        }
    }

    @Test("Who is erased and comes back keeps the place, and is met once; a device that is new comes last") func erased() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await register(Self.audience, shop)
            let id = try await send(.inColumns, shop)
            #expect(try await page(id, running) == [token(8), token(7)])
            // One that was met and one that was not, both with tokens that nobody had.
            for number in [8, 1] {
                #expect(try await running.client.erase("user-\(number)").status == 200)
                try await shop.register(installation(number), user: "user-\(number)", token: token(100 + number))
            }
            try await shop.register(installation(9), user: nil, token: token(9))
            #expect(try await rest(id, running) == [6, 5, 4, 3, 2, 101, 9].map { token($0) })
        }
    }

    @Test("A walk that a program of before had begun by ids goes on with those that it had not looked at", arguments: Way.allCases)
    func begunByIDs(way: Way) async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await register(Self.audience, shop)
            let id = try await send(way, shop)
            // What its first page left.
            try await running.execute(
                """
                UPDATE notifications SET walked_to = $1, chunks = 1, state = 'expanding', total = 3, pending = 3
                """, [.id(installation(3))])
            #expect(try await rest(id, running) == [8, 7, 6, 5, 4].map { token($0) })
            #expect(try await running.count("SELECT total::bigint FROM notifications") == 8)
            #expect(try await running.count("SELECT max(number)::bigint FROM chunks") == 3)
        }
    }

    @Test("A program of before cannot take up a walk that goes by the new order: it would begin anew") func takenUpByAnOlderProgram()
        async throws
    {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await register(Self.audience, shop)
            let id = try await send(.inColumns, shop)
            #expect(try await page(id, running) == [token(8), token(7)])
            // Its checkpoint, as it would be written.
            let error = await #expect(throws: PostgresError.self) {
                try await running.execute(
                    """
                    UPDATE notifications SET walked_to = $2, walked_entries = 0, chunks = 2, total = total + 2, pending = pending + 2
                    WHERE id = $1 AND published_at IS NULL AND walked_to = '00000000-0000-0000-0000-000000000000' AND walked_entries = 0
                        AND chunks = 1
                    """, [.id(id), .id(installation(2))])
            }
            #expect(error?.constraint == "notifications_walk_in_one_order")
            #expect(try await rest(id, running).count == 6)
        }
    }

    @Test("What a program of before writes gets its place in the order: a new installation's token, and one that moves")
    func writtenBefore()
        async throws
    {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await register([2, 1], shop)
            try await running.execute(
                """
                WITH made AS (
                    INSERT INTO installations (app_id, id, created_at, registered_at) SELECT id, $1, now(), now() FROM apps
                )
                INSERT INTO tokens (app_id, environment, purpose, token, installation, registered_at)
                SELECT id, 'production', 'alert', decode($2, 'hex'), $1, now() FROM apps
                """, [.id(installation(3)), .text(token(3))])
            try await running.execute(
                "UPDATE tokens SET state = 'retired', retired_at = now(), retired_reason = 'replaced' WHERE installation = $1",
                [.id(installation(1))])
            try await running.execute(
                "UPDATE tokens SET installation = $1 WHERE installation = $2", [.id(installation(1)), .id(installation(2))])
            #expect(
                try await running.count(
                    """
                    SELECT count(*) FROM tokens t JOIN installations i ON i.app_id = t.app_id AND i.id = t.installation
                    WHERE t.ordinal IS DISTINCT FROM i.ordinal
                    """) == 0)
            let id = try await send(.inColumns, shop)
            #expect(try await rest(id, running) == [token(2), token(3)])
        }
    }
}
