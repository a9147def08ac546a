import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenServiceRegistry
import TokenServiceSending

@Suite("Audiences by permission", .serialized, .timeLimit(.minutes(5)))
struct PermissionAudienceTests {
    private static func numbers(_ permissions: [String]) -> [Int] {
        reportedPermissions.filter { permissions.contains($0.permission.rawValue) }.map(\.number)
    }

    private static func fanOut(_ expression: String, _ running: RunningService, _ shop: APITestClient) async throws -> [String] {
        try await running.jobs(.bulk) { signal in
            let sent = try await shop.send(#"{"tags":"\#(expression)"}"#)
            #expect(sent.status == 202, "\(expression): \(sent.json)")
            return try PushJob(decoding: try await signal.next().body).deliveries.map(\.token.hex)
        }
    }

    /// The index on tags leads to those with `beta`; to the others nothing leads but the app's installations.
    @Test("An expression finds every permission, alone and beside tags, by the index on tags and without it")
    func everyPermission() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.registerPermissions()
            let all = ReportedPermission.allCases.map(\.rawValue)
            let cases =
                all.map { ("permission:\($0)", [$0]) } + all.map { ("beta AND permission:\($0)", [$0]) }
                + all.map { word in ("beta AND NOT permission:\(word)", all.filter { $0 != word }) }
                + [
                    ("permission:authorized OR permission:provisional", ["authorized", "provisional"]),
                    ("NOT permission:denied AND NOT permission:not_determined", ["provisional", "authorized", "ephemeral", "unknown"]),
                    (#"\"permission:denied\""#, ["denied"]),
                ]
            for (expression, permissions) in cases {
                let found = try await Self.fanOut(expression, running, shop)
                #expect(found.sorted() == Self.numbers(permissions).map { token($0) }.sorted(), "\(expression)")
                let counted = try await shop.post(
                    "/v1/apps/shop/notifications/validate", #"{"to":{"tags":"\#(expression)"},"content":{"alert":"a"}}"#)
                #expect(counted.json["audience"]?.number("devices") == Int64(permissions.count), "\(expression)")
            }
        }
    }

    @Test("A patch changes the audience that an installation belongs to") func patched() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for number in 1...2 {
                try await shop.register(installation(number), user: "ada", token: token(number), more: #","permission":"denied""#)
            }
            _ = try await shop.call("PATCH", "/v1/apps/shop/installations/\(installation(1))", #"{"permission":"authorized"}"#)
            #expect(try await Self.fanOut("permission:authorized", running, shop) == [token(1)])
            _ = try await shop.call("PATCH", "/v1/apps/shop/installations/\(installation(1))", #"{"permission":null}"#)
            #expect(try await Self.fanOut("permission:unknown", running, shop) == [token(1)])
            #expect(try await Self.fanOut("permission:denied", running, shop) == [token(2)])
        }
    }

    /// The relay judges a job's devices anew.
    @Test("A job that waits goes to the devices that still have the permission") func lostPermission() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            for number in 1...2 {
                try await shop.register(installation(number), user: "ada", token: token(number), more: #","permission":"authorized""#)
            }
            let sent = try await shop.send(#"{"tags":"permission:authorized"}"#, more: #","receipts":"all""#)
            let id = try #require(sent.json.text("id").flatMap { PushID($0) }, "\(sent.json)")
            try await running.pool.transaction { session in
                let (store, now) = (FanOutStore(session: session), UnixClock.now())
                let audience = try #require(try store.fanOut(of: id))
                try store.commit(
                    try store.page(of: audience, names: DeliveryNames(id), now: now), of: audience, leaseSeconds: 0, now: now)
            }
            _ = try await shop.call("PATCH", "/v1/apps/shop/installations/\(installation(2))", #"{"permission":"denied"}"#)
            try await running.another { other in
                let job = try await other.jobs(.bulk) { signal in try PushJob(decoding: try await signal.next().body) }
                #expect(job.deliveries.map(\.installation) == [installation(1)])
                try await other.report(.accepted, of: job, status: 200)
                let listed = try await other.completed(id, shop).json["deliveries"]?.arrayValue ?? []
                #expect(listed.first { $0.text("state") == "fenced" }?.text("reason") == "left_audience", "\(listed)")
            }
        }
    }

    @Test("No installation can have a tag that an expression reads as a permission") func reservedTags() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1), tags: ["permissions", "my permission:denied"])
            let refused = try await shop.setTags(["a", "permission:denied"], of: installation(1))
            let fault = refused.json["errors"]?[0]
            #expect(refused.status == 400 && fault?.text("pointer") == "/tags/1" && fault?.text("code") == "not_allowed", "\(refused.json)")
            let whole = #"{"user":"ada","tokens":[],"tags":["a","permission:"]}"#
            let bulk = try await shop.post(
                "/v1/apps/shop/installations", #"{"installations":[{"id":"\#(installation(2))",\#(whole.dropFirst())]}"#)
            #expect(bulk.json["results"]?[0]?.number("status") == 400)
            #expect(try await shop.send(#"{"tags":"permission:perhaps"}"#).json["errors"]?[0]?.text("code") == "invalid_expression")
        }
    }
}
