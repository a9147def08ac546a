import Observability
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenService

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
            try await running.execute("UPDATE installations SET lines_count_until = now() + interval '90 minutes'")
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
                "SELECT substr(purpose, 10, 1) || count(*) AS name FROM tokens WHERE state = 'active' GROUP BY substr(purpose, 10, 1) ORDER BY 1"
            )
            #expect(kept == ["b24", "c40"])
            let removed = try await running.count(
                "SELECT count(*) FROM installation_history WHERE event = 'token_removed'")
            #expect(removed == 56)
        }
    }

    @Test("Lines that count far ahead were made before the clock was set back") func earlierClock() throws {
        let key = InstallationKey(app: 1, id: installation(1))
        for (ahead, isRefused) in [(3_600_000, false), (3_600_001, true), (7_200_000, true), (7_200_001, false)] as [(Int64, Bool)] {
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

    @Test("An installation with many tokens fills a batch alone") func crowded() throws {
        let app = App(
            id: 1, slug: try #require(AppSlug("shop")), bundleID: "com.example.shop", devicePolicy: .multi, environments: [.production],
            staleAfterDays: nil, removesStale: false)
        let request = RegistryRequest(
            app: app, InstallationPatch(installation: installation(1), expectedOwner: .anyone, precondition: .none))
        let crowded = CrowdedInstallations()
        #expect(InstallationRegistration.weight(of: request, crowded) == 1)
        crowded.note(request.installation, tokens: 128)
        #expect(InstallationRegistration.weight(of: request, crowded) == 1000)
        crowded.note(request.installation, tokens: 127)
        #expect(InstallationRegistration.weight(of: request, crowded) == 1)
    }
}
