import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenService

/// Over HTTP, with the database and the broker; the dispatcher is played.
@Suite("The updates of a Live Activity go one after another", .serialized, .timeLimit(.minutes(5)))
struct ActivityLineTests {
    static let path = "/v1/apps/shop/installations/\(installation(1))/activities"

    static func start(_ id: String, type: String = "Ride") -> String {
        """
        {"to":{"user":"ada"},"activity":"\(id)","content":{"event":"start","attributes_type":"\(type)","attributes":{},
        "content_state":{},"alert":"On the way"}}
        """
    }

    static func change(_ id: String, _ eta: Int, event: String = "update", more: String = "") -> String {
        #"{"to":{"user":"ada","activity":"\#(id)"},"content":{"event":"\#(event)","content_state":{"eta":\#(eta)}}\#(more)}"#
    }

    /// Accepts a request.
    /// - Returns: the id of its notification.
    @discardableResult
    static func send(_ body: String, by shop: APITestClient) async throws -> PushID {
        let answer = try await shop.post("/v1/apps/shop/notifications", body)
        #expect(answer.status == 202, "\(answer.json)")
        return try #require(answer.json.text("id").flatMap { PushID($0) })
    }

    static func state(_ id: PushID, _ shop: APITestClient) async throws -> String? {
        try await shop.get("/v1/apps/shop/notifications/\(id)").json.text("state")
    }

    static func eta(_ job: PushJob) throws -> Int64? {
        try JSONValue.parse(job.payload)["aps"]?["content-state"]?["eta"]?.integerValue
    }

    static func withPhone(
        _ options: RunningService.Options = .init(), _ body: @Sendable (RunningService, APITestClient) async throws -> Void
    ) async throws {
        try await RunningService.run(options) { running in
            let shop = try await running.client.makeApp()
            let tokens = #"[{"token":"\#(token(1))"},{"token":"\#(token(2))","purpose":"activity_start:Ride"}]"#
            #expect(
                try await shop.put("/v1/apps/shop/installations/\(installation(1))", #"{"user":"ada","tokens":\#(tokens)}"#).status == 201)
            try await body(running, shop)
        }
    }

    @Test("Updates that come before the update token wait for it: the newest goes when it arrives") func waiting() async throws {
        try await Self.withPhone { running, shop in
            try await running.jobs { signal in
                try await Self.send(Self.start("ride"), by: shop)
                #expect(try PushJob(decoding: try await signal.next().body).deliveries.map(\.token.hex) == [token(2)])
                let first = try await Self.send(Self.change("ride", 9), by: shop)
                let second = try await Self.send(Self.change("ride", 8), by: shop)
                #expect(try await Self.state(first, shop) == "cancelled")
                let record = try await shop.get("/v1/apps/shop/activities/ride?user=ada").json
                #expect(record.text("state") == "starting" && record["waiting"]?.boolValue == true && record.text("user") == "ada")
                #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(3))"}"#).status == 200)
                let job = try PushJob(decoding: try await signal.next().body)
                #expect(job.notification == second && job.deliveries.map(\.token.hex) == [token(3)])
                #expect(try Self.eta(job) == 8)
                #expect(try await shop.get("/v1/apps/shop/activities/ride?user=ada").json.text("state") == "active")
            }
        }
    }

    @Test("One update is under way; the newest of those that come meanwhile goes after it, and an end is the last") func queue()
        async throws
    {
        try await Self.withPhone { running, shop in
            #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(3))"}"#).status == 200)
            try await running.jobs { signal in
                try await Self.send(Self.change("ride", 1), by: shop)
                let first = try PushJob(decoding: try await signal.next().body)
                #expect(try Self.eta(first) == 1)
                for eta in 2...4 { try await Self.send(Self.change("ride", eta), by: shop) }
                try await running.report(.accepted, of: first, status: 200)
                let next = try PushJob(decoding: try await signal.next().body)
                #expect(try Self.eta(next) == 4)
                let end = try await Self.send(Self.change("ride", 0, event: "end"), by: shop)
                let late = try await Self.send(Self.change("ride", 7), by: shop)
                #expect(try await Self.state(late, shop) == "no_targets")
                try await running.report(.accepted, of: next, status: 200)
                let last = try PushJob(decoding: try await signal.next().body)
                #expect(last.notification == end)
                try await running.report(.accepted, of: last, status: 200)
                _ = try await running.completed(end, shop)
                #expect(try await shop.get("/v1/apps/shop/activities/ride?user=ada").json.text("state") == "ended")
                #expect(try await running.count("SELECT count(*) FROM cancellations WHERE reason = 'superseded'") == 2)
                #expect(try await running.count("SELECT count(*) FROM activities WHERE sending IS NOT NULL") == 0)
            }
        }
    }

    @Test("An update whose attempt failed is superseded, and the control stream knows before the newer one goes") func retry() async throws
    {
        try await Self.withPhone { running, shop in
            #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(3))"}"#).status == 200)
            try await running.jobs { signal in
                let old = try await Self.send(Self.change("ride", 1), by: shop)
                let first = try PushJob(decoding: try await signal.next().body)
                try await running.report(
                    .throttled, of: first, final: false, status: 429, reason: "TooManyRequests", retryAt: UnixClock.now() + 600_000)
                _ = try await eventually { () -> Bool? in
                    try await running.count("SELECT count(*) FROM activities WHERE is_retrying") == 1 ? true : nil
                }
                let new = try await Self.send(Self.change("ride", 2), by: shop)
                let next = try PushJob(decoding: try await signal.next().body)
                #expect(next.notification == new)
                #expect(
                    try await running.count(
                        "SELECT count(*) FROM cancellations WHERE notification = \(old) AND published_at IS NOT NULL") == 1)
                try await running.report(.cancelled, of: first, attempt: 2)
                try await running.report(.accepted, of: next, status: 200)
                _ = try await running.completed(new, shop)
                #expect(try await Self.state(old, shop) == "cancelled")
            }
        }
    }

    @Test("An update names its activity by user and type, if the user has one of the type") func byType() async throws {
        try await Self.withPhone { running, shop in
            let body = #"{"to":{"user":"ada","activity_type":"Ride"},"content":{"event":"update","content_state":{"eta":1}}}"#
            #expect(try await shop.post("/v1/apps/shop/notifications", body).code == "activity_not_single")
            try await Self.send(Self.start("ride"), by: shop)
            let key = ["idempotency-key": "one"]
            let sent = try await shop.post("/v1/apps/shop/notifications", body, headers: key)
            let id = try #require(sent.json.text("id").flatMap { PushID($0) })
            #expect(try await shop.get("/v1/apps/shop/activities/ride?user=ada").json.text("newest") == "\(id)")
            let batch = try await shop.post("/v1/apps/shop/notifications/batch", #"{"notifications":[{"notification":\#(body)}]}"#)
            let newer = try #require(batch.json["results"]?[0]?.text("id"))
            #expect(try await shop.get("/v1/apps/shop/activities/ride?user=ada").json.text("newest") == newer)
            try await Self.send(Self.start("ride-2"), by: shop)
            let refused = try await shop.post("/v1/apps/shop/notifications", body)
            #expect(refused.code == "activity_not_single" && refused.json.text("detail")?.contains("ride, ride-2") == true)
            #expect(try await shop.post("/v1/apps/shop/notifications", body, headers: key).bytes == sent.bytes)
            #expect(try await shop.post("/v1/apps/shop/notifications/validate", body).code == "activity_not_single")
            // A start that no device has reported for an hour counts only beside its like.
            try await running.execute("UPDATE activities SET started_at = now() - interval '2 hours' WHERE id = 'ride-2'")
            let again = try await shop.post("/v1/apps/shop/notifications", body)
            #expect(again.status == 202, "\(again.json)")
            #expect(try await shop.get("/v1/apps/shop/activities/ride?user=ada").json.text("newest") == again.json.text("id"))
            try await running.execute("UPDATE activities SET started_at = now() - interval '2 hours'")
            #expect(try await shop.post("/v1/apps/shop/notifications", body).code == "activity_not_single")
        }
    }

    @Test("A replay sends the newest update again, which others then wait for, and no older one") func replays() async throws {
        try await Self.withPhone { running, shop in
            #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(3))"}"#).status == 200)
            try await running.jobs { signal in
                try await Self.send(Self.change("ride", 1), by: shop)
                let old = try PushJob(decoding: try await signal.next().body)
                try await DeadLetterTests.giveUp(old, running)
                let new = try await Self.send(Self.change("ride", 2), by: shop)
                let second = try PushJob(decoding: try await signal.next().body)
                #expect(second.notification == new)
                try await DeadLetterTests.giveUp(second, running)
                let replayed = try await DeadLetterTests.replay(running)["deliveries"]
                #expect(replayed?.number("sent") == 1 && replayed?.number("cancelled") == 1)
                let again = try PushJob(decoding: try await signal.next().body)
                #expect(again.notification == new)
                let third = try await Self.send(Self.change("ride", 3), by: shop)
                #expect(try await running.count("SELECT count(*) FROM activities WHERE is_waiting AND newest = \(third)") == 1)
                try await running.report(.accepted, of: again, status: 200, attempt: 11)
                #expect(try PushJob(decoding: try await signal.next().body).notification == third)
            }
        }
    }

    @Test("A start names an activity once, and one that reaches no device makes none") func starts() async throws {
        try await Self.withPhone { running, shop in
            try await Self.send(Self.start("ride"), by: shop)
            let again = try await shop.post("/v1/apps/shop/notifications", Self.start("ride"), headers: ["idempotency-key": "k"])
            #expect(again.status == 409 && again.code == "activity_exists")
            #expect(try await running.count("SELECT count(*) FROM idempotency_records") == 0)
            #expect(try await running.count("SELECT count(*) FROM notifications") == 1)
            let nowhere = try await Self.send(Self.start("match", type: "Match"), by: shop)
            #expect(try await Self.state(nowhere, shop) == "no_targets")
            #expect(try await shop.get("/v1/apps/shop/activities/match?user=ada").status == 404)
            let unknown = try await Self.send(Self.change("match", 1), by: shop)
            #expect(try await Self.state(unknown, shop) == "no_targets")
        }
    }

    @Test("The newest state goes again when a second device, or another update token, comes after it") func renewal() async throws {
        try await Self.withPhone { running, shop in
            #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(3))"}"#).status == 200)
            try await shop.register(installation(2), user: "ada", token: token(11))
            try await running.jobs { signal in
                func next(eta: Int64, to tokens: Int...) async throws {
                    let job = try PushJob(decoding: try await signal.next().body)
                    #expect(try Self.eta(job) == eta)
                    #expect(Set(job.deliveries.map(\.token.hex)) == Set(tokens.map { token($0) }))
                    try await running.report(.accepted, of: job, status: 200)
                    _ = try await running.completed(job.notification, shop)
                }
                try await Self.send(Self.change("ride", 1), by: shop)
                try await next(eta: 1, to: 3)
                let other = "/v1/apps/shop/installations/\(installation(2))/activities/ride"
                for _ in 1...2 { #expect(try await shop.put(other, #"{"token":"\#(token(5))"}"#).status == 200) }
                try await next(eta: 1, to: 3, 5)
                #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(6))"}"#).status == 200)
                try await next(eta: 1, to: 6, 5)
                try await Self.send(Self.change("ride", 2), by: shop)
                try await next(eta: 2, to: 6, 5)
                #expect(try await running.count("SELECT count(*) FROM notifications") == 4, "a report of the same token sends nothing")
            }
        }
    }

    @Test("The window of the app lets the newest update of priority 10 through") func window() async throws {
        try await Self.withPhone { running, shop in
            #expect(try await running.client.call("PATCH", "/v1/admin/apps/shop", #"{"activity_window_seconds":1}"#).status == 200)
            #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(3))","frequent_updates":false}"#).status == 200)
            try await running.jobs { signal in
                for eta in 1...3 { try await Self.send(Self.change("ride", eta, more: #","priority":10"#), by: shop) }
                let first = try PushJob(decoding: try await signal.next().body)
                try await running.report(.accepted, of: first, status: 200)
                let next = try PushJob(decoding: try await signal.next().body)
                #expect(try Self.eta(next) == 3)
                try await running.sending(next.notification, shop)
                let apart = try await running.count(
                    """
                    SELECT (extract(epoch FROM max(due_at) - min(due_at)) * 1000)::bigint AS count FROM jobs
                    WHERE notification IN (\(first.notification), \(next.notification))
                    """)
                // The first is due when it is accepted, and fan-out takes the next one up when the window is over.
                #expect(apart >= 1000, "one second after the acceptance of the first")
            }
        }
    }

    @Test("Quiet hours hold back a start, and no state of an activity that is on the screen") func quietHours() async throws {
        try await Self.withPhone { running, shop in
            #expect(try await running.client.call("PATCH", "/v1/admin/apps/shop", #"{"activity_window_seconds":600}"#).status == 200)
            let now = UnixClock.now()
            func time(_ hours: Int64) -> Substring { RFC3339.text(milliseconds: now + hours * 3_600_000).dropFirst(11).prefix(5) }
            let quiet = #"{"begins_at":"\#(time(-1))","ends_at":"\#(time(2))"}"#
            #expect(try await shop.put("/v1/apps/shop/users/ada/quiet-hours", quiet).status == 200)
            #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(3))"}"#).status == 200)
            try await running.jobs { signal in
                let start = try await Self.send(Self.start("match"), by: shop)
                let update = try await Self.send(Self.change("ride", 1, more: #","priority":10"#), by: shop)
                let job = try PushJob(decoding: try await signal.next().body)
                #expect(job.notification == update)
                try await running.report(.accepted, of: job, status: 200)
                let end = try await Self.send(Self.change("ride", 2, event: "end"), by: shop)
                #expect(try PushJob(decoding: try await signal.next().body).notification == end)
                _ = try await eventually { () -> Bool? in
                    let held = try await running.count(
                        """
                        SELECT count(*) FROM jobs
                        WHERE notification = \(start) AND published_at IS NULL AND due_at > now() + interval '1 hour'
                        """)
                    return held == 1 ? true : nil
                }
            }
            let stated = try await shop.post("/v1/apps/shop/notifications", Self.change("ride", 1, more: #","urgent":false"#))
            #expect(stated.problems == ["/urgent not_allowed"])
        }
    }

    @Test("A start that was held back for nine hours gets the update that came meanwhile, and a sign-out ends one that was not reported")
    func heldStart() async throws {
        try await Self.withPhone { running, shop in
            try await running.jobs { signal in
                for id in ["ride", "trip"] {
                    try await Self.send(Self.start(id), by: shop)
                    _ = try await signal.next()
                }
                try await running.execute("UPDATE activities SET started_at = started_at - interval '9 hours'")
                let update = try await Self.send(Self.change("ride", 9), by: shop)
                let record = try await shop.get("/v1/apps/shop/activities/ride?user=ada").json
                #expect(record.text("state") == "starting" && record["waiting"]?.boolValue == true)
                #expect(try await Self.report("ride", token: token(3), on: 1, by: shop) == 200)
                let job = try PushJob(decoding: try await signal.next().body)
                #expect(job.notification == update && job.deliveries.map(\.token.hex) == [token(3)])
                #expect(try await shop.post("/v1/apps/shop/installations/\(installation(1))/logout").status == 200)
                #expect(try await running.count("SELECT count(*) FROM activities WHERE id = 'trip' AND ended_at IS NOT NULL") == 1)
            }
        }
    }

    @Test("A state without a stated timestamp is never older than those that were accepted before it", arguments: ["update", "end"])
    func clocksApart(event: String) async throws {
        try await Self.withPhone { running, shop in
            #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(3))"}"#).status == 200)
            try await running.jobs { signal in
                // Another process, whose clock is ahead, accepted the newest state.
                let ahead = UnixClock.now() / 1000 + 600
                try await running.execute("UPDATE activities SET newest_timestamp = \(ahead)")
                let id = try await Self.send(Self.change("ride", 4, event: event), by: shop)
                let job = try PushJob(decoding: try await signal.next().body)
                let aps = try JSONValue.parse(job.payload)["aps"]
                #expect(job.notification == id && aps?["timestamp"]?.integerValue == ahead)
                #expect(aps?["content-state"]?["eta"]?.integerValue == 4)
                let stated = try await Self.send(
                    #"""
                    {"to":{"user":"ada","activity":"ride"},"content":{"event":"end","content_state":{},"timestamp":"2026-01-01T00:00:00Z"}}
                    """#,
                    by: shop
                )
                #expect(try await Self.state(stated, shop) == "cancelled")
            }
        }
    }

    @Test("An update whose outcome never comes holds no newer one back after its expiry") func lostOutcome() async throws {
        try await Self.withPhone { running, shop in
            #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(3))"}"#).status == 200)
            try await running.jobs { signal in
                let lost = try await Self.send(Self.change("ride", 1), by: shop)
                #expect(try PushJob(decoding: try await signal.next().body).notification == lost)
                try await running.execute("UPDATE notifications SET expires_at = now() - interval '1 second' WHERE id = \(lost)")
                let next = try await Self.send(Self.change("ride", 2), by: shop)
                #expect(try PushJob(decoding: try await signal.next().body).notification == next)
            }
        }
    }

    static func report(_ activity: String, token: String, on device: Int, by shop: APITestClient) async throws -> Int {
        let path = "/v1/apps/shop/installations/\(installation(device))/activities/\(activity)"
        return try await shop.put(path, #"{"token":"\#(token)"}"#).status
    }
}
