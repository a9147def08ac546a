import Observability
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenServiceApps
@testable import TokenServiceRegistry

@Suite("What one installation may have and do is bounded", .serialized, .timeLimit(.minutes(5)))
struct InstallationBoundsTests {
    private static func path(_ number: Int) -> String { "/v1/apps/shop/installations/\(installation(number))" }

    /// A list of 40 tokens, numbered from `start`.
    private static func tokens(_ start: Int, purpose: String) -> String {
        let tokens = (start..<start + 40).map { #"{"token":"\#(token($0))","purpose":"\#(purpose)\#($0 % 40)"}"# }
        return "[\(tokens.joined(separator: ","))]"
    }

    private static func states(_ running: RunningService) async throws -> [String] {
        try await running.texts("state", "SELECT state || ' ' || count(*) AS state FROM tokens GROUP BY tokens.state ORDER BY 1")
    }

    @Test("An installation that registers other tokens all the time keeps 200 old ones, is refused after 1,000 lines, and hinders no other")
    func newTokens() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            func register(_ round: Int) async throws -> APITestClient.Answer {
                try await shop.put(
                    Self.path(1), #"{"user":"ada","tokens":\#(Self.tokens(1 + 40 * round, purpose: "activity_start:t"))}"#)
            }
            var (rounds, answer) = (1, try await register(0))
            #expect(answer.status == 201)
            while rounds < 60, answer.status != 429 {
                answer = try await register(rounds)
                rounds += 1
                #expect(answer.status == 429 || answer.json["tokens"]?.arrayValue?.count == 40 + min(200, 40 * (rounds - 1)))
            }
            // Forty lines, then eighty in each round, and some more as time goes on.
            #expect((14...59).contains(rounds))
            #expect(answer.status == 429 && answer.code == "too_many_changes" && answer.json["retryable"]?.boolValue == true)
            #expect((answer.header("retry-after").flatMap { Int($0) } ?? 0) > 0)
            #expect(try await Self.states(running) == ["active 40", "retired 200"])
            // The newest ones.
            let oldest = try await running.number("id", "SELECT min(id) AS id FROM tokens")
            #expect(oldest == Int64(1 + 40 * (rounds - 1) - 240))
            #expect(try await shop.post(Self.path(1) + "/logout").status == 200)
            #expect(try await shop.put(Self.path(2), #"{"user":"eve","tokens":[]}"#).status == 201)
        }
    }

    @Test("A device that has used up its lines does not keep its backend from setting and taking away tags") func tags() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await running.execute("UPDATE installations SET lines_count_until = now() + interval '80 minutes'")
            func refusal() async throws -> String? { try await shop.put(Self.path(1), #"{"user":"ada","tokens":[]}"#).code }
            #expect(try await refusal() == "too_many_changes")
            for tags in [["beta"], []] {
                let list = tags.map { "\"\($0)\"" }.joined(separator: ",")
                #expect(try await shop.put(Self.path(1) + "/tags", #"{"tags":[\#(list)]}"#).status == 200, "\(tags)")
                #expect(try await shop.record(installation(1))["tags"]?.arrayValue?.compactMap(\.stringValue) == tags)
            }
            #expect(try await refusal() == "too_many_changes")
        }
    }

    @Test("A device whose lines counted when PostgreSQL's clock was set back by more than an hour can register") func clockSetBack()
        async throws
    {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await running.execute("UPDATE installations SET lines_count_until = now() + interval '89 minutes'")
            #expect(try await shop.put(Self.path(1), #"{"user":"ada","tokens":[]}"#).status == 200)
            #expect(
                try await running.count("SELECT count(*) FROM installations WHERE lines_count_until < now() + interval '1 minute'") == 1,
                "the line that it made now counts from now on")
        }
    }

    @Test("Of more than 64 active tokens the newest stay") func activeTokens() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for (round, name) in ["a", "b", "c"].enumerated() {
                let body = #"{"user":"ada","tokens":\#(Self.tokens(1 + 40 * round, purpose: "activity:\(name)"))}"#
                #expect(try await shop.put(Self.path(1), body).status == (round == 0 ? 201 : 200))
            }
            #expect(try await Self.states(running) == ["active 64", "retired 56"])
            let kept = try await running.texts(
                "name",
                """
                SELECT substr(purpose, 10, 1) || count(*) AS name FROM tokens WHERE state = 'active' GROUP BY substr(purpose, 10, 1)
                    ORDER BY 1
                """
            )
            #expect(kept == ["b24", "c40"])
            let removed = try await running.count(
                "SELECT count(*) FROM installation_history WHERE event = 'token_removed'")
            #expect(removed == 56)
        }
    }

    @Test("Lines that count far ahead were made before the clock was set back") func earlierClock() throws {
        let key = InstallationKey(app: 1, id: installation(1))
        // A request is taken while lines count an hour ahead, and counts 24 minutes at most.
        for (ahead, isRefused) in [(3_600_000, false), (3_600_001, true), (5_040_000, true), (5_040_001, false)] as [(Int64, Bool)] {
            let row = InstallationState(
                key: key, owner: "ada", epoch: 1, profile: InstallationProfile(), createdAt: 1, registeredAt: 1,
                linesCountUntil: 50 + ahead,
                isStored: true)
            let batch = RegistryBatch(installations: [row], tokens: [], now: 50)
            if isRefused {
                #expect(throws: TooManyChanges.self) { try batch.admitChange(of: key) }
            } else {
                try batch.admitChange(of: key)
            }
        }
    }

    private static func app() throws -> App {
        App(
            id: 1, slug: try #require(AppSlug("shop")),
            AppProperties(bundleID: "com.example.shop", devicePolicy: .multi, environments: [.production]))
    }

    private static func registration(_ number: Int, _ named: [(token: Int, purpose: String)]) throws -> Registration {
        let tokens = try named.map { name in
            let value = try #require(DeviceToken(hex: token(name.token)))
            let purpose = try #require(Purpose(rawValue: name.purpose))
            return RegisteredToken(token: value, environment: .production, purpose: purpose)
        }
        return Registration(
            installation: installation(number), user: "ada", tokens: tokens, profile: InstallationProfile(), replaces: nil,
            expectedOwner: .anyone)
    }

    @Test("However many lines one request makes, they count") func manyLinesAtOnce() throws {
        var bounds = InstallationBounds()
        bounds.lines = 10
        var batch = RegistryBatch(installations: [], tokens: [], now: 50, bounds: bounds)
        let registration = try Self.registration(1, (1...40).map { ($0, "activity:\($0)") })
        _ = try batch.apply(.register(registration), of: try Self.app())
        let key = InstallationKey(app: 1, id: installation(1))
        // Forty lines of six minutes are four hours.
        #expect(batch.history.count == 40)
        let until = try #require(batch.installations[key]?.linesCountUntil)
        #expect(until == 14_400_050, "\(until)")
        #expect(throws: TooManyChanges.self) { try batch.admitChange(of: key) }
    }

    @Test("Tokens of Live Activities give way before all others, the oldest first") func activitiesGiveWay() throws {
        var bounds = InstallationBounds()
        (bounds.activeTokens, bounds.retiredTokens) = (3, 10)
        var batch = RegistryBatch(installations: [], tokens: [], now: 50, bounds: bounds)
        let app = try Self.app()
        _ = try batch.apply(.register(try Self.registration(1, [(1, "alert"), (2, "activity_start:Old")])), of: app)
        for number in 3...7 {
            let named = try Self.registration(1, [(number, "activity:\(number)")]).tokens[0]
            let report = ActivityReport(installation: installation(1), id: "\(number)", token: named, expectedOwner: .anyone)
            _ = try batch.apply(.report(report), of: app)
        }
        let kept = batch.tokens.filter(\.isActive).map(\.purpose.rawValue).sorted()
        #expect(kept == ["activity:6", "activity:7", "alert"])
    }

    @Test(
        "A restore retires no active token: of the tokens in quarantine, the newest come back for which there is room", arguments: [60, 64])
    func restored(active: Int) throws {
        // Those in quarantine are older than the active ones, and their ids are in no order of time.
        let tokens = try (1...active + 20).map { number in
            let value = try #require(DeviceToken(hex: token(number)))
            let named = RegisteredToken(token: value, environment: .production, purpose: .activity(id: "\(number)"))
            let isActive = number <= active
            return TokenState(
                id: Int64(number), app: 1, named: named, installation: installation(1),
                registeredAt: Int64(isActive ? 1000 + number : number * 7 % 20),
                retired: isActive ? nil : TokenState.Retirement(at: 2000, reason: .rejected),
                quarantinedAt: isActive ? nil : 2000)
        }
        let row = InstallationState(
            key: InstallationKey(app: 1, id: installation(1)), owner: "ada", epoch: 1, profile: InstallationProfile(), createdAt: 1,
            registeredAt: 1, isStored: true)
        var batch = RegistryBatch(installations: [row], tokens: tokens, now: 3000)
        let changes: [RegistryChange] = tokens.dropFirst(active).compactMap { token in token.id.map { .restore(token: $0) } }
        #expect(batch.apply(toTokens: changes) == 64 - active)
        #expect(batch.tokens.prefix(active).allSatisfy(\.isActive) && batch.tokens.allSatisfy { $0.quarantinedAt == nil })
        let restored = batch.tokens.dropFirst(active).filter(\.isActive).map(\.registeredAt).sorted()
        let newest: [Int64] = [16, 17, 18, 19]
        #expect(restored == Array(newest.suffix(64 - active)))
    }

    @Test("Of the rows of one token value, sixteen stay: retired ones go first, then the oldest, and none that the request names")
    func rowsOfValue() throws {
        let app = try Self.app()
        var batch = RegistryBatch(installations: [], tokens: [], now: 50)
        for number in 1...16 {
            _ = try batch.apply(.register(try Self.registration(number, [(1, "activity:\(number)")])), of: app)
        }
        #expect(batch.tokens.allSatisfy { $0.isActive })
        // The third installation's is retired.
        _ = try batch.apply(.register(try Self.registration(3, [(2, "activity:3")])), of: app)
        for number in 17...19 {
            _ = try batch.apply(.register(try Self.registration(number, [(1, "activity:\(number)")])), of: app)
        }
        let value = try #require(DeviceToken(hex: token(1)))
        let kept = batch.tokens.filter { $0.token == value && !$0.isDeleted }
        #expect(kept.count == 16 && kept.allSatisfy(\.isActive))
        #expect(Set(kept.map(\.installation)) == Set((4...19).map { installation($0) }))
        #expect(batch.history.filter { $0.event == .tokenRemoved }.map(\.installation) == [installation(1), installation(2)])
        // One of those that went comes back.
        let returning = try Self.registration(1, [(1, "activity:1")])
        _ = try batch.apply(.register(returning), of: app)
        let index = try #require(batch.index(of: returning.tokens[0], app: 1))
        #expect(batch.tokens[index].isActive && batch.tokens[index].installation == installation(1))
        #expect(batch.tokens.filter { $0.token == value && !$0.isDeleted }.count == 16)
        // A request that names a value for forty purposes keeps these, and no others.
        _ = try batch.apply(.register(try Self.registration(20, (101...140).map { (1, "activity:\($0)") })), of: app)
        let last = batch.tokens.filter { $0.token == value && !$0.isDeleted }
        #expect(last.count == 40 && last.allSatisfy { $0.installation == installation(20) })
    }

    @Test("However many installations name one token value, for whatever purpose, the database keeps sixteen rows of it")
    func storedRowsOfValue() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for number in 1...20 {
                let body = #"{"user":"ada","tokens":[{"token":"\#(token(1))","purpose":"activity:\#(number)"}]}"#
                #expect(try await shop.put(Self.path(number), body).status == 201)
            }
            #expect(try await Self.states(running) == ["active 16"])
            let removed = try await running.count("SELECT count(*) FROM installation_history WHERE event = 'token_removed'")
            #expect(removed == 4)
            #expect(try await shop.record(installation(4))["tokens"]?.arrayValue?.isEmpty == true)
            #expect(try await shop.record(installation(5))["tokens"]?.arrayValue?.count == 1)
            try await shop.register(installation(21), user: "eve", token: token(1))
            #expect(try await Self.states(running) == ["active 16"])
        }
    }

    @Test("A request that names a token value for many purposes weighs as much as one that names many values") func manyPurposes() throws {
        let app = try Self.app()
        let crowded = CrowdedInstallations()
        let request = RegistryRequest(app: app, try Self.registration(1, (1...40).map { (1, "activity:\($0)") }))
        #expect(InstallationRegistration.weight(of: request, crowded) == 40)
    }

    @Test("An installation with many tokens fills a batch alone") func crowded() throws {
        let app = try Self.app()
        let request = RegistryRequest(
            app: app, InstallationPatch(installation: installation(1), expectedOwner: .anyone, precondition: .none))
        let crowded = CrowdedInstallations()
        #expect(InstallationRegistration.weight(of: request, crowded) == 1)
        crowded.note(request.installation, tokens: 128)
        #expect(InstallationRegistration.weight(of: request, crowded) == 1000)
        crowded.note(request.installation, tokens: 127)
        #expect(InstallationRegistration.weight(of: request, crowded) == 1)
    }

    @Test("In a list, too, an installation with many tokens has a transaction of its own") func crowdedInList() throws {
        let app = try Self.app()
        let crowded = CrowdedInstallations()
        crowded.note(InstallationKey(app: app.id, id: installation(2)), tokens: 128)
        var rest = try (1...4).map { try Self.registration($0, [($0, "alert")]) }[...]
        var batches: [[PushID]] = []
        while !rest.isEmpty {
            let batch = InstallationRegistration.batch(of: rest, app: app, crowded)
            batches.append(batch.map(\.installation.id))
            rest = rest.dropFirst(batch.count)
        }
        #expect(batches == [[installation(1)], [installation(2)], [installation(3), installation(4)]])
    }
}
