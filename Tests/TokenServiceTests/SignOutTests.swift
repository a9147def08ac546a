import Broker
import Postgres
import PushModel
import StrictJSON
import Testing
import TokenServiceSending

@Suite("Logging out and deregistering (rule 7)", .serialized, .timeLimit(.minutes(5)))
struct SignOutTests {
    @Test("The fence is on the control stream before the answer") func theFenceStandsOnTheControlStreamBeforeTheAnswer() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let out = try await shop.post("/v1/apps/shop/installations/\(installation(1))/logout", "{}")
            #expect(out.status == 200)
            #expect(out.json["signed_out"]?.boolValue == true)
            #expect(out.json.number("owner_epoch") == 2)
            #expect(out.json.text("fence") == "effective")
            // Read up to a marker that is published only now: whatever is there was there before.
            #expect(try await running.fences() == [.init(installation: installation(1), epochsBelow: 2)])
        }
    }

    @Test("Logging out twice is as good as once") func twoLogouts() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let path = "/v1/apps/shop/installations/\(installation(1))/logout"
            _ = try await shop.post(path)
            let again = try await shop.post(path)
            #expect(again.status == 200)
            #expect(again.json["signed_out"]?.boolValue == false)
            #expect(again.json.number("owner_epoch") == 2)
            #expect(again.json.text("fence") == "effective")
            let unknown = try await shop.post("/v1/apps/shop/installations/\(installation(9))/logout")
            #expect(unknown.status == 200)
            #expect(unknown.json["signed_out"]?.boolValue == false)
            #expect(unknown.json.text("id") == installation(9).description)
            #expect(unknown.json.text("fence") == "none")
        }
    }

    @Test("A late logout does not hit the next user") func lateLogout() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "grace", token: token(1))
            let path = "/v1/apps/shop/installations/\(installation(1))/logout"
            let late = try await shop.post(path, #"{"expected_user":"ada"}"#)
            #expect(late.status == 409)
            #expect(try await shop.record(installation(1)).text("user") == "grace")
            #expect(try await shop.post(path, #"{"expected_user":"grace"}"#).status == 200)
            // No user is signed in any more, which is all that a logout wants.
            #expect(try await shop.post(path, #"{"expected_user":"ada"}"#).status == 200)
        }
    }

    /// Rule 8: by token, and for a deregistration, as for a logout.
    @Test("A late request for the previous user changes nothing") func lateRequests() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "grace", token: token(1))
            let path = "/v1/apps/shop/installations/\(installation(1))"
            let before = try await shop.get(path).bytes
            let (ada, grace) = (#"{"token":"\#(token(1))","expected_user":"ada"}"#, #"{"token":"\#(token(1))","expected_user":"grace"}"#)
            let late = [
                try await shop.post("/v1/apps/shop/tokens/logout", ada), try await shop.post("/v1/apps/shop/tokens/deregister", ada),
                try await shop.delete("\(path)?expected_user=ada"),
                try await shop.post("/v1/apps/shop/tokens/logout", #"{"token":"\#(token(1))","expected_user":null}"#),
            ]
            #expect(late.map(\.status) == [409, 409, 409, 409])
            #expect(Set(late.map(\.code)) == ["owner_mismatch"])
            #expect(try await shop.get(path).bytes == before)
            #expect(try await running.fences().isEmpty)
            #expect(try await shop.delete("\(path)?expected_user=").status == 400)
            #expect(try await shop.delete("\(path)?expected=grace").code == "unknown_parameter")
            #expect(try await shop.post("/v1/apps/shop/tokens/logout", grace).status == 200)
            // No user is signed in any more: nothing to guard.
            #expect(try await shop.post("/v1/apps/shop/tokens/deregister", ada).status == 204)
            #expect(try await shop.delete("\(path)?expected_user=ada").status == 204)
        }
    }

    @Test("A token alone is enough for a logout") func byToken() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let out = try await shop.post("/v1/apps/shop/tokens/logout", #"{"token":"\#(token(1))"}"#)
            #expect(out.json.text("id") == installation(1).description)
            #expect(out.json["signed_out"]?.boolValue == true)
            let again = try await shop.post("/v1/apps/shop/tokens/logout", #"{"token":"\#(token(1))","environment":"production"}"#)
            #expect(again.json["signed_out"]?.boolValue == false)
            let unknown = try await shop.post("/v1/apps/shop/tokens/logout", #"{"token":"\#(token(7))"}"#)
            #expect(unknown.status == 200)
            #expect(unknown.json["id"]?.isNull == true)
        }
    }

    @Test("The service signs a user out everywhere else") func everywhereElse() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for number in 1...3 { try await shop.register(installation(number), user: "ada/1", token: token(number)) }
            let out = try await shop.post("/v1/apps/shop/users/ada%2F1/logout", #"{"except":"\#(installation(2))"}"#)
            #expect(out.json.number("signed_out") == 2)
            let left = try await shop.get("/v1/apps/shop/users/ada%2F1/installations")
            #expect(left.json["installations"]?.arrayValue?.compactMap { $0.text("id") } == [installation(2).description])
            #expect(try await running.fences().count == 2)
        }
    }

    @Test("The service signs a user of many installations out in several transactions") func manyInstallations() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await running.fill(user: "ada", count: 250)
            try await shop.register(installation(1), user: "ada", token: token(1))
            let out = try await shop.post("/v1/apps/shop/users/ada/logout", #"{"except":"\#(installation(1))"}"#)
            #expect(out.json.number("signed_out") == 250)
            #expect(out.json.text("fence") == "effective")
            #expect(try await running.count("SELECT count(*) FROM installations WHERE owner = 'ada'") == 1)
            #expect(try await running.count("SELECT count(DISTINCT xmin::text) FROM installations WHERE owner IS NULL") == 3)
            #expect(try await running.fences().count == 250)
        }
    }

    @Test("A repeated logout answers for the fences that are still open") func openFences() async throws {
        try await RunningService.run(.init(settings: ["FENCE_TIMEOUT_MS": "100"], without: { $0 is Publisher || $0 is Relay })) { dead in
            let shop = try await dead.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            for number in [Int64(1), 0] {
                let out = try await shop.post("/v1/apps/shop/users/ada/logout")
                #expect(out.json.number("signed_out") == number)
                #expect(out.json.text("fence") == "pending")
            }
            #expect(try await shop.post("/v1/apps/shop/users/grace/logout").json.text("fence") == "none")
            try await dead.another(.init(without: { $0 is Relay })) { running in
                let out = try await shop.with(port: running.client.port).post("/v1/apps/shop/users/ada/logout")
                #expect(out.json.text("fence") == "effective")
                #expect(try await running.fences() == [.init(installation: installation(1), epochsBelow: 2)])
            }
        }
    }

    @Test("A deregistration removes the installation, but its epoch goes on") func laterEpoch() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let path = "/v1/apps/shop/installations/\(installation(1))"
            #expect(try await shop.delete(path).status == 204)
            #expect(try await shop.delete(path).status == 204)
            #expect(try await shop.delete("/v1/apps/shop/installations/\(installation(8))").status == 204)
            #expect(try await shop.get(path).status == 404)
            let sent = try await shop.send(#"{"user":"ada"}"#)
            #expect(sent.json.text("state") == "no_targets")
            let back = try await shop.register(installation(1), user: "ada", token: token(1))
            #expect(back.status == 201)
            #expect(try #require(back.json.number("owner_epoch")) >= 2)
        }
    }

    @Test("The service lists a user's installations page by page") func listedPages() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for number in 1...5 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            var seen: [String] = []
            var cursor = ""
            repeat {
                let page = try await shop.get("/v1/apps/shop/users/ada/installations?limit=2\(cursor)").json
                seen += page["installations"]?.arrayValue?.compactMap { $0.text("id") } ?? []
                cursor = page.text("next_cursor").map { "&cursor=\($0)" } ?? ""
            } while !cursor.isEmpty
            #expect(seen == (1...5).map { installation($0).description })
        }
    }
}
