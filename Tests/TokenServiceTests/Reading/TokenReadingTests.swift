import Postgres
import PushModel
import StrictJSON
import Testing
import TokenServiceApps
import TokenServiceRegistry

@Suite("Who sees a token, and who has it", .serialized, .timeLimit(.minutes(5)))
struct TokenReadingTests {
    @Test("Hints for all; the whole token for a key with the scope devices that asks for it") func masking() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let keys =
                [
                    (["devices"], true, true), (["read"], true, false), (["read", "devices"], true, true),
                    (["send"], false, false), (["read", "send", "admin"], true, false),
                ] as [(scopes: [String], mayRead: Bool, maySeeTokens: Bool)]
            for key in keys {
                let client = try await running.client.makeKey(app: "shop", scopes: key.scopes)
                for (words, isFull) in [("", false), ("?tokens=hints", false), ("?tokens=full", true)] {
                    let answers = [
                        try await client.get("/v1/apps/shop/installations/\(installation(1))\(words)"),
                        try await client.get("/v1/apps/shop/installations\(words)"),
                        try await client.get("/v1/apps/shop/users/ada/installations\(words)"),
                        try await client.post("/v1/apps/shop/tokens/search\(words)", #"{"token":"\#(token(1))"}"#),
                    ]
                    let isAllowed = key.mayRead && (!isFull || key.maySeeTokens)
                    for answer in answers {
                        #expect(answer.status == (isAllowed ? 200 : 403), "\(key.scopes) \(words)")
                        let text = String(decoding: answer.bytes, as: UTF8.self)
                        #expect(text.contains(#""token":"\#(token(1))""#) == (isAllowed && isFull), "\(key.scopes) \(words)")
                        #expect(text.contains(token(1)) == (isAllowed && isFull))
                        #expect(text.contains(hint(1)) == isAllowed)
                    }
                }
            }
        }
    }

    @Test("The 403 for whole tokens does not reveal whether the installation exists") func noOracle() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let reader = try await running.client.makeKey(app: "shop", scopes: ["read"])
            let there = try await reader.get("/v1/apps/shop/installations/\(installation(1))?tokens=full")
            let absent = try await reader.get("/v1/apps/shop/installations/\(installation(2))?tokens=full")
            #expect(there.status == 403 && there.bytes == absent.bytes)
        }
    }

    @Test("A token finds who holds it, alive or retired, in either environment") func search() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await shop.register(installation(2), user: "ada", token: token(1), environment: "sandbox")
            try await shop.register(installation(2), user: "ada", token: token(2), environment: "sandbox")
            func found(_ more: String = "", token wanted: Int = 1) async throws -> [String] {
                let answer = try await shop.post("/v1/apps/shop/tokens/search", #"{"token":"\#(token(wanted).uppercased())"\#(more)}"#)
                #expect(answer.status == 200)
                return answer.json["installations"]?.arrayValue?.compactMap { $0.text("id") } ?? []
            }
            // A token is one device's: the installation that named it last has it in both environments.
            #expect(try await found() == [installation(2).description])
            #expect(try await found(#","environment":"production""#) == [installation(2).description])
            #expect(try await found(#","environment":"sandbox""#) == [installation(2).description])
            #expect(try await found(token: 2) == [installation(2).description])
            #expect(try await found(token: 3).isEmpty)
            let wrong = try await shop.post("/v1/apps/shop/tokens/search", #"{"token":"xyz","env":"sandbox"}"#)
            #expect(wrong.status == 400 && wrong.problems == ["/token invalid_token", "/env unknown_field"])
        }
    }

    @Test("Another app's token is unknown; the answer names former holders: moved away, deregistered") func formerHolders() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let blog = try await running.client.makeApp("blog")
            try await shop.register(installation(1), user: "ada", token: token(1))
            let id = try await running.number("id", "SELECT id FROM tokens")
            var moved = HistoryEntry(
                app: try await running.app().id, installation: installation(1), event: .tokenMovedAway, at: 1_700_000_000_000)
            moved.token = .init(id: id, hint: hint(1), environment: "production", purpose: "alert")
            moved.otherInstallation = installation(2)
            try await running.append([moved])
            try await shop.register(installation(2), user: "ada", token: token(1))
            let body = #"{"token":"\#(token(1))"}"#
            let elsewhere = try await blog.post("/v1/apps/blog/tokens/search", body).json
            #expect(elsewhere["installations"]?.arrayValue?.isEmpty == true && elsewhere["former_holders"]?.arrayValue?.isEmpty == true)
            let now = try await shop.post("/v1/apps/shop/tokens/search", body).json
            #expect(now["installations"]?.arrayValue?.compactMap { $0.text("id") } == [installation(2).description])
            let former = try #require(now["former_holders"]?.arrayValue?.last)
            #expect(former.text("id") == installation(1).description && former.text("reason") == "moved")
            #expect(former.text("moved_to") == installation(2).description && former.text("until") == "2023-11-14T22:13:20.000Z")
            _ = try await shop.delete("/v1/apps/shop/installations/\(installation(2))")
            let then = try await shop.post("/v1/apps/shop/tokens/search", body).json
            #expect(then["installations"]?.arrayValue?.isEmpty == true)
            #expect(then["former_holders"]?.arrayValue?.first?.text("id") == installation(2).description)
            #expect(then["former_holders"]?.arrayValue?.first?.text("reason") == "deregistered")
        }
    }

    @Test("A single read has the tag of what was written, and is not sent again to who has it") func entityTag() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let path = "/v1/apps/shop/installations/\(installation(1))"
            let written = try await shop.register(installation(1), user: "ada", token: token(1))
            let tag = try #require(written.header("etag"))
            #expect(try await shop.get(path).header("etag") == tag)
            for known in [tag, "W/\(tag)", "\"x\", \(tag)", "*"] {
                let answer = try await shop.call("GET", path, headers: ["if-none-match": known])
                #expect(answer.status == 304 && answer.header("etag") == tag && answer.bytes.isEmpty, "\(known)")
            }
            #expect(try await shop.call("GET", "\(path)?tokens=full", headers: ["if-none-match": tag]).status == 200)
            try await shop.register(installation(1), user: "grace", token: token(1))
            let changed = try await shop.call("GET", path, headers: ["if-none-match": tag])
            #expect(changed.status == 200 && changed.header("etag") != tag)
        }
    }
}
