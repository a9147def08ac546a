import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenServiceSending

/// What a fan-out goes by: the order in which installations were made, which nothing that happens to them changes.
@Suite("A fan-out goes in the order in which installations were made, and stays in it", .serialized, .timeLimit(.minutes(5)))
struct FanOutOrderTests {
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

    /// One step of a fan-out that looks at two installations; nil when it is over.
    private func page(_ id: PushID, _ running: RunningService) async throws -> [String]? {
        try await running.pool.transaction(isolation: .repeatableRead) { session in
            let store = FanOutStore(session: session)
            guard let audience = try store.fanOut(of: id) else { return nil }
            let now = UnixClock.now()
            let page = try store.page(of: audience, installations: 2, names: DeliveryNames(id), now: now)
            try store.commit(page, of: audience, leaseSeconds: 60, now: now)
            return try page.jobs.flatMap { try $0.deliveries.decoded() }.map(\.token.hex)
        }
    }

    private func rest(_ id: PushID, _ running: RunningService) async throws -> [String] {
        var tokens: [String] = []
        while let page = try await page(id, running) { tokens += page }
        return tokens
    }

    private func register(_ numbers: [Int], _ shop: APITestClient) async throws {
        for number in numbers {
            try await shop.register(installation(number), user: "user-\(number)", token: token(number), tags: ["red"])
        }
    }

    private func send(_ way: Way, _ shop: APITestClient) async throws -> PushID {
        try #require(try await shop.send(way.rawValue, more: way.more).json.text("id").flatMap { PushID($0) })
    }

    @Test("A fan-out meets each installation once, though rows move and all register anew between any two pages", arguments: Way.allCases)
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

    @Test("A user who is erased and comes back keeps the place and is met once; a new device comes last") func erased() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await register(Self.audience, shop)
            let id = try await send(.inColumns, shop)
            #expect(try await page(id, running) == [token(8), token(7)])
            // One that was met and one that was not, both with tokens that no installation had.
            for number in [8, 1] {
                #expect(try await running.client.erase("user-\(number)").status == 200)
                try await shop.register(installation(number), user: "user-\(number)", token: token(100 + number))
            }
            try await shop.register(installation(9), user: nil, token: token(9))
            #expect(try await rest(id, running) == [6, 5, 4, 3, 2, 101, 9].map { token($0) })
        }
    }
}
