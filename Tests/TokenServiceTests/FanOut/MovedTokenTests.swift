import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenServiceSending

@Suite(
    "A token that moves while an audience is fanned out is met once, whatever is kept of its delivery", .serialized, .timeLimit(.minutes(5))
)
struct MovedTokenTests {
    /// Every way in which a page is read.
    enum Target: String, CaseIterable {
        case everybody = #"{"all":true}"#
        case byIndexOfTags = #"{"tags":"red"}"#
        case byInstallations = #"{"tags":"NOT blue"}"#

        var more: String { #","receipts":"failures""# }
    }

    private static let audience = 1...6

    /// One step of a fan-out that looks at so few installations; nil when it is over.
    private func page(
        _ id: PushID, _ running: RunningService, of installations: Int, commits: Bool = true, after previous: PendingFanOut.Page? = nil
    ) async throws -> PendingFanOut.Page? {
        try await running.pool.transaction(isolation: .repeatableRead) { session in
            let store = FanOutStore(session: session)
            guard var audience = try store.fanOut(of: id) else { return nil }
            if let previous { audience.checkpoint = previous.end }
            let now = UnixClock.now()
            let page = try store.page(of: audience, after: previous, installations: installations, names: DeliveryNames(id), now: now)
            if commits { try store.commit(page, of: audience, leaseSeconds: 60, now: now) }
            return page
        }
    }

    private func rest(_ id: PushID, _ running: RunningService) async throws -> [String] {
        var tokens: [String] = []
        while let page = try await page(id, running, of: 2) { tokens += try Self.tokens(page) }
        return tokens
    }

    private static func tokens(_ page: PendingFanOut.Page?) throws -> [String] {
        try page?.jobs.flatMap { try $0.deliveries.decoded() }.map(\.token.hex) ?? []
    }

    private func audience(_ running: RunningService) async throws -> APITestClient {
        let shop = try await running.client.makeApp()
        for number in Self.audience {
            try await shop.register(installation(number), user: nil, token: token(number), tags: ["red"])
        }
        return shop
    }

    private func send(_ target: String, _ shop: APITestClient, more: String = "") async throws -> PushID {
        try #require(try await shop.send(target, more: more).json.text("id").flatMap { PushID($0) })
    }

    @Test(
        "Of what is counted alone, a token that moves ahead of fan-out gets no second push; one that moves ahead of it all gets its own",
        arguments: Target.allCases)
    func movesAhead(target: Target) async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await audience(running)
            let id = try await send(target.rawValue, shop, more: target.more)
            let first = try Self.tokens(try await page(id, running, of: 2))
            #expect(first == [token(1), token(2)])
            // One that fan-out has met goes where it still comes, one that it has not goes on from there.
            try await shop.register(installation(5), user: nil, token: token(1), tags: ["red"])
            try await shop.register(installation(4), user: nil, token: token(3), tags: ["red"])
            let others = try await rest(id, running)
            #expect(others.sorted() == [token(3), token(6)])
            #expect(try await running.number("total", "SELECT total FROM notifications") == 4)
        }
    }

    @Test("Also while the page that met it is still being committed", arguments: Target.allCases)
    func aheadOfCommit(target: Target) async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await audience(running)
            let id = try await send(target.rawValue, shop, more: target.more)
            let first = try #require(try await page(id, running, of: 2, commits: false))
            try await shop.register(installation(3), user: nil, token: token(1), tags: ["red"])
            let second = try await page(id, running, of: 2, commits: false, after: first)
            #expect(try Self.tokens(second) == [token(4)])
        }
    }

    @Test("In a list, too, where the next entries are read") func list() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            let count = FanOutStore.entriesOfPage + 1
            for number in [1, count] { try await shop.register(installation(number), user: nil, token: token(number)) }
            let list = (1...count).map { "\"\(installation($0))\"" }.joined(separator: ",")
            let id = try await send(#"{"installations":[\#(list)]}"#, shop, more: #","receipts":"failures""#)
            #expect(try Self.tokens(try await page(id, running, of: 1)) == [token(1)])
            try await shop.register(installation(count), user: nil, token: token(1))
            #expect(try await rest(id, running).isEmpty)
        }
    }

    @Test("A token's number in a job is known at its own place only") func alignment() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await audience(running)
            let id = try await send(#"{"all":true}"#, shop)
            try await shop.register(installation(5), user: nil, token: token(1))
            let number = try await running.number("id", "SELECT id FROM tokens WHERE token = decode(\(token(1)), 'hex')")
            #expect(number < 256)
            // The members hold its bytes across their border.
            try await running.execute(
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from, published_at)
                VALUES (\(id), 99, 1, 'bulk', '', now(), int8send(\(number)::bigint * 256) || int8send(\(number)::bigint * 256), now(),
                    now())
                """)
            #expect(try await rest(id, running).contains(token(1)))
        }
    }
}
