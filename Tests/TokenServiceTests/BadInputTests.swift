import Postgres
import PushModel
import StrictJSON
import Testing

@Suite("Bad input", .serialized, .timeLimit(.minutes(5)))
struct BadInputTests {
    struct Case: Sendable {
        let body: String
        let status: Int
        let code: String
        let problems: [String]

        /// A body that is JSON, and what is wrong with it.
        static func invalid(_ body: String, _ problems: String...) -> Case {
            Case(body: body, status: 400, code: "invalid_request", problems: problems)
        }
        static func malformed(_ body: String) -> Case { Case(body: body, status: 400, code: "malformed_json", problems: []) }
    }

    private static let alert = #""payload":{"aps":{"alert":"a"}}"#
    private static func send(_ more: String) -> String { #"{"to":{"user":"ada"},\#(alert),\#(more)}"# }
    private static func payload(_ type: String, _ payload: String) -> String {
        #"{"to":{"user":"ada"},"push_type":"\#(type)","payload":\#(payload)}"#
    }

    static let notifications: [Case] = [
        .malformed(""), .malformed("{"), .malformed(#"{"a":1,"a":2}"#), .malformed("\u{feff}{}"),
        .malformed(String(repeating: "[", count: 40) + String(repeating: "]", count: 40)),
        .invalid("[]", " wrong_type"),
        .invalid("{}", "/to missing", "/content missing"),
        .invalid(send(#""extra":1"#), "/extra unknown_field"),
        .invalid(#"{"to":{},\#(alert)}"#, "/to ambiguous_target"),
        .invalid(#"{"to":{"user":"a","installation":"\#(installation(1))"},\#(alert)}"#, "/to ambiguous_target"),
        .invalid(#"{"to":{"installation":"x"},\#(alert)}"#, "/to/installation invalid_id"),
        .invalid(#"{"to":{"user":""},\#(alert)}"#, "/to/user too_short"),
        .invalid(#"{"to":{"user":"a","tags":"beta"},\#(alert)}"#, "/to ambiguous_target"),
        .invalid(#"{"to":{"user":"a","group":"b"},\#(alert)}"#, "/to/group unknown_field"),
        .invalid(send(#""push_type":"banner""#), "/push_type unsupported_value"),
        .invalid(send(#""priority":7"#), "/priority unsupported_value"),
        .invalid(send(#""priority":"10""#), "/priority wrong_type"),
        .invalid(send(#""lane":"fast""#), "/lane unsupported_value"),
        .invalid(send(#""on_unknown":"maybe""#), "/on_unknown unsupported_value"),
        .invalid(send(#""collapse_id":"\#(String(repeating: "é", count: 33))""#), "/collapse_id too_long"),
        .invalid(send(#""collapse_id":"a\nb""#), "/collapse_id invalid_character"),
        .invalid(send(#""ttl_seconds":0"#), "/ttl_seconds out_of_range"),
        .invalid(send(#""ttl_seconds":259201"#), "/ttl_seconds out_of_range"),
        .invalid(send(#""ttl_seconds":1,"expires_at":"2030-01-01T00:00:00Z""#), "/ttl_seconds conflict"),
        .invalid(send(#""expires_at":"tomorrow""#), "/expires_at invalid_time"),
        .invalid(send(#""expires_at":"2020-01-01T00:00:00Z""#), "/expires_at out_of_range"),
        .invalid(send(#""expires_at":"2999-01-01T00:00:00Z""#), "/expires_at out_of_range"),
        .invalid(send(#""apns_expiration":1000"#), "/apns_expiration out_of_range"),
        .invalid(payload("alert", "[]"), "/payload wrong_type"),
        .invalid(payload("alert", #"{"aps":1}"#), "/payload/aps wrong_type"),
        .invalid(payload("alert", "{}"), "/payload/aps missing"),
        .invalid(payload("alert", #"{"aps":{"badge":-1}}"#), "/payload/aps/badge wrong_type"),
        .invalid(payload("alert", #"{"aps":{"sound":"a","mutable-content":1}}"#), "/payload/aps/mutable-content not_allowed"),
        .invalid(payload("alert", #"{"aps":{"alert":"a","relevance-score":2}}"#), "/payload/aps/relevance-score wrong_type"),
        .invalid(payload("alert", #"{"aps":{"alert":"\#(String(repeating: "x", count: 4097))"}}"#), "/payload too_large"),
        .invalid(payload("voip", #"{"a":"\#(String(repeating: "x", count: 5120))"}"#), "/payload too_large"),
        .invalid(payload("background", #"{"aps":{"content-available":1,"alert":"a"}}"#), "/payload/aps/alert not_allowed"),
        .invalid(payload("background", #"{"aps":{}}"#), "/payload/aps/content-available missing"),
        .invalid(
            #"{"to":{"user":"ada"},"push_type":"background","priority":10,"payload":{"aps":{"content-available":1}}}"#,
            "/priority unsupported_value"),
        .invalid(
            #"""
            {"to":{"user":"ada","activity":"a"},"push_type":"liveactivity","priority":1,"payload":{"aps":{"event":"end","timestamp":1}}}
            """#,
            "/priority unsupported_value"),
        .invalid(payload("liveactivity", #"{"aps":{"event":"stop"}}"#), "/payload/aps/event unsupported_value"),
        .invalid(
            payload("liveactivity", #"{"aps":{"event":"start","timestamp":1,"alert":"a"}}"#), "/payload/aps/attributes-type missing",
            "/payload/aps/attributes missing"),
        .invalid(payload("widgets", #"{"aps":{}}"#), "/payload/aps/content-changed missing"),
        .invalid(payload("fileprovider", #"{"aps":{}}"#), "/payload/aps not_allowed", "/payload/container-identifier missing"),
        .invalid(payload("mdm", "{}"), "/payload/mdm missing"),
        .invalid(
            #"{"to":{"user":7},"push_type":"alert","payload":{"aps":{}},"priority":3}"#, "/to/user wrong_type",
            "/priority unsupported_value", "/payload/aps missing"),
    ]

    static let registrations: [Case] = [
        .malformed("nonsense"),
        .invalid("{}", "/user missing", "/tokens missing"),
        .invalid(#"{"user":"","tokens":[]}"#, "/user too_short"),
        .invalid(#"{"user":"a\u0000","tokens":[]}"#, "/user invalid_character"),
        .invalid(#"{"user":"a\n","tokens":[],"app_tags":["b","\u007f"]}"#, "/user invalid_character", "/app_tags/1 invalid_character"),
        .invalid(#"{"user":"\#(String(repeating: "u", count: 257))","tokens":[]}"#, "/user too_long"),
        .invalid(#"{"user":null,"tokens":[{"token":"xyz"}]}"#, "/tokens/0/token invalid_token"),
        .invalid(#"{"user":null,"tokens":[{"token":"abc"}]}"#, "/tokens/0/token invalid_token"),
        // What iOS 13 made of a token's description.
        .invalid(#"{"user":null,"tokens":[{"token":"{length = 32, bytes = 0xab12cd34 … ef}"}]}"#, "/tokens/0/token invalid_token"),
        .invalid(#"{"user":null,"tokens":[{"token":"ab","environment":"test"}]}"#, "/tokens/0/environment unsupported_value"),
        .invalid(#"{"user":null,"tokens":[{"token":"ab","purpose":"spam"}]}"#, "/tokens/0/purpose unsupported_value"),
        .invalid(#"{"user":null,"tokens":[{"token":"ab","colour":1}]}"#, "/tokens/0/colour unknown_field"),
        .invalid(#"{"user":null,"tokens":[{"token":"ab"},{"token":"cd"}]}"#, "/tokens/1 duplicate"),
        .invalid(#"{"user":null,"tokens":[],"topic":"x"}"#, "/topic unknown_field"),
        .invalid(#"{"user":null,"tokens":[],"app_tags":[1]}"#, "/app_tags/0 wrong_type"),
        .invalid(#"{"user":null,"tokens":[],"tags":[]}"#, "/tags not_allowed"),
        .invalid(#"{"user":null,"tokens":[],"replaces":"0"}"#, "/replaces invalid_token"),
        .invalid(#"{"user":null,"tokens":[],"keeps":["activity_start:Ride","channel:a"]}"#, "/keeps/1 unsupported_value"),
        .invalid(#"{"user":null,"tokens":[],"keeps":[1]}"#, "/keeps/0 wrong_type"),
    ]

    @Test("The service refuses a bad notification, names every fault and stores nothing")
    func aBadNotificationIsRefusedWithEveryFaultNamedAndNothingIsStored() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            for bad in Self.notifications {
                let answer = try await shop.post("/v1/apps/shop/notifications", bad.body, headers: ["idempotency-key": "k"])
                Self.expect(answer, bad)
            }
            #expect(try await running.count("SELECT count(*) FROM notifications") == 0)
            #expect(try await running.count("SELECT count(*) FROM idempotency_records") == 0)
        }
    }

    @Test("The service refuses a bad registration, names every fault and stores nothing")
    func aBadRegistrationIsRefusedWithEveryFaultNamedAndNothingIsStored() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for bad in Self.registrations {
                Self.expect(try await shop.put("/v1/apps/shop/installations/\(installation(1))", bad.body), bad)
            }
            #expect(try await shop.put("/v1/apps/shop/installations/1", #"{"user":null,"tokens":[]}"#).code == "invalid_id")
            #expect(try await running.count("SELECT count(*) FROM installations") == 0)
        }
    }

    private static func expect(_ answer: APITestClient.Answer, _ bad: Case) {
        #expect(answer.status == bad.status, "\(bad.body.prefix(100))")
        #expect(answer.code == bad.code, "\(bad.body.prefix(100))")
        #expect(answer.problems.sorted() == bad.problems.sorted(), "\(bad.body.prefix(100))")
        #expect(answer.header("content-type") == "application/problem+json")
        #expect(answer.json["retryable"]?.boolValue == false)
    }

    @Test("The service refuses a body that is too large or is not JSON") func badBodies() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let large = try await shop.post("/v1/apps/shop/notifications", String(repeating: " ", count: (1 << 20) + 1))
            #expect(large.status == 413)
            #expect(large.code == "body_too_large")
            let form = try await shop.post(
                "/v1/apps/shop/notifications", "a=b", headers: ["content-type": "application/x-www-form-urlencoded"])
            #expect(form.status == 415)
            let key = try await shop.send(#"{"user":"ada"}"#, headers: ["idempotency-key": String(repeating: "k", count: 256)])
            #expect(key.code == "invalid_idempotency_key")
        }
    }

    @Test("Making an app again never changes it") func appMadeAgain() async throws {
        try await RunningService.run { running in
            let admin = running.client
            _ = try await admin.makeApp()
            func create(
                _ slug: String, bundle: String = "com.example.shop", policy: String = "multi",
                environments: String = #"["sandbox","production"]"#
            )
                async throws -> APITestClient.Answer
            {
                try await admin.post(
                    "/v1/admin/apps",
                    #"{"slug":"\#(slug)","bundle_id":"\#(bundle)","device_policy":"\#(policy)","environments":\#(environments)}"#)
            }
            #expect(try await create("shop").status == 200)
            #expect(try await create("shop", bundle: "com.example.other").status == 409)
            #expect(try await create("Shop").problems == ["/slug invalid_character"])
            #expect(try await create("x", bundle: "a b").problems == ["/bundle_id invalid_character"])
            #expect(try await create("x", policy: "many").problems == ["/device_policy unsupported_value"])
            #expect(try await create("x", environments: "[]").problems == ["/environments unsupported_value"])
            #expect(try await create("only", environments: #"["production"]"#).status == 201)
            let only = try await admin.makeKey(app: "only", scopes: ["devices"])
            let wrong = try await only.register(installation(1), user: "ada", token: token(1), environment: "sandbox", app: "only")
            #expect(wrong.problems == ["/tokens/0/environment unsupported_value"])
            // Legal, and more likely a topic or an identifier of the portal than a bundle id.
            func doubts(_ answer: APITestClient.Answer) -> [String] {
                (answer.json["warnings"]?.arrayValue ?? []).filter { $0.text("code") == "doubtful_bundle_id" }.compactMap {
                    $0.text("detail")
                }
            }
            #expect(doubts(try await create("plain")) == [])
            let topic =
                "bundle_id com.example.my.voip: it ends with .voip, which the platform adds to the bundle id itself for pushes of that type"
            #expect(doubts(try await create("calls", bundle: "com.example.my.voip")) == [topic])
            #expect(doubts(try await create("team", bundle: "A1B2C3D4E5.com.example.shop")).count == 1)
            #expect(doubts(try await admin.call("PATCH", "/v1/admin/apps/plain", #"{"bundle_id":"com.example.my.voip"}"#)) == [topic])
        }
    }

    @Test("A channel without a storage or an id is refused at its place, also where one is null") func channels() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            func problems(_ fields: String) async throws -> [String] {
                try await shop.put("/v1/apps/shop/channels/x", #"{"environment":"production"\#(fields)}"#).problems
            }
            for fields in ["", #","storage":null"#, #","channel_id":null"#, #","storage":null,"channel_id":null"#] {
                #expect(try await problems(fields) == ["/storage missing"], "\(fields)")
            }
            #expect(try await problems(#","storage":"none","channel_id":"dHN0LXNyY2gtY2hubA==""#) == ["/storage conflict"])
            #expect(try await problems(#","storage":null,"channel_id":"x""#) == ["/channel_id invalid_channel_id"])
        }
    }
}
