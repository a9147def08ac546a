import Postgres
import PushModel
import StrictJSON
import Testing

@testable import TokenServiceSending

@Suite("Registrations with a doubtful time zone, locale or text", .serialized, .timeLimit(.minutes(5)))
struct RegistrationWarningTests {
    private static let path = "/v1/apps/shop/installations/\(installation(1))"

    private static func warnings(_ json: JSONValue?) -> [String] {
        (json?["warnings"]?.arrayValue ?? []).map { "\($0.text("pointer") ?? "") \($0.text("code") ?? "")" }
    }

    @Test("The answer warns of a time zone that the database does not know, and of a locale that names no language") func answers()
        async throws
    {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for (more, expected) in [
                (#","time_zone":"Europe/Berln","locale":"german""#, ["/locale doubtful_locale", "/time_zone unknown_time_zone"]),
                (#","time_zone":"Europe/Berlin","locale":"de_DE""#, []), (#","time_zone":"UTC","locale":"zh-Hant_TW""#, []), ("", []),
                (#","time_zone":"Mars/Olympus""#, ["/time_zone unknown_time_zone"]), (#","locale":"de DE""#, ["/locale doubtful_locale"]),
            ] {
                let answer = try await shop.register(installation(1), user: "ada", token: token(1), more: more)
                #expect((200...201).contains(answer.status) && Self.warnings(answer.json) == expected, "\(more) \(answer.json)")
                #expect(answer.json["warnings"] != nil)
                let item = importLine(1, more: more)
                let bulk = try await shop.post("/v1/apps/shop/installations", #"{"installations":[\#(item)]}"#)
                #expect(Self.warnings(bulk.json["results"]?[0]?["record"]) == expected, "\(more)")
            }
            let changed = try await shop.call("PATCH", Self.path, #"{"time_zone":"Europe/Berln","locale":"de"}"#)
            #expect(changed.status == 200 && Self.warnings(changed.json) == ["/time_zone unknown_time_zone"])
        }
    }

    @Test("An import names the lines that it warns of and counts them, and registers them") func imported() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let lines = try await shop.importLines([
                importLine(1), importLine(2, more: #","time_zone":"Mars/Olympus""#), "{", importLine(4, more: #","locale":"german""#),
            ]).lines
            let warned = lines.filter { $0["warnings"] != nil }
            #expect(warned.map { $0.number("line") } == [2, 4])
            #expect(warned.map { $0.text("id") } == [installation(2), installation(4)].map(\.description))
            #expect(warned.map { Self.warnings($0) } == [["/time_zone unknown_time_zone"], ["/locale doubtful_locale"]])
            let last = try #require(lines.last)
            #expect(["created", "failed", "doubtful"].map { last.number($0) } == [3, 1, 2])
        }
    }

    @Test("No text about the device costs it its registration: a locale loses its extensions, and a long text its end") func longTexts()
        async throws
    {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let locale = "de_DE@calendar=buddhist;currency=EUR;numbers=latn;rg=atzzzz;fw=mon"
            #expect(locale.utf8.count == 66)
            let long = String(repeating: "é", count: 33)
            let more =
                #","locale":"\#(locale)","device_model":"x\#(long)","app_version":"\#(long)","os_version":"1","time_zone":"\#(long)""#
            let answer = try await shop.register(installation(1), user: "ada", token: token(1), more: more)
            #expect(answer.status == 201 && answer.json.tokenStates == ["\(hint(1)) active"])
            let (kept, model) = (String(long.dropLast()), "x" + long.dropLast(2))
            func check(_ record: JSONValue, _ what: String) {
                #expect(record.text("locale") == "de_DE", "\(what)")
                #expect(record.text("device_model") == model && record.text("app_version") == kept, "\(what)")
            }
            check(answer.json, "a registration")
            #expect(Self.warnings(answer.json) == ["/time_zone unknown_time_zone"])
            for (locale, stored) in [("de-DE-u-ca-buddhist", "de-DE"), ("@calendar=buddhist", nil), (locale, "de_DE")]
                as [(String, String?)]
            {
                let changed = try await shop.call("PATCH", Self.path, #"{"locale":"\#(locale)"}"#)
                #expect(changed.status == 200 && changed.json.text("locale") == stored, "\(locale)")
            }
            _ = try await shop.importLines([importLine(2, more: more)])
            check(try await shop.record(installation(2)), "a line of an import")
        }
    }

    @Test("An empty text about the device is none, and one with a control character ends there") func emptyTexts() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let names = ["locale", "time_zone", "app_version", "os_version", "device_model"]
            for (number, (name, text)) in names.flatMap({ name in
                ["", #"\u0000"#, #"x\u0000y"#, #"x\u0001y"#, #"x\u007f"#].map { (name, $0) }
            }).enumerated() {
                let more = ",\"\(name)\":\"\(text)\""
                let kept = text.hasPrefix("x") ? "x" : nil
                let id = installation(number + 1)
                let answer = try await shop.register(id, user: "ada", token: token(number + 1), more: more)
                #expect(answer.status == 201 && answer.json.text(name) == kept, "\(more): \(answer.json)")
                let path = "/v1/apps/shop/installations/\(id)"
                let changed = try await shop.call("PATCH", path, "{\"\(name)\":\"\(text)\"}")
                #expect(changed.status == 200 && changed.json.text(name) == kept, "\(more): \(changed.json)")
            }
            let wrong = try await shop.register(installation(90), user: "ada", token: token(90), more: #","app_version":4"#)
            #expect(wrong.status == 400)
        }
    }

    @Test("A token that APNs ended and that the app registers again is tried again; the answer says so, and warns from the third time on")
    func endedTokens() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for round in 1...5 {
                let answer = try await shop.register(installation(1), user: "ada", token: token(1))
                #expect(answer.json.tokenStates == ["\(hint(1)) active"], "\(round)")
                #expect((answer.json["tokens"]?[0]?.text("ended_by_apns_at") != nil) == (round > 1), "\(round)")
                #expect(Self.warnings(answer.json) == (round > 3 ? ["/tokens token_ended_repeatedly"] : []), "\(round)")
                let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
                try await running.report(
                    .tokenGone, of: job, status: 410, reason: "Unregistered", timestamp: UnixClock.now() + 60_000)
                _ = try await running.completed(job.notification, shop)
                let shown = try await shop.record(installation(1))["tokens"]?[0]
                #expect(shown?.text("state") == "retired" && shown?.text("ended_by_apns_at") != nil, "\(round)")
            }
            try await running.counted("tokens_ended_again_total", 3)
            let item = importLine(1)
            let bulk = try await shop.post("/v1/apps/shop/installations", #"{"installations":[\#(item)]}"#)
            #expect(Self.warnings(bulk.json["results"]?[0]?["record"]) == ["/tokens token_ended_repeatedly"])
            let other = try await shop.register(installation(1), user: "ada", token: token(2))
            #expect(Self.warnings(other.json).isEmpty)
        }
    }

    @Test("So does a 410 of a moment before the registration, which retires nothing: once for each registration") func endedBefore()
        async throws
    {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let first = UnixClock.now() - 60_000
            for round in 1...4 {
                let answer = try await shop.register(installation(1), user: "ada", token: token(1))
                #expect((answer.json["tokens"]?[0]?.text("ended_by_apns_at") != nil) == (round > 1), "\(round)")
                #expect(Self.warnings(answer.json) == (round > 3 ? ["/tokens token_ended_repeatedly"] : []), "\(round)")
                for _ in 1...2 {
                    let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
                    try await running.report(
                        .tokenGone, of: job, status: 410, reason: "Unregistered", timestamp: first, sentAt: UnixClock.now())
                    _ = try await running.completed(job.notification, shop)
                    #expect(try await shop.record(installation(1)).tokenStates == ["\(hint(1)) active"], "\(round)")
                }
            }
            try await running.counted("tokens_ended_again_total", 2)
            // Sent before the registration.
            try await shop.register(installation(2), user: "eve", token: token(2))
            let job = try await running.sendAndTake(#"{"user":"eve"}"#, with: shop)
            try await running.report(.tokenGone, of: job, status: 410, reason: "Unregistered", timestamp: first, sentAt: first)
            _ = try await running.completed(job.notification, shop)
            #expect(try await shop.record(installation(2))["tokens"]?[0]?.text("ended_by_apns_at") == nil)
        }
    }

    @Test("Validation counts the devices that have no known time zone, where their time depends on it") func countedZones() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for (number, zone) in [(1, #","time_zone":"Europe/Berln""#), (2, #","time_zone":"Europe/Berlin""#), (3, "")] {
                try await shop.register(installation(number), user: "ada", token: token(number), more: zone, tags: ["beta"])
            }
            // It gets nothing, so its time zone does not count.
            _ = try await shop.put(
                "/v1/apps/shop/installations/\(installation(4))", #"{"user":"ada","tokens":[],"time_zone":"Mars/Olympus"}"#)
            try await shop.register(installation(5), user: "grace", token: token(5))
            let ids = (1...5).map { #""\#(installation($0))""# }.joined(separator: ",")
            let tokens = (1...3).map { #""\#(token($0))""# }.joined(separator: ",")
            let targets = [
                #"{"user":"ada"}"#, #"{"users":["ada"]}"#, #"{"installations":[\#(ids)]}"#, #"{"tokens":[\#(tokens)]}"#,
                #"{"tags":"beta"}"#,
                #"{"tags":"NOT gamma"}"#, #"{"all":true}"#,
            ]
            func unknown(_ to: String, _ more: String = "") async throws -> Int64? {
                let answer = try await shop.post(
                    "/v1/apps/shop/notifications/validate", #"{"to":\#(to),"content":{"alert":"a"}\#(more)}"#)
                #expect(answer.status == 200, "\(answer.json)")
                return answer.json["audience"]?.number("unknown_time_zones")
            }
            let local = #","local_time":"\#(RFC3339.text(milliseconds: UnixClock.now() + 86_400_000).prefix(16))""#
            for to in targets {
                #expect(try await unknown(to) == 0, "\(to)")
                let everybody = to.contains("all") || to.contains("NOT") || to.contains("installations")
                #expect(try await unknown(to, local) == (everybody ? 3 : 2), "\(to)")
            }
            #expect(try await shop.put("/v1/apps/shop/users/ada/quiet-hours", #"{"begins_at":"22:00","ends_at":"07:00"}"#).status == 200)
            for to in targets {
                #expect(try await unknown(to) == 2, "\(to)")
                #expect(try await unknown(to, #","urgent":true"#) == 0, "\(to)")
            }
        }
    }

    @Test("A text for the script of a Chinese region goes to that region, and one for an old code to the new one") func variants() throws {
        func content(_ locales: [String]) -> RenderedContent {
            RenderedContent(
                payload: [], variants: locales.sorted().map { RenderedContent.Variant(locale: $0, payload: Array($0.utf8)) })
        }
        for (locale, locales, expected) in [
            ("zh_TW", ["zh", "zh-hant"], "zh-hant"), ("zh_HK", ["zh", "zh-hant"], "zh-hant"),
            ("zh-Hant_MO", ["zh-mo", "zh-hant"], "zh-mo"),
            ("zh_CN", ["zh", "zh-hant"], "zh"), ("zh_TW", ["zh"], "zh"), ("iw_IL", ["he"], "he"), ("he", ["iw"], "iw"),
            ("in_ID", ["id"], "id"),
            ("nb_NO", ["no"], "no"), ("no", ["nb"], "nb"), ("de", ["en"], nil), ("german", ["de"], nil),
        ] as [(String, [String], String?)] {
            #expect(content(locales).variantLocale(for: locale) == expected, "\(locale) of \(locales)")
        }
    }
}
