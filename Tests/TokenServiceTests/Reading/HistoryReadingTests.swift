import Postgres
import PushModel
import StrictJSON
import Testing
import TokenServiceApps
import TokenServiceRegistry

@Suite("An installation's history, and why it stopped getting pushes", .serialized, .timeLimit(.minutes(5)))
struct HistoryReadingTests {
    private static let path = "/v1/apps/shop/installations/\(installation(1))/history"
    /// 2026-01-01T00:00:00Z
    private static let newYear: Int64 = 1_767_225_600_000

    /// An app without any history but what a test writes.
    private static func run(_ body: @Sendable (RunningService, APITestClient, App) async throws -> Void) async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await body(running, shop, running.app())
        }
    }

    private static func entry(_ event: HistoryEntry.Event, app: App, day: Int64 = 0) -> HistoryEntry {
        HistoryEntry(app: app.id, installation: installation(1), event: event, at: newYear + day * 86_400_000)
    }

    @Test("The pages show every entry once, newest or oldest first, with what APNs said") func pages() async throws {
        try await Self.run { running, shop, app in
            var entries: [HistoryEntry] = (0..<25).map { (day: Int64) in
                var entry = Self.entry(HistoryEntry.Event.allCases[Int(day) % HistoryEntry.Event.allCases.count], app: app, day: day)
                entry.ownerEpoch = day
                return entry
            }
            entries[24].owner = "ada"
            entries[24].token = .init(id: 7, hint: hint(1), environment: "production", purpose: "alert")
            entries[24].otherInstallation = installation(2)
            entries[24].status = 410
            entries[24].reason = "Unregistered"
            entries[24].apnsTimestamp = Self.newYear + 1
            entries[24].delivery = installation(3)
            try await running.append(entries)
            var other = Self.entry(.registered, app: app)
            other.installation = installation(2)
            try await running.append([other])
            let oldestFirst = Array<Int64>(0..<25)
            for (order, expected) in [("desc", oldestFirst.reversed()), ("asc", oldestFirst), ("", oldestFirst.reversed())] {
                var epochs: [Int64] = []
                var cursor = ""
                repeat {
                    let words = (order.isEmpty ? "" : "&order=\(order)") + cursor
                    let page = try await shop.get("\(Self.path)?limit=6\(words)").json
                    epochs += page["entries"]?.arrayValue?.compactMap { $0.number("owner_epoch") } ?? []
                    cursor = page.text("next_cursor").map { "&cursor=\($0)" } ?? ""
                } while !cursor.isEmpty
                #expect(epochs == expected, "\(order)")
            }
            let newest = try #require(try await shop.get("\(Self.path)?limit=1").json["entries"]?.arrayValue?.first)
            let whole = """
                {"at":"2026-01-25T00:00:00.000Z","event":"\(entries[24].event.rawValue)","user":"ada","owner_epoch":24,"token":\
                {"hint":"\(hint(1))","environment":"production","purpose":"alert"},"other_installation":"\(installation(2))","status":410,\
                "reason":"Unregistered","apns_timestamp":"2026-01-01T00:00:00.001Z","delivery":"\(installation(3))"}
                """
            #expect(newest.written == whole)
        }
    }

    @Test("An entry that is appended between two pages is not shown twice and pushes none out") func appendedMeanwhile() async throws {
        try await Self.run { running, shop, app in
            try await running.append((1...6).map { Self.entry(.throttled, app: app, day: $0) })
            let first = try await shop.get("\(Self.path)?limit=4").json
            try await running.append([Self.entry(.throttled, app: app, day: 7)])
            let second = try await shop.get("\(Self.path)?limit=4&cursor=\(first.text("next_cursor") ?? "")").json
            let times = [first, second].flatMap { $0["entries"]?.arrayValue?.compactMap { $0.text("at")?.prefix(10) } ?? [] }
            #expect(times == ["2026-01-07", "2026-01-06", "2026-01-05", "2026-01-04", "2026-01-03", "2026-01-02"])
            #expect(second["next_cursor"]?.isNull == true)
        }
    }

    @Test("A cursor is for one installation and one order") func cursors() async throws {
        try await Self.run { running, shop, app in
            try await running.append((1...3).map { Self.entry(.throttled, app: app, day: $0) })
            var other = Self.entry(.registered, app: app)
            other.installation = installation(2)
            try await running.append([other])
            let cursor = try await shop.get("\(Self.path)?limit=1").json.text("next_cursor") ?? ""
            #expect(try await shop.get("\(Self.path)?order=desc&cursor=\(cursor)").status == 200)
            #expect(try await shop.get("\(Self.path)?order=asc&cursor=\(cursor)").code == "cursor_of_another_list")
            let elsewhere = "/v1/apps/shop/installations/\(installation(2))/history?cursor=\(cursor)"
            #expect(try await shop.get(elsewhere).code == "cursor_of_another_list")
            #expect(try await shop.get("\(Self.path)?order=newest").code == "unsupported_value")
        }
    }

    @Test("It outlives the installation; only what never was is not found") func existence() async throws {
        try await Self.run { running, shop, app in
            #expect(try await shop.get(Self.path).status == 404)
            try await shop.register(installation(1), user: "ada", token: token(1))
            #expect(try await shop.get(Self.path).json["reachable"]?.boolValue == true)
            _ = try await shop.delete("/v1/apps/shop/installations/\(installation(1))")
            let gone = try await shop.get(Self.path)
            #expect(gone.status == 200 && gone.json["reachable"]?.boolValue == false)
            #expect(gone.json.text("explanation")?.hasPrefix("Deregistered on 20") == true)
            // History alone, of an installation whose row is gone.
            try await running.execute("DELETE FROM tokens")
            try await running.execute("DELETE FROM fences")
            try await running.execute("DELETE FROM installations")
            try await running.execute("DELETE FROM installation_history")
            #expect(try await shop.get(Self.path).status == 404)
            try await running.append([Self.entry(.deregistered, app: app)])
            let left = try await shop.get(Self.path)
            #expect(left.status == 200)
            #expect(
                left.json.text("explanation")
                    == "No longer stored; the last that is known of it is deregistered on 2026-01-01T00:00:00.000Z.")
            // Another app's history is not this one's.
            let blog = try await running.client.makeApp("blog")
            #expect(try await blog.get("/v1/apps/blog/installations/\(installation(1))/history").status == 404)
        }
    }

    @Test("One call says why pushes stopped: a logout") func afterLogout() async throws {
        try await Self.run { running, shop, app in
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await running.execute("UPDATE installations SET owner = NULL, signed_out_reason = 'logout'")
            var out = Self.entry(.signedOut, app: app)
            out.reason = "logout"
            try await running.append([out, Self.entry(.throttled, app: app, day: 1)])
            let answer = try await shop.get("\(Self.path)?limit=1").json
            #expect(answer["reachable"]?.boolValue == false)
            #expect(answer["reachable_purposes"]?.arrayValue?.isEmpty == true)
            #expect(answer.text("explanation") == "Signed out on 2026-01-01T00:00:00.000Z (logout).")
        }
    }

    @Test("One call says why pushes stopped: APNs retired the token") func afterRetirement() async throws {
        try await Self.run { running, shop, app in
            _ = try await shop.put(
                "/v1/apps/shop/installations/\(installation(1))",
                #"{"user":"ada","tokens":[{"token":"\#(token(1))"},{"token":"\#(token(2))","purpose":"voip"}]}"#)
            try await running.execute(
                "UPDATE tokens SET state = 'retired', retired_reason = 'gone', retired_at = '2026-01-03T00:00:00Z' WHERE purpose = 'alert'")
            var retired = Self.entry(.tokenRetired, app: app, day: 2)
            retired.token = .init(
                id: try await running.number("id", "SELECT id FROM tokens WHERE purpose = 'alert'"), hint: hint(1),
                environment: "production",
                purpose: "alert")
            retired.status = 410
            retired.reason = "Unregistered"
            retired.apnsTimestamp = Self.newYear
            try await running.append([retired, Self.entry(.throttled, app: app, day: 3)])
            let answer = try await shop.get(Self.path).json
            #expect(answer["reachable"]?.boolValue == false)
            #expect(answer["reachable_purposes"]?.arrayValue?.compactMap(\.stringValue) == ["voip"])
            #expect(
                answer.text("explanation")
                    == """
                    Its alert token \(hint(1)) was retired on 2026-01-03T00:00:00.000Z: APNs answered 410 Unregistered since \
                    2026-01-01T00:00:00.000Z.
                    """
            )
            // Registered again, it is alive again.
            try await shop.register(installation(1), user: "ada", token: token(1))
            let again = try await shop.get(Self.path).json
            #expect(again["reachable"]?.boolValue == true)
            #expect(again.text("explanation")?.hasPrefix("Reachable: signed in, with an active alert token") == true)
            #expect(again.text("shows_alerts") == "unknown")
            try await shop.register(installation(1), user: "ada", token: token(1), more: #","permission":"denied""#)
            let denied = try await shop.get(Self.path).json
            #expect(denied["reachable"]?.boolValue == true && denied.text("shows_alerts") == "not_at_all")
            #expect(denied.text("explanation")?.contains("It shows nothing now: the person has denied notifications") == true)
        }
    }
}
