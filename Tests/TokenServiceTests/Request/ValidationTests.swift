import Postgres
import PushModel
import StrictJSON
import Testing

@testable import TokenServiceApps
@testable import TokenServiceKit
@testable import TokenServiceRegistry
@testable import TokenServiceSending

@Suite("Saying what a notification would do", .serialized, .timeLimit(.minutes(5)))
struct ValidationTests {
    /// Seven installations: ada's phone and tablet (in both environments), one without tokens, one throttled, one whose token is retired,
    /// one in quarantine; and one that no user is signed in on.
    private static func populate(_ shop: APITestClient, _ running: RunningService) async throws {
        try await shop.register(installation(1), user: "ada", token: token(1), tags: ["beta", "ios-17"])
        _ = try await shop.put(
            "/v1/apps/shop/installations/\(installation(2))",
            #"{"user":"ada","tokens":[{"token":"\#(token(2))"},{"token":"\#(token(20))","environment":"sandbox"}]}"#
        )
        try await shop.setTags(["beta", "muted"], of: installation(2))
        _ = try await shop.put("/v1/apps/shop/installations/\(installation(3))", #"{"user":"ada","tokens":[]}"#)
        try await shop.setTags(["beta"], of: installation(3))
        try await shop.register(installation(4), user: "ada", token: token(4), tags: ["two words"])
        try await shop.register(installation(5), user: "grace", token: token(5), tags: ["o'clock \\"])
        try await shop.register(installation(6), user: "grace", token: token(6))
        try await shop.register(installation(7), user: nil, token: token(7), tags: ["beta"])
        _ = try await shop.put(
            "/v1/apps/shop/installations/\(installation(8))",
            #"{"user":"joan","tokens":[{"token":"\#(token(8))","purpose":"voip"}]}"#)
        _ = try await shop.delete("/v1/apps/shop/installations/\(installation(9))")
        try await shop.register(installation(10), user: "joan", token: token(10))
        _ = try await shop.delete("/v1/apps/shop/installations/\(installation(10))")
        try await running.execute(
            "UPDATE installations SET throttled_until = now() + interval '1 hour' WHERE id = \(installation(4))")
        try await running.execute(
            """
            UPDATE tokens SET state = 'retired', retired_at = now(), retired_reason = 'rejected',
                quarantined_at = CASE installation WHEN \(installation(6))::uuid THEN now() END
            WHERE installation IN (\(installation(5)), \(installation(6)))
            """)
    }

    struct Expectation: Sendable {
        let to: String
        var type = "alert"
        let devices: Int64
        let deliveries: Int64
        /// `reason effect count`
        var reasons: [String] = []
        var isLowerBound = false
    }

    private static let expectations: [Expectation] = [
        Expectation(to: #"{"user":"ada"}"#, devices: 3, deliveries: 4, reasons: ["throttled delayed 1", "no_token not_sent 1"]),
        Expectation(
            to: #"{"users":["ada","grace","nobody"]}"#, devices: 3, deliveries: 4,
            reasons: [
                "throttled delayed 1", "no_token not_sent 1", "token_retired not_sent 1", "quarantined not_sent 1",
                "unknown_user not_sent 1",
            ]),
        Expectation(to: #"{"user":"joan"}"#, devices: 0, deliveries: 0, reasons: ["no_token not_sent 1"]),
        Expectation(to: #"{"user":"joan"}"#, type: "voip", devices: 1, deliveries: 1),
        Expectation(to: #"{"installation":"\#(installation(7))"}"#, devices: 1, deliveries: 1, reasons: ["signed_out sent 1"]),
        Expectation(
            to: #"{"installations":["\#(installation(1))","\#(installation(2))","\#(installation(10))","\#(installation(99))"]}"#,
            devices: 2,
            deliveries: 3, reasons: ["unknown_installation not_sent 1", "deregistered not_sent 1"]),
        Expectation(
            to: #"{"tokens":["\#(token(1))","\#(token(4))","\#(token(5))","\#(token(6))","\#(token(7))","\#(token(8))","\#(token(99))"]}"#,
            devices: 3,
            deliveries: 3,
            reasons: [
                "throttled delayed 1", "signed_out sent 1", "token_retired not_sent 1", "quarantined not_sent 1",
                "other_purpose not_sent 1",
                "unknown_token not_sent 1",
            ]),
        // One device in both environments, as its user's.
        Expectation(to: #"{"tokens":["\#(token(2))","\#(token(20))"]}"#, devices: 1, deliveries: 2),
        Expectation(
            to: #"{"tokens":["\#(token(2))","\#(token(20))","\#(token(1))","\#(token(98))","\#(token(99))"]}"#, devices: 2,
            deliveries: 3, reasons: ["unknown_token not_sent 2"]),
        Expectation(
            to: #"{"tags":"beta AND NOT muted"}"#, devices: 2, deliveries: 2, reasons: ["signed_out sent 1", "no_token not_sent 1"]),
        Expectation(
            to: #"{"tags":"\"two words\" OR \"o'clock \\\\\""}"#, devices: 1, deliveries: 1,
            reasons: ["throttled delayed 1", "token_retired not_sent 1"]),
        Expectation(to: #"{"tags":"beta AND (ios-17 OR muted)"}"#, devices: 2, deliveries: 3),
        Expectation(to: #"{"tags":"unheard-of"}"#, devices: 0, deliveries: 0),
        Expectation(
            to: #"{"tags":"NOT beta"}"#, devices: 1, deliveries: 1,
            reasons: ["throttled delayed 1", "no_token not_sent 1", "token_retired not_sent 1", "quarantined not_sent 1"]),
        Expectation(
            to: #"{"all":true}"#, devices: 4, deliveries: 5,
            reasons: [
                "throttled delayed 1", "signed_out sent 1", "no_token not_sent 2", "token_retired not_sent 1", "quarantined not_sent 1",
            ]),
    ]

    @Test("Validation counts every target and explains which devices it leaves out") func everyTarget() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await Self.populate(shop, running)
            // Another app's devices count nowhere.
            let other = try await running.client.makeApp("other")
            try await other.register(installation(1), user: "ada", token: token(1), app: "other", tags: ["beta"])
            for expected in Self.expectations {
                let answer = try await shop.post(
                    "/v1/apps/shop/notifications/validate",
                    #"{"to":\#(expected.to),"push_type":"\#(expected.type)","payload":{"aps":{"alert":"a"}}}"#)
                #expect(answer.status == 200, "\(expected.to)")
                let audience = try #require(answer.json["audience"])
                #expect(audience.number("devices") == expected.devices, "\(expected.to)")
                #expect(audience.number("deliveries") == expected.deliveries, "\(expected.to)")
                #expect(audience["is_lower_bound"]?.boolValue == expected.isLowerBound, "\(expected.to)")
                let reasons = audience["reasons"]?.arrayValue?.map {
                    "\($0.text("reason") ?? "") \($0.text("effect") ?? "") \($0.number("devices") ?? 0)"
                }
                #expect(reasons == expected.reasons, "\(expected.to)")
            }
        }
    }

    @Test("Validation counts a large audience up to a limit") func largeAudience() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await running.fill(10_500, app: try await running.app())
            try await running.execute(
                "UPDATE installations SET tags = ARRAY['beta'] WHERE app_id = \(try await running.app().id)")
            for target in [#"{"all":true}"#, #"{"tags":"beta"}"#, #"{"tags":"NOT muted"}"#] {
                let audience = try #require(try await Self.validate(shop, #"{"to":\#(target),"content":{"alert":"a"}}"#).json["audience"])
                #expect(audience.number("devices") == 10_000, "\(target)")
                #expect(audience["is_lower_bound"]?.boolValue == true, "\(target)")
            }
        }
    }

    @Test("Validation counts the devices that would be reached by what they show of an alert") func displays() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.registerPermissions()
            // Not reached, so not counted.
            _ = try await shop.put(
                "/v1/apps/shop/installations/\(installation(7))", #"{"user":"denied","tokens":[],"permission":"denied"}"#)
            try await shop.setTags(["beta"], of: installation(7))
            let names = ReportedPermission.allCases.map { #""\#($0.rawValue)""# }.joined(separator: ",")
            let ids = (1...7).map { #""\#(installation($0))""# }.joined(separator: ",")
            let tokens = (1...6).map { #""\#(token($0))""# }.joined(separator: ",")
            let everybody = "2 1 2 1"
            for (to, expected) in [
                (#"{"user":"denied"}"#, "0 0 1 0"), (#"{"user":"not_determined"}"#, "0 0 1 0"), (#"{"user":"provisional"}"#, "0 1 0 0"),
                (#"{"user":"authorized"}"#, "1 0 0 0"), (#"{"user":"ephemeral"}"#, "1 0 0 0"), (#"{"user":"unknown"}"#, "0 0 0 1"),
                (#"{"user":"nobody"}"#, "0 0 0 0"), (#"{"installation":"\#(installation(1))"}"#, "0 0 1 0"),
                (#"{"users":[\#(names)]}"#, everybody), (#"{"installations":[\#(ids)]}"#, everybody),
                (#"{"tokens":[\#(tokens),"\#(token(99))"]}"#, everybody), (#"{"tags":"beta"}"#, everybody),
                (#"{"tags":"NOT muted"}"#, everybody), (#"{"all":true}"#, everybody),
                (#"{"tags":"permission:denied OR permission:provisional"}"#, "0 1 1 0"),
            ] {
                let answer = try await Self.validate(shop, #"{"to":\#(to),"content":{"alert":"a"}}"#).json
                let displays = try #require(answer["audience"]?["displays"], "\(to)")
                let counts = ["fully", "quietly", "not_at_all", "unknown"].map { displays.number($0) ?? -1 }
                #expect(counts.map(String.init).joined(separator: " ") == expected, "\(to)")
                #expect(counts.reduce(0, +) == answer["audience"]?.number("devices"), "\(to)")
                let isHidden = expected == "0 0 1 0"
                #expect(answer["warnings"]?.arrayValue?.compactMap { $0.text("code") } == (isHidden ? ["not_shown"] : []), "\(to)")
            }
            // A list of one is a list, and other push types show nothing of the app's.
            let list = try await Self.validate(shop, #"{"to":{"users":["denied"]},"content":{"alert":"a"}}"#).json
            #expect(list["warnings"]?.arrayValue?.isEmpty == true)
            let silent = try await Self.validate(shop, #"{"to":{"user":"denied"},"content":{"content_available":true}}"#).json
            #expect(silent["audience"]?["displays"] == nil && silent["warnings"]?.arrayValue?.isEmpty == true)
        }
    }

    private static func validate(_ client: APITestClient, _ body: String) async throws -> APITestClient.Answer {
        try await client.post("/v1/apps/shop/notifications/validate", body)
    }

    @Test("The answer shows what the service would send, and the service sends nothing") func preview() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let body = #"""
                {"to":{"tags":"  (a) AND NOT b"},"content":{"content_available":true,"custom":{"n":1.0}},
                "locales":{"de_AT":{"payload":{ "aps" : {"content-available":1}}}},"collapse_id":"c","ttl_seconds":60,
                "local_time":"\#(RFC3339.text(milliseconds: UnixTime.milliseconds() + 86_400_000).prefix(16))"}
                """#
            let json = try await Self.validate(shop, body).json
            #expect(json.text("push_type") == "background")
            #expect(json.text("topic") == "com.example.shop")
            #expect(json.number("priority") == 5 && json.text("lane") == "bulk" && json.text("collapse_id") == "c")
            #expect(json.text("tags") == "a AND NOT b")
            #expect(json.number("lifetime_seconds") == 60)
            #expect(
                json["payloads"]?[0]?.written
                    == #"{"locale":null,"bytes":39,"maximum_bytes":4096,"payload":{"aps":{"content-available":1},"n":1.0}}"#)
            #expect(json["payloads"]?[1]?["locale"]?.stringValue == "de-at")
            #expect(json["payloads"]?[1]?.number("bytes") == 34)
            #expect(json["warnings"]?[0]?.text("code") == "time_critical_background")
            #expect(try await running.count("SELECT count(*) FROM notifications") == 0)
            #expect(try await running.count("SELECT count(*) FROM idempotency_records") == 0)
        }
    }

    @Test("A topic has its purpose's suffix") func topicSuffix() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let json = try await Self.validate(
                shop, #"{"to":{"user":"ada","activity":"match-1"},"content":{"event":"update","content_state":{}}}"#
            ).json
            #expect(json.text("topic") == "com.example.shop.push-type.liveactivity")
            #expect(json.text("bundle_id") == "com.example.shop")
            #expect(json.text("on_unknown") == "resend")
            let call = #"{"to":{"all":true},"payload":{"a":1},"push_type":"voip"}"#
            #expect(try await Self.validate(shop, call).json.text("on_unknown") == "resend_once")
        }
    }

    @Test("Validation refuses what sending refuses") func sameRefusals() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for body in [#"{"to":{"all":1}}"#, "{", #"{"to":{"user":"a"},"content":{"alert":"a","badge":-1}}"#] {
                let judged = try await Self.validate(shop, body)
                let sent = try await shop.post("/v1/apps/shop/notifications", body)
                #expect(judged.status == 400)
                #expect(judged.bytes == sent.bytes)
            }
        }
    }

    // MARK: What sending says of it

    @Test("Only an administrator may use a faster lane than the target's own") func fasterLane() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let body = #"{"to":{"users":["ada"]},"content":{"alert":"a"},"lane":"now"}"#
            for path in ["notifications", "notifications/validate"] {
                let refused = try await shop.post("/v1/apps/shop/\(path)", body)
                #expect(refused.status == 403 && refused.code == "lane_not_allowed")
            }
            let admin = try await running.client.makeKey(app: "shop", scopes: ["send", "admin"])
            #expect(try await Self.validate(admin, body).json.text("lane") == "now")
        }
    }

    @Test("The answer has the warnings") func shownWarnings() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let background = #"{"to":{"user":"ada"},"content":{"content_available":true},"ttl_seconds":60}"#
            func warnings(_ answer: APITestClient.Answer) -> [String] {
                answer.json["warnings"]?.arrayValue?.map { "\($0.text("pointer") ?? "") \($0.text("code") ?? "")" } ?? ["none"]
            }
            for _ in 1...3 {
                let answer = try await shop.post("/v1/apps/shop/notifications", background)
                #expect(answer.status == 202)
                #expect(warnings(answer) == ["/ttl_seconds time_critical_background"])
            }
            let expected = ["/ttl_seconds time_critical_background", "/to frequent_background"]
            #expect(warnings(try await Self.validate(shop, background)) == expected)
            #expect(warnings(try await shop.post("/v1/apps/shop/notifications", background)) == expected)
            // Others' pushes, alerts and old ones do not count.
            #expect(warnings(try await Self.validate(shop, background.replacing("ada", with: "grace"))) == [expected[0]])
            #expect(warnings(try await shop.send(#"{"user":"ada"}"#)) == [])
            let id = installation(1)
            let single = #"{"to":{"installation":"\#(id)"},"content":{"content_available":true}}"#
            #expect(warnings(try await Self.validate(shop, single)) == [])
            for _ in 1...3 { _ = try await shop.post("/v1/apps/shop/notifications", single) }
            #expect(warnings(try await Self.validate(shop, single)) == ["/to frequent_background"])
            let app = try #require(try await AppStore(pool: running.pool).all().first)
            let later = try await running.pool.session { session in
                try AudienceCount(session: session, app: app).recentBackgroundPushes(
                    [.user("ada")], now: UnixTime.milliseconds() + 7_200_000)
            }
            #expect(later == [0])
            // Only the newest hundred are looked at, however many a user has.
            let (now, other) = (UnixTime.milliseconds(), NotificationRequest.Target.installation(installation(1)))
            func recent() async throws -> [Int] {
                try await running.pool.session { session in
                    try AudienceCount(session: session, app: app).recentBackgroundPushes(
                        [.user("ada"), .all, other, .user("ada")], now: now)
                }
            }
            #expect(try await recent() == [4, 0, 3, 4])
            for _ in 1...99 { _ = try await shop.send(#"{"user":"ada"}"#) }
            #expect(try await recent() == [0, 0, 3, 0])
        }
    }
}
