import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenService

@Suite("Quiet hours", .serialized, .timeLimit(.minutes(5)))
struct QuietHoursTests {
    private static let path = "/v1/apps/shop/users/ada/quiet-hours"
    private static let hour: Int64 = 3_600_000

    /// From an hour ago to an hour from now, by a clock that is so far ahead of UTC.
    private static func around(_ now: Int64, hoursAhead: Int64) -> String {
        let (begin, end) = (time(now + (hoursAhead - 1) * hour), time(now + (hoursAhead + 1) * hour))
        return #"{"begins_at":"\#(begin)","ends_at":"\#(end)"}"#
    }

    private static func time(_ milliseconds: Int64) -> String {
        String(RFC3339.text(milliseconds: milliseconds).dropFirst(11).prefix(5))
    }

    @Test("A client can set, read and remove quiet hours") func setAndRemoved() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let other = try await running.client.makeApp("other")
            #expect(try await shop.get(Self.path).status == 404)
            for body in [#"{"begins_at":"22:00","ends_at":"07:00"}"#, #"{"begins_at":"00:00","ends_at":"23:59"}"#] {
                for answer in [try await shop.put(Self.path, body), try await shop.get(Self.path)] {
                    #expect(answer.status == 200)
                    #expect(answer.json.written == body)
                }
            }
            #expect(try await other.get("/v1/apps/other/users/ada/quiet-hours").status == 404)
            #expect(try await other.delete("/v1/apps/other/users/ada/quiet-hours").status == 204)
            #expect(try await shop.get(Self.path).status == 200)
            for _ in 1...2 { #expect(try await shop.delete(Self.path).status == 204) }
            #expect(try await shop.get(Self.path).status == 404)
        }
    }

    @Test("The service refuses a value that is no time of day") func invalidTimes() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for (body, problems) in [
                ("{}", ["/begins_at missing", "/ends_at missing"]),
                (#"{"begins_at":"22:00","ends_at":"22:00"}"#, ["/ends_at conflict"]),
                (#"{"begins_at":"24:00","ends_at":"07:60"}"#, ["/begins_at invalid_time", "/ends_at invalid_time"]),
                (#"{"begins_at":"7:00","ends_at":"07:00:00"}"#, ["/begins_at invalid_time", "/ends_at invalid_time"]),
                (#"{"begins_at":"+1:00","ends_at":"07.00"}"#, ["/begins_at invalid_time", "/ends_at invalid_time"]),
                (#"{"begins_at":22,"ends_at":"07:00","zone":"UTC"}"#, ["/begins_at wrong_type", "/zone unknown_field"]),
            ] {
                let answer = try await shop.put(Self.path, body)
                #expect(answer.status == 400)
                #expect(answer.problems.sorted() == problems.sorted(), "\(body)")
            }
            #expect(try await running.count("SELECT count(*) FROM quiet_hours") == 0)
        }
    }

    @Test("A notification that comes meanwhile is due at their end, and an urgent one at once") func dueAtEnd() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1), more: #","time_zone":"Asia/Tokyo""#)
            let now = UnixClock.now()
            #expect(try await shop.put(Self.path, Self.around(now, hoursAhead: 9)).status == 200)
            for to in [#"{"user":"ada"}"#, #"{"users":["ada"]}"#, #"{"installation":"\#(installation(1))"}"#] {
                let sent = try await shop.send(to)
                let id = try #require(sent.json.text("id").flatMap { PushID($0) }, "\(sent.json)")
                let due: Int64 = try await eventually {
                    try await running.pool.session { session in
                        let moments: [Int64] = try session.execute(
                            "SELECT due_at FROM jobs WHERE notification = \(id) AND published_at IS NULL"
                        ).map { row in try row.milliseconds("due_at") }
                        return moments.first
                    }
                }
                #expect(due == now - now % 60_000 + Self.hour, "\(to)")
            }
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop, more: #","urgent":true"#)
            #expect(job.deliveries.map(\.installation) == [installation(1)])
            // In another zone it is another time of day.
            #expect(try await shop.put(Self.path, Self.around(now, hoursAhead: 15)).status == 200)
            let next = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop, more: #","lane":"now""#)
            #expect(next.deliveries.count == 1)
        }
    }

    @Test("A notification that they would keep past its end expires at that end, not at theirs") func whatEndsMeanwhile() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let now = UnixClock.now()
            #expect(try await shop.put(Self.path, Self.around(now, hoursAhead: 0)).status == 200)
            let sent = try await shop.send(#"{"user":"ada"}"#, more: #","ttl_seconds":600"#)
            let id = try #require(sent.json.text("id"), "\(sent.json)")
            _ = try await eventually {
                let waits: PostgresQuery = """
                    SELECT count(*) FROM jobs j, notifications n
                    WHERE j.notification = n.id AND j.due_at > n.expires_at AND j.free_from = n.expires_at AND j.published_at IS NULL
                    """
                return try await running.count(waits) == 1 ? true : nil
            }
            try await running.execute("UPDATE notifications SET expires_at = now()")
            try await running.execute("UPDATE jobs SET free_from = now()")
            let status = try await eventually {
                let status = try await shop.status(id)
                return status.text("completed_at") == nil ? nil : status
            }
            #expect(status["counts"]?.number("expired") == 1)
        }
    }

    @Test("Validation reports the users that would have to wait") func validatedWait() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1), more: #","time_zone":"Asia/Tokyo""#, tags: ["beta"])
            try await shop.register(installation(2), user: "grace", token: token(2), tags: ["beta"])
            let now = UnixClock.now()
            _ = try await shop.put(Self.path, Self.around(now, hoursAhead: 9))
            func reasons(_ to: String, _ more: String = "") async throws -> [String] {
                let answer = try await shop.post(
                    "/v1/apps/shop/notifications/validate", #"{"to":\#(to),"content":{"alert":"a"}\#(more)}"#)
                #expect(answer.status == 200, "\(answer.json)")
                return (answer.json["audience"]?["reasons"]?.arrayValue ?? []).map {
                    "\($0.text("reason") ?? "") \($0.text("effect") ?? "") \($0.number("devices") ?? 0)"
                }
            }
            for to in [
                #"{"user":"ada"}"#, #"{"users":["ada","grace"]}"#, #"{"installation":"\#(installation(1))"}"#,
                #"{"tokens":["\#(token(1))"]}"#, #"{"tags":"beta"}"#, #"{"tags":"NOT gamma"}"#, #"{"all":true}"#,
            ] {
                #expect(try await reasons(to) == ["quiet_hours delayed 1"], "\(to)")
                #expect(try await reasons(to, #","urgent":true"#) == [], "\(to)")
                // Due when they are over, and due in the next night.
                let (after, within) = (now + 2 * Self.hour, now + 24 * Self.hour)
                #expect(try await reasons(to, #","not_before":"\#(RFC3339.text(milliseconds: after))""#) == [], "\(to)")
                #expect(try await reasons(to, #","not_before":"\#(RFC3339.text(milliseconds: within))""#) == ["quiet_hours delayed 1"])
                let local = RFC3339.text(milliseconds: now + (24 + 9) * Self.hour).prefix(16)
                #expect(try await reasons(to, #","local_time":"\#(local)""#) == ["quiet_hours delayed 1"], "\(to)")
            }
        }
    }
}
