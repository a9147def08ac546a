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
    private static let path = "/v1/apps/shop/installations/\(installation(1))/activities"

    private static func start(_ id: String, type: String = "Ride") -> String {
        """
        {"to":{"user":"ada"},"activity":"\(id)","content":{"event":"start","attributes_type":"\(type)","attributes":{},
        "content_state":{},"alert":"On the way"}}
        """
    }

    private static func change(_ id: String, _ eta: Int, event: String = "update", more: String = "") -> String {
        #"{"to":{"activity":"\#(id)"},"content":{"event":"\#(event)","content_state":{"eta":\#(eta)}}\#(more)}"#
    }

    /// Accepts a request.
    /// - Returns: the id of its notification.
    @discardableResult
    private static func send(_ body: String, by shop: APITestClient) async throws -> PushID {
        let answer = try await shop.post("/v1/apps/shop/notifications", body)
        #expect(answer.status == 202, "\(answer.json)")
        return try #require(answer.json.text("id").flatMap { PushID($0) })
    }

    private static func state(_ id: PushID, _ shop: APITestClient) async throws -> String? {
        try await shop.get("/v1/apps/shop/notifications/\(id)").json.text("state")
    }

    private static func eta(_ job: PushJob) throws -> Int64? {
        try JSONValue.parse(job.payload)["aps"]?["content-state"]?["eta"]?.integerValue
    }

    private static func withPhone(
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
                let record = try await shop.get("/v1/apps/shop/activities/ride").json
                #expect(record.text("state") == "starting" && record["waiting"]?.boolValue == true && record.text("user") == "ada")
                #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(3))"}"#).status == 200)
                let job = try PushJob(decoding: try await signal.next().body)
                #expect(job.notification == second && job.deliveries.map(\.token.hex) == [token(3)])
                #expect(try Self.eta(job) == 8)
                #expect(try await shop.get("/v1/apps/shop/activities/ride").json.text("state") == "active")
            }
        }
    }

    @Test("One update is under way; the newest of those that come meanwhile goes after it, and an end is the last") func line() async throws
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
                #expect(try await shop.get("/v1/apps/shop/activities/ride").json.text("state") == "ended")
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
            #expect(try await shop.get("/v1/apps/shop/activities/ride").json.text("newest") == "\(id)")
            let batch = try await shop.post("/v1/apps/shop/notifications/batch", #"{"notifications":[{"notification":\#(body)}]}"#)
            let newer = try #require(batch.json["results"]?[0]?.text("id"))
            #expect(try await shop.get("/v1/apps/shop/activities/ride").json.text("newest") == newer)
            try await Self.send(Self.start("ride-2"), by: shop)
            let refused = try await shop.post("/v1/apps/shop/notifications", body)
            #expect(refused.code == "activity_not_single" && refused.json.text("detail")?.contains("ride, ride-2") == true)
            #expect(try await shop.post("/v1/apps/shop/notifications", body, headers: key).bytes == sent.bytes)
            #expect(try await shop.post("/v1/apps/shop/notifications/validate", body).code == "activity_not_single")
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
            #expect(try await shop.get("/v1/apps/shop/activities/match").status == 404)
            let unknown = try await Self.send(Self.change("match", 1), by: shop)
            #expect(try await Self.state(unknown, shop) == "no_targets")
        }
    }

    @Test("Of two starts of one activity at the same moment, by two processes, one is accepted") func startsAtOnce() async throws {
        try await Self.withPhone { running, shop in
            try await running.another { other in
                let second = other.client.with(key: shop.key)
                // Both have looked for the activity before either can write.
                let requests = try await running.holding("LOCK TABLE notifications IN SHARE MODE") {
                    let requests = [shop, second].map { client in
                        Task { try await Self.answered { try await client.post("/v1/apps/shop/notifications", Self.start("ride")).status } }
                    }
                    try await Self.waiting(2, running)
                    return requests
                }
                #expect(try await [requests[0].value, requests[1].value].sorted() == [202, 409])
                #expect(try await running.count("SELECT count(*) FROM notifications") == 1)
            }
        }
    }

    /// The second one waits for the first one's lock, and does not see its notification in the statement that waited.
    @Test("Of two updates at the same moment, by two processes, one goes and the other waits for it") func updatesAtOnce() async throws {
        try await Self.withPhone { running, shop in
            #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(3))"}"#).status == 200)
            try await running.another { other in
                let second = other.client.with(key: shop.key)
                let requests = try await running.holding("LOCK TABLE notifications IN SHARE MODE") {
                    let requests = [shop, second].map { client in
                        Task {
                            try await Self.answered { try await client.post("/v1/apps/shop/notifications", Self.change("ride", 1)).status }
                        }
                    }
                    try await Self.waiting(2, running)
                    return requests
                }
                #expect(try await [requests[0].value, requests[1].value] == [202, 202])
                #expect(try await running.count("SELECT count(*) FROM jobs") == 1)
                #expect(try await running.count("SELECT count(*) FROM activities WHERE sending IS NOT NULL AND is_waiting") == 1)
            }
        }
    }

    @Test("When the user signs out or another one signs in, the activities end on that device and on no other") func signOut() async throws
    {
        try await Self.withPhone { running, shop in
            try await shop.register(installation(2), user: "ada", token: token(11))
            #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(3))"}"#).status == 200)
            #expect(try await shop.put(Self.path + "/pass", #"{"token":"\#(token(4))"}"#).status == 200)
            let other = "/v1/apps/shop/installations/\(installation(2))/activities/ride"
            #expect(try await shop.put(other, #"{"token":"\#(token(5))"}"#).status == 200)
            try await running.jobs { signal in
                #expect(try await shop.post("/v1/apps/shop/installations/\(installation(1))/logout", "{}").status == 200)
                var ended: Set<String> = []
                for _ in 1...2 {
                    let job = try PushJob(decoding: try await signal.next().body)
                    let aps = try JSONValue.parse(job.payload)["aps"]
                    #expect(aps?["event"]?.stringValue == "end" && job.priority == 10 && job.deliveries.map(\.ownerEpoch) == [2])
                    #expect(aps?["content-state"] == nil)
                    ended.formUnion(job.deliveries.map(\.token.hex))
                }
                #expect(ended == [token(3), token(4)])
                try await Self.send(Self.change("ride", 1), by: shop)
                #expect(try PushJob(decoding: try await signal.next().body).deliveries.map(\.token.hex) == [token(5)])
                #expect(try await shop.get("/v1/apps/shop/activities/ride").json.text("state") == "active", "on another device")
                #expect(try await shop.get("/v1/apps/shop/activities/pass").json.text("state") == "ended")
                // The app of another user's device reports what is still on its lock screen.
                try await shop.register(installation(1), user: "eve", token: token(1))
                for _ in 1...2 { _ = try await signal.next() }
                #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(6))"}"#).status == 200)
                let late = try PushJob(decoding: try await signal.next().body)
                #expect(late.deliveries.map(\.token.hex) == [token(6)] && late.deliveries.map(\.ownerEpoch) == [3])
                #expect(try JSONValue.parse(late.payload)["aps"]?["event"]?.stringValue == "end")
            }
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

    @Test("The end at a sign-out is newer than the newest state, or the device ignores it") func endIsNewest() async throws {
        try await Self.withPhone { running, shop in
            #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(3))"}"#).status == 200)
            try await running.jobs { signal in
                try await Self.send(
                    #"{"to":{"activity":"ride"},"payload":{"aps":{"event":"update","timestamp":4070908800,"content-state":{}}}}"#, by: shop)
                _ = try await signal.next()
                #expect(try await shop.post("/v1/apps/shop/installations/\(installation(1))/logout", "{}").status == 200)
                let aps = try JSONValue.parse(try PushJob(decoding: try await signal.next().body).payload)["aps"]
                #expect(aps?["event"]?.stringValue == "end" && aps?["timestamp"]?.integerValue ?? 0 > 4_070_908_800)
                #expect(aps?["dismissal-date"]?.integerValue ?? .max <= UnixClock.now() / 1000)
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

    @Test("A state without a stated timestamp is never older than those that were accepted before it", arguments: ["update", "end"])
    func clocksApart(event: String) async throws {
        try await Self.withPhone { running, shop in
            #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(3))"}"#).status == 200)
            try await running.jobs { signal in
                // Another process, whose clock is ahead, accepted the newest state.
                let ahead = UnixClock.now() / 1000 + 30
                try await running.execute("UPDATE activities SET newest_timestamp = \(ahead)")
                let id = try await Self.send(Self.change("ride", 4, event: event), by: shop)
                let job = try PushJob(decoding: try await signal.next().body)
                let aps = try JSONValue.parse(job.payload)["aps"]
                #expect(job.notification == id && aps?["timestamp"]?.integerValue == ahead)
                #expect(aps?["content-state"]?["eta"]?.integerValue == 4)
                let stated = try await Self.send(
                    #"{"to":{"activity":"ride"},"content":{"event":"end","content_state":{},"timestamp":"2026-01-01T00:00:00Z"}}"#, by: shop
                )
                #expect(try await Self.state(stated, shop) == "cancelled")
            }
        }
    }

    @Test("A start to an installation makes an activity of the user who is signed in there") func startOnInstallation() async throws {
        try await Self.withPhone { running, shop in
            let content = #"{"event":"start","attributes_type":"Ride","attributes":{},"content_state":{},"alert":"Now"}"#
            try await Self.send(
                #"{"to":{"installation":"\#(installation(1))"},"activity":"ride","content":\#(content)}"#, by: shop)
            #expect(try await shop.get("/v1/apps/shop/activities/ride").json.text("user") == "ada")
            #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(3))"}"#).status == 200)
            #expect(try await shop.get("/v1/apps/shop/activities/ride").json.text("state") == "active")
            try await running.jobs { signal in
                _ = try await signal.next()
                let update = try await Self.send(Self.change("ride", 1), by: shop)
                let job = try PushJob(decoding: try await signal.next().body)
                #expect(job.notification == update && job.deliveries.map(\.token.hex) == [token(3)])
            }
        }
    }

    @Test("A sign-out ends no activity that another device of the user got and has not reported yet") func unreportedDevice() async throws {
        try await Self.withPhone { running, shop in
            let tokens = #"[{"token":"\#(token(11))"},{"token":"\#(token(12))","purpose":"activity_start:Ride"}]"#
            #expect(
                try await shop.put("/v1/apps/shop/installations/\(installation(2))", #"{"user":"ada","tokens":\#(tokens)}"#).status == 201)
            func state(_ id: String) async throws -> String? { try await shop.get("/v1/apps/shop/activities/\(id)").json.text("state") }
            try await Self.send(Self.start("ride"), by: shop)
            for id in ["ride", "own"] {
                #expect(try await shop.put("\(Self.path)/\(id)", #"{"token":"\#(token(id == "ride" ? 3 : 4))"}"#).status == 200)
            }
            #expect(try await shop.post("/v1/apps/shop/installations/\(installation(1))/logout", "{}").status == 200)
            // The app of the phone had started the other one itself.
            #expect(try await state("ride") == "active")
            #expect(try await state("own") == "ended")
            let tablet = "/v1/apps/shop/installations/\(installation(2))/activities/ride"
            #expect(try await shop.put(tablet, #"{"token":"\#(token(5))"}"#).status == 200)
            try await running.jobs { signal in
                var found: PushJob?
                let update = try await Self.send(Self.change("ride", 1), by: shop)
                while found?.notification != update { found = try PushJob(decoding: try await signal.next().body) }
                #expect(found?.deliveries.map(\.token.hex) == [token(5)])
                #expect(try await running.count("SELECT count(*) FROM notifications WHERE target_installation = \(installation(2))") == 0)
            }
            #expect(try await shop.delete(tablet).status == 204)
            #expect(try await state("ride") == "ended")
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

    /// Fan-out and the report both wait for the tokens: fan-out has begun, and the report does not see its result.
    @Test("A device that reports its token while fan-out reads the tokens gets the newest state") func reportDuringFanOut() async throws {
        try await Self.withPhone { running, shop in
            try await shop.register(installation(2), user: "ada", token: token(11))
            #expect(try await Self.report("ride", token: token(3), on: 1, by: shop) == 200)
            try await running.jobs { signal in
                try await Self.send(Self.change("ride", 1), by: shop)
                _ = try await signal.next()
                let newest = try await Self.send(Self.change("ride", 2), by: shop)
                let report: Task<Int, any Error> = try await running.holding("LOCK TABLE tokens IN ACCESS EXCLUSIVE MODE") {
                    try await running.execute("UPDATE activities SET sending = NULL")
                    try await running.execute("UPDATE fan_outs SET free_from = now(), due_at = now() WHERE notification = \(newest)")
                    try await Self.waiting(1, running)
                    let report = Task { try await Self.answered { try await Self.report("ride", token: token(5), on: 2, by: shop) } }
                    try await Self.waiting(2, running)
                    return report
                }
                #expect(try await report.value == 200)
                var reached: Set<String> = []
                while reached.count < 2 {
                    let job = try PushJob(decoding: try await signal.next().body)
                    #expect(try Self.eta(job) == 2)
                    reached.formUnion(job.deliveries.map(\.token.hex))
                    try await running.report(.accepted, of: job, status: 200)
                }
                #expect(reached == [token(3), token(5)])
            }
        }
    }

    private static func report(_ activity: String, token: String, on device: Int, by shop: APITestClient) async throws -> Int {
        let path = "/v1/apps/shop/installations/\(installation(device))/activities/\(activity)"
        return try await shop.put(path, #"{"token":"\#(token)"}"#).status
    }

    /// Repeats a request that waited for a lock for too long.
    private static func answered(_ request: () async throws -> Int) async throws -> Int {
        try await eventually {
            let status = try await request()
            return status == 503 ? nil : status
        }
    }

    /// Returns when so many sessions wait for a lock.
    private static func waiting(_ number: Int64, _ running: RunningService) async throws {
        _ = try await eventually { () -> Bool? in
            let found = try await running.count(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
            return found >= number ? true : nil
        }
    }

    @Test("An activity belongs to its user: lists, export and erasure know it") func privacy() async throws {
        try await Self.withPhone { running, shop in
            #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(3))","attributes_type":"Ride"}"#).status == 200)
            try await shop.register(installation(2), user: nil, token: token(12))
            let lonely = "/v1/apps/shop/installations/\(installation(2))/activities/lonely"
            #expect(try await shop.put(lonely, #"{"token":"\#(token(13))"}"#).status == 200)
            let all = try await shop.get("/v1/apps/shop/activities?limit=1").json
            #expect(all["activities"]?.arrayValue?.compactMap { $0.text("id") } == ["lonely"])
            let next = try #require(all.text("next_cursor"))
            let second = try await shop.get("/v1/apps/shop/activities?limit=1&cursor=\(next)").json
            #expect(second["activities"]?.arrayValue?.compactMap { $0.text("attributes_type") } == ["Ride"])
            #expect(second["next_cursor"]?.isNull == true)
            let ofAda = try await shop.get("/v1/apps/shop/activities?user=ada&state=active").json
            #expect(ofAda["activities"]?.arrayValue?.count == 1)
            let export = try await running.client.post("/v1/apps/shop/users/ada/export", "{}").json
            #expect(export["activities"]?.arrayValue?.compactMap { $0.text("id") } == ["ride"])
            // The last device of it says that it is over.
            #expect(try await shop.delete(lonely).status == 204)
            #expect(try await shop.get("/v1/apps/shop/activities/lonely").json.text("state") == "ended")
            #expect(try await running.client.erase("ada").json["erased"]?["activities"]?.integerValue == 1)
            #expect(try await shop.get("/v1/apps/shop/activities/ride").status == 404)
        }
    }
}
