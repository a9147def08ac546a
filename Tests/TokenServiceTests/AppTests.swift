import Postgres
import StrictJSON
import Testing
import TokenService

@Suite("Apps change while they are in use", .serialized, .timeLimit(.minutes(5)))
struct AppTests {
    private static let path = "/v1/admin/apps/shop"

    @Test("A merge patch leaves the fields alone that it does not name") func mergePatch() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let made = try await running.client.get(Self.path)
            #expect(made.status == 200)
            #expect(made.json["stale_after_days"]?.isNull == true && made.json["removes_stale"]?.boolValue == false)
            let changed = try await running.client.call(
                "PATCH", Self.path, #"{"bundle_id":"com.example.new","stale_after_days":90,"removes_stale":true}"#,
                headers: ["content-type": "application/merge-patch+json"])
            #expect(changed.status == 200)
            let read = try await running.client.get(Self.path)
            // The answer to a change has warnings besides.
            #expect(changed.bytes.starts(with: read.bytes.dropLast()))
            #expect(read.json.text("bundle_id") == "com.example.new" && read.json.text("device_policy") == "multi")
            #expect(read.json.number("stale_after_days") == 90 && read.json["removes_stale"]?.boolValue == true)
            let cleared = try await running.client.call("PATCH", Self.path, #"{"stale_after_days":null}"#)
            #expect(cleared.json["stale_after_days"]?.isNull == true && cleared.json["removes_stale"]?.boolValue == true)
            #expect(try await running.client.call("PATCH", Self.path, "{}").bytes == cleared.bytes)
            #expect(try await running.client.get("/v1/admin/apps/nothing").status == 404)
            #expect(try await running.client.call("PATCH", "/v1/admin/apps/nothing", "{}").status == 404)
        }
    }

    @Test(
        "The service refuses a bad patch as a whole",
        arguments: [
            (#"{"colour":1}"#, "/colour unknown_field"), (#"{"slug":"other"}"#, "/slug unknown_field"),
            (#"{"bundle_id":null}"#, "/bundle_id wrong_type"), (#"{"bundle_id":"a b"}"#, "/bundle_id invalid_character"),
            (#"{"device_policy":"many"}"#, "/device_policy unsupported_value"),
            (#"{"environments":[]}"#, "/environments unsupported_value"),
            (#"{"environments":["sandbox","sandbox"]}"#, "/environments unsupported_value"),
            (#"{"stale_after_days":0}"#, "/stale_after_days out_of_range"), (#"{"stale_after_days":"1"}"#, "/stale_after_days wrong_type"),
            (#"{"removes_stale":null}"#, "/removes_stale wrong_type"),
        ])
    func badPatch(patch: String, problem: String) async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let before = try await running.client.get(Self.path)
            let refused = try await running.client.call("PATCH", Self.path, patch)
            #expect(refused.status == 400 && refused.problems == [problem])
            #expect(try await running.client.get(Self.path).bytes == before.bytes)
        }
    }

    @Test("An app that is made twice must be the same in every property") func madeTwice() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp("other")
            func make(_ more: String) async throws -> Int {
                try await running.client.post(
                    "/v1/admin/apps",
                    #"{"slug":"shop","bundle_id":"a","device_policy":"multi","environments":["production","sandbox"]\#(more)}"#
                ).status
            }
            #expect(try await make(#","stale_after_days":30"#) == 201)
            #expect(try await make(#","stale_after_days":30,"removes_stale":false"#) == 200)
            #expect(try await make("") == 409)
        }
    }

    @Test("A changed policy holds from the next registration in the same process") func changedPolicy() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for number in 1...2 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            #expect(try await shop.record(installation(1)).text("user") == "ada")
            #expect(try await running.client.call("PATCH", Self.path, #"{"device_policy":"single"}"#).status == 200)
            try await shop.register(installation(2), user: "ada", token: token(2))
            #expect(try await shop.record(installation(1))["user"]?.isNull == true)
        }
    }

    @Test("Another process notices a change by itself") func otherProcess() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await running.another { other in
                let there = other.client.with(key: shop.key)
                #expect(try await there.register(installation(1), user: "ada", token: token(1), environment: "sandbox").status == 201)
                #expect(try await shop.delete("/v1/apps/shop/installations/\(installation(1))").status == 204)
                #expect(try await running.client.call("PATCH", Self.path, #"{"environments":["production"]}"#).status == 200)
                _ = try await eventually {
                    let answer = try await there.register(installation(2), user: "bob", token: token(2), environment: "sandbox")
                    return answer.status == 400 ? answer : nil
                }
            }
        }
    }

    @Test("An app keeps an environment that has active tokens or channels", arguments: ["production", "sandbox"])
    func environmentInUse(environment: String) async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let other = environment == "sandbox" ? "production" : "sandbox"
            try await shop.register(installation(1), user: "ada", token: token(1), environment: environment)
            let patch = #"{"environments":["\#(other)"],"bundle_id":"com.example.new"}"#
            let refused = try await running.client.call("PATCH", Self.path, patch)
            #expect(refused.status == 409 && refused.code == "environment_in_use")
            #expect(refused.json.text("detail")?.contains(environment) == true)
            #expect(try await running.client.get(Self.path).json.text("bundle_id") == "com.example.shop")
            #expect(try await shop.delete("/v1/apps/shop/installations/\(installation(1))").status == 204)
            try await running.insertChannel(in: environment)
            #expect(try await running.client.call("PATCH", Self.path, patch).code == "environment_in_use")
            try await running.execute("DELETE FROM channels")
            let start = #"{"token":"\#(token(2))","environment":"\#(environment)","purpose":"activity_start:Ride"}"#
            let path = "/v1/apps/shop/installations/\(installation(2))"
            #expect(try await shop.put(path, #"{"user":"ada","tokens":[\#(start)]}"#).status == 201)
            try await running.execute("UPDATE tokens SET state = 'doubtful' WHERE purpose LIKE 'activity_start:%'")
            #expect(try await running.client.call("PATCH", Self.path, patch).code == "environment_in_use")
            #expect(try await shop.delete(path).status == 204)
            let changed = try await running.client.call("PATCH", Self.path, patch)
            #expect(changed.status == 200)
            let refusedToken = try await shop.register(installation(1), user: "ada", token: token(1), environment: environment)
            #expect(refusedToken.status == 400)
        }
    }
}
