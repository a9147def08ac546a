import Postgres
import PushModel
import StrictJSON
import Testing

/// `docs/registration.md`, one test per rule, through HTTP.
@Suite("The rules of registration", .serialized, .timeLimit(.minutes(5)))
struct RegistrationRulesTests {
    @Test("Every call stamps the registration") func everyCall() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let first = try await shop.register(installation(1), user: "ada", token: token(1))
            #expect(first.status == 201)
            let again = try await shop.register(installation(1), user: "ada", token: token(1))
            #expect(again.status == 200)
            let before = try #require(first.json["tokens"]?[0]?.text("registered_at"))
            let after = try #require(again.json["tokens"]?[0]?.text("registered_at"))
            #expect(after > before)
            #expect(try #require(again.json.text("registered_at")) > (try #require(first.json.text("registered_at"))))
            #expect(again.json.number("owner_epoch") == first.json.number("owner_epoch"))
            #expect(again.json.text("fence") == "none")
        }
    }

    @Test("A token moves, and the installation that loses it is fenced if the owners differ") func movedToken() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let moved = try await shop.register(installation(2), user: "grace", token: token(1))
            #expect(moved.json.tokenStates == ["\(hint(1)) active"])
            let loser = try await shop.record(installation(1))
            #expect(loser.tokenStates.isEmpty)
            #expect(loser.number("owner_epoch") == 2)
            #expect(moved.json.number("owner_epoch") == 1)
            #expect(try await running.fences() == [.init(installation: installation(1), epochsBelow: 2)])
        }
    }

    @Test("A token moves without a fence between installations of one owner") func sameOwner() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await shop.register(installation(2), user: "ada", token: token(1))
            #expect(try await shop.record(installation(1)).number("owner_epoch") == 1)
            #expect(try await running.fences().isEmpty)
            // What was queued for the first installation would still reach the device, so the fence must reach back to it.
            let out = try await shop.post("/v1/apps/shop/installations/\(installation(2))/logout")
            #expect(out.json["signed_out"]?.boolValue == true)
            #expect(
                Set(try await running.fences()) == [
                    .init(installation: installation(1), epochsBelow: 2), .init(installation: installation(2), epochsBelow: 2),
                ])
        }
    }

    @Test("Another token for the same purpose replaces the old one") func replacedToken() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let record = try await shop.register(installation(1), user: "ada", token: token(2)).json
            #expect(record.tokenStates == ["\(hint(2)) active", "\(hint(1)) retired replaced"])
            #expect(record.number("owner_epoch") == 1)
        }
    }

    @Test("A full state retires the tokens that it no longer names") func unnamedToken() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let path = "/v1/apps/shop/installations/\(installation(1))"
            let both = try await shop.put(
                path, #"{"user":"ada","tokens":[{"token":"\#(token(1))"},{"token":"\#(token(2))","purpose":"voip"}]}"#)
            #expect(both.json.tokenStates.count == 2)
            let one = try await shop.put(path, #"{"user":"ada","tokens":[{"token":"\#(token(1))"}]}"#)
            #expect(one.json.tokenStates == ["\(hint(1)) active", "\(hint(2)) retired removed"])
        }
    }

    @Test("The tokens of a purpose that a full state keeps stay, until it names another one") func keptToken() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let path = "/v1/apps/shop/installations/\(installation(1))"
            let body = #"{"user":"ada","tokens":[{"token":"\#(token(1))"},{"token":"\#(token(2))","purpose":"location"}]}"#
            #expect(try await shop.put(path, body).status == 201)
            let keeps = #"{"user":"ada","tokens":[{"token":"\#(token(3))"}],"keeps":["location","voip"]}"#
            for method in ["PUT", "PATCH"] {
                let kept = try await shop.call(method, path, keeps).json
                #expect(Set(kept.tokenStates) == ["\(hint(3)) active", "\(hint(2)) active", "\(hint(1)) retired replaced"])
            }
            let listed = #"{"user":"ada","tokens":[{"token":"\#(token(4))","purpose":"location"}],"keeps":["location","alert"]}"#
            let active = try await shop.put(path, listed).json.tokenStates.filter { $0.hasSuffix("active") }
            #expect(Set(active) == ["\(hint(3)) active", "\(hint(4)) active"])
        }
    }

    @Test("A registration retires the token that it names as replaced, wherever that token is") func namedReplacement() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await shop.register(installation(2), user: "grace", token: token(2), more: #","replaces":"\#(token(1))""#)
            let old = try await shop.record(installation(1))
            #expect(old.tokenStates == ["\(hint(1)) retired replaced"])
            #expect(old.number("owner_epoch") == 2)
        }
    }

    @Test("Another owner ends the epoch") func otherOwner() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let grace = try await shop.register(installation(1), user: "grace", token: token(1)).json
            #expect(grace.number("owner_epoch") == 2)
            #expect(grace.text("user") == "grace")
            #expect(grace.text("fence") == "effective")
            #expect(try await running.fences() == [.init(installation: installation(1), epochsBelow: 2)])
        }
    }

    @Test("The single policy signs the user's other installations out") func singlePolicy() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp(policy: "single")
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await shop.register(installation(2), user: "ada", token: token(2))
            let first = try await shop.record(installation(1))
            #expect(first["user"]?.isNull == true)
            #expect(first.number("owner_epoch") == 2)
            #expect(try await running.fences() == [.init(installation: installation(1), epochsBelow: 2)])
            let reason: String = try await running.pool.session { session in
                try session.execute("SELECT signed_out_reason FROM installations WHERE id = \(installation(1))").only()["signed_out_reason"]
            }
            #expect(reason == "superseded")
        }
    }

    @Test("A retired token comes back to life") func revivedToken() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await shop.register(installation(1), user: "ada", token: token(2))
            let back = try await shop.register(installation(1), user: "ada", token: token(1)).json
            #expect(back.tokenStates == ["\(hint(1)) active", "\(hint(2)) retired replaced"])
        }
    }

    @Test("A mismatch of the expected owner changes nothing") func expectedOwner() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let before = try await shop.get("/v1/apps/shop/installations/\(installation(1))").bytes
            for expected in [#""grace""#, "null"] {
                let late = try await shop.register(installation(1), user: "eve", token: token(2), more: #","expected_user":\#(expected)"#)
                #expect(late.status == 409)
                #expect(late.code == "owner_mismatch")
            }
            #expect(try await shop.get("/v1/apps/shop/installations/\(installation(1))").bytes == before)
            let right = try await shop.register(installation(1), user: "grace", token: token(1), more: #","expected_user":"ada""#)
            #expect(right.status == 200)
        }
    }
}
