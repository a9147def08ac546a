import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenServiceRegistry
@testable import TokenServiceSending

@Suite("Live Activities have tokens of their own", .serialized, .timeLimit(.minutes(5)))
struct ActivityTests {
    private static func path(_ activity: String, of id: PushID = installation(1)) -> String {
        "/v1/apps/shop/installations/\(id)/activities/\(activity)"
    }

    private static func report(_ activity: String, _ token: String, by client: APITestClient, of id: PushID = installation(1)) async throws
    {
        let answer = try await client.put(path(activity, of: id), #"{"token":"\#(token)"}"#)
        #expect(answer.status == 200, "\(answer.json)")
    }

    private static func update(_ activity: String, of user: String = "ada") -> String {
        #"{"to":{"user":"\#(user)","activity":"\#(activity)"},"content":{"event":"update","content_state":{"eta":3}}}"#
    }

    private static func start(_ type: String) -> String {
        #"{"to":{"user":"ada"},"content":{"event":"start","attributes_type":"\#(type)","attributes":{},"content_state":{},"alert":"a"}}"#
    }

    private static func deliveries(_ body: String, by shop: APITestClient, _ running: RunningService) async throws -> [String] {
        try await running.jobs { signal in
            let answer = try await shop.post("/v1/apps/shop/notifications", body)
            #expect(answer.status == 202, "\(answer.json)")
            guard answer.json.text("state") != "no_targets" else { return [] }
            let job = try PushJob(decoding: try await signal.next().body)
            #expect(job.topic == "com.example.shop.push-type.liveactivity")
            return job.deliveries.map(\.token.hex).sorted()
        }
    }

    /// The active tokens of an installation by purpose.
    private static func active(_ shop: APITestClient, _ id: PushID = installation(1)) async throws -> [String: String] {
        let record = try await shop.get("/v1/apps/shop/installations/\(id)?tokens=full").json
        let tokens = (record["tokens"]?.arrayValue ?? []).filter { $0.text("state") == "active" }
        return Dictionary(uniqueKeysWithValues: tokens.map { ($0.text("purpose") ?? "", $0.text("token") ?? "") })
    }

    @Test("A start token and the tokens of two activities do not take each other's place") func places() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let tokens = #"[{"token":"\#(token(1))"},{"token":"\#(token(2))","purpose":"activity_start:Ride"}]"#
            let registration = #"{"user":"ada","tokens":\#(tokens)}"#
            let path = "/v1/apps/shop/installations/\(installation(1))"
            #expect(try await shop.put(path, registration).status == 201)
            try await Self.report("ride-1", token(3), by: shop)
            try await Self.report("ride%202", token(4), by: shop)
            let all = ["alert": token(1), "activity_start:Ride": token(2), "activity:ride-1": token(3), "activity:ride 2": token(4)]
            #expect(try await Self.active(shop) == all)
            #expect(try await Self.deliveries(Self.start("Ride"), by: shop, running) == [token(2)])
            #expect(try await Self.deliveries(Self.start("Match"), by: shop, running) == [])
            #expect(try await Self.deliveries(Self.update("ride-1"), by: shop, running) == [token(3)])
            #expect(try await Self.deliveries(Self.update("ride 2"), by: shop, running) == [token(4)])
            // The whole list of the next launch does not know the activities.
            #expect(try await shop.put(path, registration).status == 200)
            #expect(try await Self.active(shop) == all)
            #expect(try await shop.call("PATCH", path, #"{"tokens":[{"token":"\#(token(1))"}]}"#).status == 200)
            #expect(try await Self.active(shop) == all, "iOS gives a start token later than the others")
            #expect(try await shop.put(path, #"{"user":"ada","tokens":[{"token":"\#(token(1))"}]}"#).status == 200)
            #expect(try await Self.active(shop) == all, "or not in this launch")
            let next = #"[{"token":"\#(token(1))"},{"token":"\#(token(5))","purpose":"activity_start:Ride"}]"#
            #expect(try await shop.call("PATCH", path, #"{"tokens":\#(next)}"#).status == 200)
            #expect(try await Self.active(shop)["activity_start:Ride"] == token(5))
        }
    }

    @Test("Each report of an activity replaces its token, and its end retires it") func life() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await Self.report("ride-1", token(2), by: shop)
            try await Self.report("ride-1", token(3), by: shop)
            try await Self.report("ride-1", token(3), by: shop)
            #expect(try await Self.active(shop) == ["alert": token(1), "activity:ride-1": token(3)])
            #expect(try await shop.delete(Self.path("other")).status == 204)
            #expect(try await Self.active(shop)["activity:ride-1"] == token(3))
            for _ in 1...2 { #expect(try await shop.delete(Self.path("ride-1")).status == 204) }
            #expect(try await Self.active(shop) == ["alert": token(1)])
            #expect(try await Self.deliveries(Self.update("ride-1"), by: shop, running) == [])
            let history = try await running.history(installation(1), ["token_added", "token_replaced", "token_removed"])
            #expect(
                history.map(\.event) == ["token_added", "token_added", "token_replaced", "token_removed"].sorted() || history.count == 4)
        }
    }

    @Test("An activity belongs to its installation's user: the next one's activities are others") func sharedDevice() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await Self.report("ride-1", token(2), by: shop)
            let job = try await running.jobs { signal in
                #expect(try await shop.post("/v1/apps/shop/notifications", Self.update("ride-1")).status == 202)
                return try PushJob(decoding: try await signal.next().body)
            }
            try await shop.register(installation(1), user: "eve", token: token(1))
            let fences = try await running.fences()
            #expect(fences.contains(.init(installation: installation(1), epochsBelow: job.deliveries[0].ownerEpoch + 1)))
            try await running.report(.fenced, of: job)
            _ = try await running.completed(job.notification, shop)
            #expect(try await Self.deliveries(Self.update("ride-1"), by: shop, running) == [])
        }
    }

    @Test("A device reports with its credential until its user signs out, and another one reports nothing") func credentials() async throws
    {
        try await RunningService.withDevices { running, shop in
            let phone = try await shop.device(user: "ada")
            #expect(try await phone.put(Self.path("ride-1"), #"{"token":"\#(token(2))"}"#).status == 404, "it is not registered")
            #expect(try await phone.delete(Self.path("ride-1")).status == 204)
            try await phone.register(installation(1), user: "ada", token: token(1))
            try await Self.report("ride-1", token(2), by: phone)
            #expect(try await phone.put(Self.path("ride-1", of: installation(2)), #"{"token":"\#(token(2))"}"#).status == 404)
            try await shop.register(installation(1), user: "eve", token: token(1))
            let late = try await phone.put(Self.path("ride-1"), #"{"token":"\#(token(3))"}"#)
            #expect(late.status == 403 && late.code == "credential_revoked")
            #expect(try await phone.delete(Self.path("ride-1")).code == "credential_revoked")
            let guarded = try await shop.put(Self.path("ride-1"), #"{"token":"\#(token(3))","expected_user":"ada"}"#)
            #expect(guarded.status == 409 && guarded.code == "owner_mismatch")
            #expect(try await Self.active(shop)["activity:ride-1"] == token(2))
            // The phone made the report for Ada, and sends it with the credential of the next user.
            let next = try await shop.device(user: "eve")
            let mixed = try await next.put(Self.path("ride-1"), #"{"token":"\#(token(3))","expected_user":"ada"}"#)
            #expect(mixed.status == 409 && mixed.code == "owner_mismatch")
            #expect(try await running.count("SELECT count(*) FROM update_targets WHERE owner = 'eve'") == 0)
        }
    }

    @Test("A registration may name Live Activities among the purposes that it keeps: their tokens stay in any case") func kept()
        async throws
    {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let path = "/v1/apps/shop/installations/\(installation(1))"
            let tokens = #"{"token":"\#(token(1))"},{"token":"\#(token(2))","purpose":"activity_start:Ride"}"#
            #expect(try await shop.put(path, #"{"user":"ada","tokens":[\#(tokens)]}"#).status == 201)
            let keeps = #""keeps":["activity_start:Ride","activity:ride-1","location"]"#
            let answer = try await shop.put(path, #"{"user":"ada","tokens":[{"token":"\#(token(1))"}],\#(keeps)}"#)
            #expect(answer.status == 200, "\(answer.json)")
            #expect(try await Self.active(shop) == ["alert": token(1), "activity_start:Ride": token(2)])
        }
    }

    @Test("A token that another installation reports moves there, and the loser's queued updates are stopped") func takeover() async throws
    {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await shop.register(installation(2), user: "eve", token: token(2))
            try await Self.report("match", token(9), by: shop)
            try await Self.report("match", token(9), by: shop, of: installation(2))
            #expect(try await Self.active(shop) == ["alert": token(1)])
            #expect(try await Self.active(shop, installation(2))["activity:match"] == token(9))
            #expect(try await running.fences().contains(.init(installation: installation(1), epochsBelow: 2)))
            #expect(try await Self.deliveries(Self.update("match"), by: shop, running) == [], "ada's activity has no token any more")
            #expect(try await Self.deliveries(Self.update("match", of: "eve"), by: shop, running) == [token(9)])
        }
    }

    @Test("A 410 retires the update token alone, and an erasure removes it") func goneAndErased() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await Self.report("ride-1", token(2), by: shop)
            try await Self.report("ride-2", token(3), by: shop)
            let job = try await running.jobs { signal in
                #expect(try await shop.post("/v1/apps/shop/notifications", Self.update("ride-1")).status == 202)
                return try PushJob(decoding: try await signal.next().body)
            }
            let now = UnixClock.now() + 60_000
            try await running.report(.tokenGone, of: job, status: 410, reason: "ExpiredToken", timestamp: now)
            _ = try await running.completed(job.notification, shop)
            #expect(try await Self.active(shop).keys.sorted() == ["activity:ride-2", "alert"])
            #expect(try await running.client.erase("ada").status == 200)
            #expect(try await running.count("SELECT count(*) FROM tokens") == 0)
        }
    }

    @Test("A request says which activity it changes")
    func rules() throws {
        func problems(_ body: String) throws -> [String] { try ParsedRequest(body).problems }
        let update = #""content":{"event":"update","content_state":{}}"#
        let updated = try #require(try ParsedRequest(#"{"to":{"user":"ada","activity":"x"},\#(update)}"#).request)
        #expect(updated.purpose == .activity(id: "x") && updated.priority == 5 && updated.lane == .now)
        let starting = String(Self.start("Ride").dropFirst())
        let started = try #require(try ParsedRequest(#"{"activity":"x",\#(starting)"#).request)
        #expect(started.purpose == .activityStart(type: "Ride") && started.priority == 10)
        #expect(started.activity?.subject == .activity("x") && started.activity?.attributesType == "Ride")
        #expect(try problems(#"{"to":{"user":"a"},\#(update)}"#) == ["/to not_allowed"])
        #expect(updated.target == .user("ada") && updated.activity?.subject == .activity("x"))
        let lonely = try #require(
            try ParsedRequest(#"{"to":{"installation":"\#(installation(1))","activity":"x"},\#(update)}"#).request)
        #expect(lonely.target == .installation(installation(1)) && lonely.activity?.subject == .activity("x"))
        for nobody in [#"{"activity":"x"}"#, #"{"activity":"x","user":null}"#] {
            #expect(try problems(#"{"to":\#(nobody),\#(update)}"#) == ["/to/user missing"])
        }
        #expect(try problems(#"{"to":{"users":["a"],"activity":"x"},\#(update)}"#).contains("/to/activity not_allowed"))
        #expect(
            try problems(#"{"to":{"user":"a","installation":"\#(installation(1))","activity":"x"},\#(update)}"#).contains(
                "/to ambiguous_target"))
        #expect(try problems(#"{"to":{"user":"a","activity":"x","activity_type":"Ride"},\#(update)}"#) == ["/to/activity_type conflict"])
        #expect(try problems(#"{"to":{"user":"ada","activity":"x"},"activity":"x",\#(update)}"#) == ["/activity not_allowed"])
        let byType = try #require(try ParsedRequest(#"{"to":{"user":"a","activity_type":"Ride"},\#(update)}"#).request)
        #expect(byType.activity?.subject == .type("Ride") && byType.namesActivityByType)
        #expect(try problems(#"{"to":{"users":["a"],"activity_type":"Ride"},\#(update)}"#).contains("/to/activity_type not_allowed"))
        #expect(try problems(#"{"to":{"user":"a","activity_type":"Ride"},"content":{"alert":"Hi"}}"#) == ["/to/activity_type not_allowed"])
        let later = #"{"to":{"user":"ada","activity":"x"},"not_before":"2099-01-01T00:00:00Z",\#(update)}"#
        #expect(try problems(later).contains("/not_before not_allowed"))
        #expect(try problems(#"{"to":{"user":"ada","activity":"x"},"supersede_key":"k",\#(update)}"#) == ["/supersede_key not_allowed"])
        #expect(try problems(#"{"to":{"user":"ada","activity":"x"},"content":{"alert":"a"}}"#) == ["/to/activity not_allowed"])
        #expect(try problems(#"{"to":{"user":"a"},"activity":"x","content":{"alert":"a"}}"#) == ["/activity not_allowed"])
        let startTo = #""content":{"event":"start","attributes_type":"A","attributes":{},"content_state":{},"alert":"a"}}"#
        #expect(try problems(#"{"to":{"user":"ada","activity":"x"},\#(startTo)"#) == ["/to/activity not_allowed"])
        #expect(try problems(#"{"to":{"all":true},"activity":"x",\#(startTo)"#) == ["/activity not_allowed"])
        #expect(
            try problems(#"{"to":{"user":"ada","activity":"x"},"locales":{"de":{"content":{"event":"end"}}},\#(update)}"#) == [
                "/locales conflict"
            ])
        let other = #"{"event":"start","attributes_type":"Match","attributes":{},"content_state":{},"alert":"a"}"#
        #expect(try problems(#"{"locales":{"de":{"content":\#(other)}},\#(starting)"#) == ["/locales conflict"])
        #expect(try problems(#"{"to":{"user":"ada","activity":"a\u0001"},\#(update)}"#) == ["/to/activity invalid_character"])
    }

    @Test(
        "A purpose is one of Apple's, or names an attributes type or an activity",
        arguments: [
            ("alert", true), ("activity:x", true), ("activity_start:Ride", true), ("activity:", false), ("activity", false),
            ("liveactivity", false), ("activity:a\u{1}", false), ("activity:" + String(repeating: "x", count: 129), false),
            ("Alert", false),
            ("activity: a:b", true),
        ])
    func purposes(text: String, isPurpose: Bool) {
        #expect(Purpose(rawValue: text)?.rawValue == (isPurpose ? text : nil))
    }
}
