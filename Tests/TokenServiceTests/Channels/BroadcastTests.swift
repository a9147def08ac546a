import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenServiceRegistry
@testable import TokenServiceSending

/// Over HTTP, with the database and the broker; dispatchers and Apple are played.
@Suite("Broadcasts to a channel", .serialized, .timeLimit(.minutes(5)))
struct BroadcastTests {
    static let path = "/v1/apps/shop/channels/game/broadcasts"

    static func state(_ home: Int, event: String = "update", more: String = "") -> String {
        #"{"content":{"event":"\#(event)","content_state":{"home":\#(home)}}\#(more)}"#
    }

    /// With the channel `game`.
    static func run(
        storage: String = "none",
        _ body: @escaping @Sendable (RunningService, APITestClient, ChannelID, Signal<ReceivedMessage>) async throws -> Void
    ) async throws {
        let apple = AppleChannels()
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await apple.serve(running) {
                // A request waits for Apple's answer for five seconds only.
                let id = try await eventually {
                    let made = try await shop.put("/v1/apps/shop/channels/game", #"{"environment":"production","storage":"\#(storage)"}"#)
                    return made.json.text("channel_id").flatMap { ChannelID($0) }
                }
                try await running.jobs { signal in try await body(running, shop, id, signal) }
            }
        }
    }

    @discardableResult
    static func send(_ body: String, by shop: APITestClient) async throws -> PushID {
        let answer = try await shop.post(path, body)
        #expect(answer.status == 202, "\(answer.json)")
        return try #require(answer.json.text("id").flatMap { PushID($0) })
    }

    static func next(_ signal: Signal<ReceivedMessage>) async throws -> PushJob {
        try PushJob(decoding: try await signal.next().body)
    }

    static func home(_ job: PushJob) throws -> Int64? {
        try JSONValue.parse(job.payload)["aps"]?["content-state"]?["home"]?.integerValue
    }

    @Test("A broadcast is one delivery to the channel, with an outcome and a receipt of its own", arguments: ["none", "latest"])
    func oneBroadcast(storage: String) async throws {
        try await Self.run(storage: storage) { running, shop, channel, signal in
            let began = UnixClock.now() / 1000
            let id = try await Self.send(Self.state(1), by: shop)
            let job = try await Self.next(signal)
            let ended = UnixClock.now() / 1000
            #expect(job.isBroadcast && job.topic == "com.example.shop" && job.notification == id && job.priority == 5)
            #expect(job.deliveries.map(\.token) == [channel.asToken] && job.deliveries.map(\.environment) == [.production])
            let eightHours = began + 8 * 3600 - 1...ended + 8 * 3600 + 1
            #expect(storage == "none" ? job.apnsExpiration == 0 : eightHours.contains(job.apnsExpiration ?? -1))
            try await running.report(.accepted, of: job, status: 200)
            let read = try await running.completed(id, shop).json
            #expect(read["to"]?.text("kind") == "channel" && read["to"]?.text("channel") == "game")
            #expect(read["counts"]?.number("accepted") == 1 && read["counts"]?.number("total") == 1)
            let delivery = try #require(read["deliveries"]?[0])
            #expect(delivery.text("installation") == "\(PushID.lowest)" && delivery.text("state") == "accepted")
            #expect(try await running.count("SELECT count(*) FROM update_targets WHERE sending IS NOT NULL") == 0)
            let why = try await shop.get("/v1/apps/shop/notifications/\(id)/why?user=ada").json
            #expect(why.text("conclusion") == "not_addressed")
        }
    }

    @Test("Of broadcasts that come while one is under way the newest goes, and the others are superseded") func coalescing() async throws {
        try await Self.run { running, shop, _, signal in
            try await Self.send(Self.state(1), by: shop)
            let first = try await Self.next(signal)
            let between = try await Self.send(Self.state(2), by: shop)
            let newest = try await Self.send(Self.state(3), by: shop)
            #expect(try await shop.get("/v1/apps/shop/notifications/\(between)").json.text("cancel_reason") == "superseded")
            try await running.counted("updates_superseded_total", 1)
            try await running.report(.accepted, of: first, status: 200)
            let second = try await Self.next(signal)
            #expect(second.notification == newest)
            #expect(try Self.home(second) == 3)
            // Fan-out takes the second up when the window of the first is over.
            let gap = try await running.count(
                """
                SELECT (extract(epoch FROM max(j.due_at) - min(j.due_at)) * 1000)::bigint AS count FROM jobs j
                """)
            #expect(gap >= UpdateTarget.broadcastWindow, "\(gap) ms apart")
        }
    }

    @Test("An attempt that failed has a receipt, and a newer broadcast takes its place") func retry() async throws {
        try await Self.run { running, shop, _, signal in
            let old = try await Self.send(Self.state(1), by: shop)
            let first = try await Self.next(signal)
            try await running.report(
                .throttled, of: first, final: false, status: 429, reason: "TooManyRequests", retryAt: UnixClock.now() + 600_000)
            _ = try await eventually { () -> Bool? in
                try await running.count("SELECT count(*) FROM update_targets WHERE is_retrying") == 1 ? true : nil
            }
            let tried = try await shop.get("/v1/apps/shop/notifications/\(old)").json["deliveries"]?[0]?["last_attempt"]
            #expect(tried?.number("status") == 429)
            let new = try await Self.send(Self.state(2), by: shop)
            let second = try await Self.next(signal)
            #expect(second.notification == new)
            try await running.report(.cancelled, of: first, attempt: 2)
            try await running.report(.accepted, of: second, status: 200)
            _ = try await running.completed(new, shop)
            #expect(try await shop.get("/v1/apps/shop/notifications/\(old)").json.text("state") == "cancelled")
        }
    }

    @Test("No update takes the place of an end whose attempt failed") func retriedEnd() async throws {
        try await Self.run { running, shop, _, signal in
            let end = try await Self.send(Self.state(1, event: "end"), by: shop)
            let first = try await Self.next(signal)
            try await running.report(
                .throttled, of: first, final: false, status: 429, reason: "TooManyRequests", retryAt: UnixClock.now() + 600_000)
            _ = try await eventually { () -> Bool? in
                try await running.count("SELECT count(*) FROM update_targets WHERE is_retrying") == 1 ? true : nil
            }
            let update = try await Self.send(Self.state(2), by: shop)
            #expect(try await running.count("SELECT count(*) FROM update_targets WHERE sending = \(end) AND is_waiting") == 1)
            try await running.report(.accepted, of: first, status: 200, attempt: 2)
            #expect(try await Self.next(signal).notification == update)
            #expect(try await running.completed(end, shop).json["counts"]?.number("accepted") == 1)
        }
    }

    @Test("An end that is cancelled before APNs takes it ends no activity") func cancelledEnd() async throws {
        try await Self.run { running, shop, _, signal in
            try await shop.register(installation(1), user: "ada", token: token(1))
            func report(_ number: Int) async throws {
                let body = #"{"token":"\#(token(number))","channel":"game"}"#
                #expect(try await shop.put("/v1/apps/shop/installations/\(installation(1))/activities/watch", body).status == 200)
            }
            try await report(2)
            let end = try await Self.send(Self.state(1, event: "end"), by: shop)
            let first = try await Self.next(signal)
            try await running.report(
                .throttled, of: first, final: false, status: 429, reason: "TooManyRequests", retryAt: UnixClock.now() + 600_000)
            _ = try await eventually { () -> Bool? in
                try await running.count("SELECT count(*) FROM update_targets WHERE is_retrying") == 1 ? true : nil
            }
            #expect(try await shop.get("/v1/apps/shop/activities/watch?user=ada").json.text("state") == "ended")
            #expect(try await shop.delete("/v1/apps/shop/notifications/\(end)").status == 200)
            try await running.report(.cancelled, of: first, attempt: 2)
            _ = try await eventually { () -> Bool? in
                try await shop.get("/v1/apps/shop/activities/watch?user=ada").json.text("state") == "active" ? true : nil
            }
            let update = try await ActivityLineTests.send(ActivityLineTests.change("watch", 1), by: shop)
            let sent = try await Self.next(signal)
            #expect(sent.notification == update)
            try await running.report(.accepted, of: sent, status: 200)
            _ = try await running.completed(update, shop)
            try await report(3)
            let copy = try await Self.next(signal)
            #expect(try JSONValue.parse(copy.payload)["aps"]?["event"]?.stringValue == "update")
        }
    }

    @Test("A broadcast whose outcome never comes holds no newer one back after its expiry") func lostOutcome() async throws {
        try await Self.run { running, shop, _, signal in
            let lost = try await Self.send(Self.state(1), by: shop)
            #expect(try await Self.next(signal).notification == lost)
            #expect(try await shop.delete("/v1/apps/shop/channels/game").code == "channel_in_use")
            try await running.execute("UPDATE notifications SET expires_at = now() - interval '1 second' WHERE id = \(lost)")
            let next = try await Self.send(Self.state(2), by: shop)
            #expect(try await Self.next(signal).notification == next)
            try await running.execute("UPDATE notifications SET expires_at = now() - interval '1 second' WHERE id = \(next)")
            #expect(try await shop.delete("/v1/apps/shop/channels/game").status == 204)
        }
    }

    @Test("The fallback passes by activities that are over: by an end of the channel, or after eight hours") func overActivities()
        async throws
    {
        try await Self.run { running, shop, _, signal in
            for number in 1...3 {
                try await shop.register(installation(number), user: "user\(number)", token: token(number))
                let reported = try await shop.put(
                    "/v1/apps/shop/installations/\(installation(number))/activities/watch-\(number)",
                    #"{"token":"\#(token(100 + number))","channel":"game"}"#)
                #expect(reported.status == 200)
            }
            try await running.execute("UPDATE activities SET started_at = now() - interval '9 hours' WHERE id = 'watch-1'")
            try await running.jobs(.soon) { soon in
                func tokens(of body: String, jobs: Int) async throws -> Set<String> {
                    try await Self.send(body, by: shop)
                    var found: Set<String> = []
                    for _ in 1...jobs {
                        let job = try await Self.next(soon)
                        if !job.isBroadcast { found.formUnion(job.deliveries.map(\.token.hex)) }
                        try await running.report(.accepted, of: job, status: 200)
                    }
                    return found
                }
                let withFallback = #","fallback":"activities""#
                #expect(try await tokens(of: Self.state(1, event: "end", more: withFallback), jobs: 2) == [token(102), token(103)])
                try await running.execute("UPDATE activities SET started_at = now() WHERE id = 'watch-3'")
                #expect(try await tokens(of: Self.state(2, more: withFallback), jobs: 2) == [token(103)])
            }
        }
    }

    @Test("If Apple does not have the channel any more, it is lost, and takes no broadcast") func lostChannel() async throws {
        try await Self.run { running, shop, _, signal in
            let key = ["idempotency-key": "one"]
            let sent = try await shop.post(Self.path, Self.state(1), headers: key)
            let job = try await Self.next(signal)
            try await running.report(.rejected, of: job, status: 400, reason: "ChannelNotRegistered")
            _ = try await running.completed(job.notification, shop)
            _ = try await eventually { () -> Bool? in
                try await shop.get("/v1/apps/shop/channels/game").json.text("state") == "lost" ? true : nil
            }
            #expect(try await shop.post(Self.path, Self.state(2)).code == "channel_not_open")
            #expect(try await shop.post(Self.path, Self.state(1), headers: key).bytes == sent.bytes, "a repeat has the first answer")
            #expect(try await shop.post("/v1/apps/shop/channels/other/broadcasts", Self.state(2)).status == 404)
        }
    }

    @Test("A left-over job of the fallback goes only to devices whose user still has the activity") func leftOverFallback() async throws {
        try await Self.run { running, shop, _, _ in
            for number in 1...2 {
                try await shop.register(installation(number), user: "user\(number)", token: token(number))
                let report = #"{"token":"\#(token(100 + number))","channel":"game"}"#
                let path = "/v1/apps/shop/installations/\(installation(number))/activities/watch-\(number)"
                #expect(try await shop.put(path, report).status == 200)
            }
            try await running.jobs(.soon) { soon in
                try await Self.send(Self.state(1, more: #","fallback":"activities""#), by: shop)
                for count in [1, 2] { #expect(try await Self.next(soon).deliveries.count == count) }
                _ = try await eventually { () -> Bool? in
                    try await running.count("SELECT count(*) FROM jobs WHERE published_at IS NOT NULL AND lane = 'soon'") == 2 ? true : nil
                }
                // As if the token had not been retired yet.
                try await running.execute("UPDATE installations SET owner = 'eve', owner_epoch = owner_epoch + 1 WHERE owner = 'user2'")
                try await running.execute("UPDATE jobs SET published_at = NULL, free_from = now() WHERE number = 1 AND lane = 'soon'")
                #expect(try await Self.next(soon).deliveries.map(\.token.hex) == [token(101)])
            }
        }
    }

    @Test("A replay sends no broadcast again, to the channel or to a device") func replay() async throws {
        try await Self.run { running, shop, _, _ in
            try await shop.register(installation(1), user: "ada", token: token(1))
            let report = #"{"token":"\#(token(2))","channel":"game"}"#
            #expect(try await shop.put("/v1/apps/shop/installations/\(installation(1))/activities/watch", report).status == 200)
            try await running.jobs(.soon) { soon in
                try await Self.send(Self.state(1, more: #","fallback":"activities""#), by: shop)
                for _ in 1...2 { try await DeadLetterTests.giveUp(try await Self.next(soon), running) }
                let replayed = try await DeadLetterTests.replay(running)["deliveries"]
                #expect(replayed?.number("cancelled") == 2 && replayed?.number("sent") == 0)
            }
        }
    }

    /// The relay finds the channel anew: the process that made the job has died.
    @Test("A job that is left over goes to the channel, or ends if the channel is not open any more", arguments: [true, false])
    func leftOver(isOpen: Bool) async throws {
        try await Self.run(storage: "latest") { running, shop, channel, signal in
            let began = UnixClock.now() / 1000
            let id = try await Self.send(Self.state(1), by: shop)
            let first = try await Self.next(signal)
            _ = try await eventually { () -> Bool? in
                try await running.count("SELECT count(*) FROM jobs WHERE published_at IS NOT NULL") == 1 ? true : nil
            }
            if !isOpen { try await running.execute("UPDATE channels SET state = 'lost'") }
            try await running.execute("UPDATE jobs SET published_at = NULL, free_from = now()")
            if isOpen {
                let again = try await Self.next(signal)
                #expect(again.isBroadcast && again.deliveries == first.deliveries && again.topic == first.topic)
                let passed = UnixClock.now() / 1000 - began
                #expect((again.apnsExpiration ?? .max) - (first.apnsExpiration ?? 0) <= passed + 1)
            } else {
                let read = try await running.completed(id, shop).json
                #expect(read["reasons"]?[0]?.text("reason") == "channel_closed")
            }
        }
    }

    @Test("With the fallback, activities of the channel that have update tokens are updated one by one") func fallback() async throws {
        try await Self.run { running, shop, channel, signal in
            for number in 1...4 {
                try await shop.register(installation(number), user: "user\(number)", token: token(number))
                let follows = number < 4 ? #","channel":"game""# : ""
                let reported = try await shop.put(
                    "/v1/apps/shop/installations/\(installation(number))/activities/watch-\(number)",
                    #"{"token":"\#(token(100 + number))"\#(follows)}"#)
                #expect(reported.status == 200, "\(reported.json)")
            }
            #expect(try await shop.get("/v1/apps/shop/channels/game").json.number("followers") == 3)
            #expect(try await shop.get("/v1/apps/shop/activities/watch-1?user=user1").json.text("channel") == "game")
            // Another user is signed in there now: the activity is over on that device.
            try await shop.register(installation(3), user: "eve", token: token(3))
            try await running.jobs(.soon) { soon in
                let id = try await Self.send(Self.state(1, more: #","fallback":"activities""#), by: shop)
                let jobs = [try await Self.next(soon), try await Self.next(soon)]
                #expect(jobs.map(\.isBroadcast) == [true, false] && jobs.allSatisfy { $0.notification == id })
                #expect(jobs[0].deliveries.map(\.token) == [channel.asToken])
                #expect(Set(jobs[1].deliveries.map(\.token.hex)) == [token(101), token(102)])
                #expect(jobs[1].topic == "com.example.shop.push-type.liveactivity")
                #expect(jobs[0].apnsExpiration == 0 && (jobs[1].apnsExpiration ?? 0) > 0)
                for job in jobs { try await running.report(.accepted, of: job, status: 200) }
                let read = try await running.completed(id, shop).json
                #expect(read["counts"]?.number("accepted") == 3 && read["to"]?.text("kind") == "channel_and_activities")
                let why = try await shop.get("/v1/apps/shop/notifications/\(id)/why?user=user1").json
                #expect(why.text("conclusion") == "sent", "\(why)")
                #expect(try await running.count("SELECT count(*) FROM update_targets WHERE sending IS NOT NULL") == 0)
            }
        }
    }

    @Test(
        "A report keeps the token though its channel is not open: the activity follows the channel if it may be open later",
        arguments: [BroadcastChannel.State.creating, .lost, .failed])
    func channelNotOpen(state: BroadcastChannel.State) async throws {
        try await Self.run { running, shop, _, _ in
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await running.execute("UPDATE channels SET state = \(state)")
            for (activity, number, channel) in [("watch", 101, "game"), ("other", 102, "unknown")] {
                let reported = try await shop.put(
                    "/v1/apps/shop/installations/\(installation(1))/activities/\(activity)",
                    #"{"token":"\#(token(number))","channel":"\#(channel)"}"#)
                #expect(reported.status == 200, "\(reported.json)")
                let record = try await shop.get("/v1/apps/shop/activities/\(activity)?user=ada").json
                #expect(record.text("state") == "active")
                #expect(record.text("channel") == (channel == "game" && state != .failed ? "game" : nil))
            }
            try await running.execute("UPDATE channels SET state = 'open'")
            try await running.jobs(.soon) { soon in
                try await Self.send(Self.state(1, more: #","fallback":"activities""#), by: shop)
                #expect(try await Self.next(soon).isBroadcast)
                if state != .failed { #expect(try await Self.next(soon).deliveries.map(\.token.hex) == [token(101)]) }
            }
        }
    }

    @Test("An activity that starts again follows the channel that the new start names, or none") func startedAgain() async throws {
        try await Self.run { running, shop, channel, _ in
            let tokens = #"[{"token":"\#(token(1))"},{"token":"\#(token(2))","purpose":"activity_start:Match"}]"#
            #expect(
                try await shop.put("/v1/apps/shop/installations/\(installation(1))", #"{"user":"ada","tokens":\#(tokens)}"#).status == 201)
            for follows in [true, false, true] {
                let named = follows ? #","input_push_channel":"\#(channel.text)""# : ""
                let content = #"{"event":"start","attributes_type":"Match","attributes":{},"content_state":{},"alert":"Now"\#(named)}"#
                let answer = try await shop.post(
                    "/v1/apps/shop/notifications", #"{"to":{"user":"ada"},"activity":"match","content":\#(content)}"#)
                #expect(answer.status == 202, "\(answer.json)")
                #expect(try await shop.get("/v1/apps/shop/activities/match?user=ada").json.text("channel") == (follows ? "game" : nil))
                #expect(try await shop.get("/v1/apps/shop/channels/game").json.number("followers") == (follows ? 1 : 0))
                try await running.execute("UPDATE activities SET ended_at = now() WHERE id = 'match'")
            }
        }
    }

    @Test("The end of a channel's activities ends those that had started before, and a channel is kept while its broadcast is on its way")
    func end() async throws {
        try await Self.run { running, shop, _, signal in
            for number in 1...2 {
                try await shop.register(installation(number), user: "user\(number)", token: token(number))
            }
            func report(_ number: Int) async throws {
                let reported = try await shop.put(
                    "/v1/apps/shop/installations/\(installation(number))/activities/watch-\(number)",
                    #"{"token":"\#(token(100 + number))","channel":"game"}"#)
                #expect(reported.status == 200)
            }
            func state(_ number: Int) async throws -> String? {
                try await shop.get("/v1/apps/shop/activities/watch-\(number)?user=user\(number)").json.text("state")
            }
            try await report(1)
            let later = #","stale_date":"2001-01-01T00:00:00Z""#
            let stale = try await shop.post(Self.path, #"{"content":{"event":"update","content_state":{}\#(later)}}"#)
            #expect(stale.status == 202)
            #expect(try await state(1) == "stale")
            try await running.report(.accepted, of: try await Self.next(signal), status: 200)
            try await Self.send(Self.state(2, event: "end"), by: shop)
            let end = try await Self.next(signal)
            #expect(try await state(1) == "ended")
            try await report(2)
            #expect(try await state(2) == "active")
            #expect(try await shop.get("/v1/apps/shop/channels/game").json.number("followers") == 1)
            try await running.execute("UPDATE activities SET ended_at = now() WHERE id = 'watch-2'")
            #expect(try await shop.delete("/v1/apps/shop/channels/game").code == "channel_in_use")
            try await running.report(.accepted, of: end, status: 200)
            _ = try await running.completed(end.notification, shop)
            #expect(try await shop.delete("/v1/apps/shop/channels/game").status == 204)
        }
    }

    @Test(
        "A device that reports an activity after the end of its channel gets an end, and nothing brings the activity back",
        arguments: ["kept", "deleted", "made again"])
    func reportAfterEnd(fateOfChannel: String) async throws {
        try await Self.run { running, shop, _, signal in
            let tokens = #"[{"token":"\#(token(1))"},{"token":"\#(token(2))","purpose":"activity_start:Match"}]"#
            #expect(
                try await shop.put("/v1/apps/shop/installations/\(installation(1))", #"{"user":"ada","tokens":\#(tokens)}"#).status == 201)
            func report(_ activity: String, _ number: Int) async throws {
                let reported = try await shop.put(
                    "/v1/apps/shop/installations/\(installation(1))/activities/\(activity)",
                    #"{"token":"\#(token(number))","channel":"game"}"#)
                #expect(reported.status == 200)
            }
            // The start says nothing of the channel: its devices cannot follow it.
            try await ActivityLineTests.send(ActivityLineTests.start("late", type: "Match"), by: shop)
            #expect(try await Self.next(signal).deliveries.map(\.token.hex) == [token(2)])
            let update = try await ActivityLineTests.send(ActivityLineTests.change("late", 1), by: shop)
            try await report("early", 3)
            try await Self.send(Self.state(1, event: "end"), by: shop)
            let broadcast = try await Self.next(signal)
            try await running.report(.accepted, of: broadcast, status: 200)
            _ = try await running.completed(broadcast.notification, shop)
            let path = "/v1/apps/shop/channels/game"
            if fateOfChannel != "kept" {
                _ = try await eventually { try await shop.delete(path).status == 204 ? true : nil }
                if fateOfChannel == "made again" {
                    let made = #"{"environment":"production","storage":"none"}"#
                    _ = try await eventually { try await shop.put(path, made).json.text("state") == "open" ? true : nil }
                }
                let early = try await shop.get("/v1/apps/shop/activities/early?user=ada").json
                #expect(early.text("state") == "ended" && early.text("channel") == "game")
            }
            for (activity, number) in [("early", 4), ("late", 5)] {
                for _ in 1...2 { try await report(activity, number) }
                let end = try await Self.next(signal)
                #expect(end.deliveries.map(\.token.hex) == [token(number)])
                #expect(try JSONValue.parse(end.payload)["aps"]?["event"]?.stringValue == "end")
                #expect(try await shop.get("/v1/apps/shop/activities/\(activity)?user=ada").json.text("state") == "ended")
                let more = try await ActivityLineTests.send(ActivityLineTests.change(activity, 2), by: shop)
                #expect(try await ActivityLineTests.state(more, shop) == "no_targets")
            }
            // Fan-out looks at the update again.
            try await running.execute("UPDATE fan_outs SET free_from = now(), due_at = now() WHERE notification = \(update)")
            _ = try await eventually { () -> Bool? in try await ActivityLineTests.state(update, shop) == "cancelled" ? true : nil }
            guard fateOfChannel != "deleted" else { return }
            #expect(try await shop.get(path).json.number("followers") == 0)
            #expect(try await shop.delete(path).status == 204)
        }
    }

    @Test("A body that a channel cannot take is refused with the place of the fault") func badInput() async throws {
        try await Self.run { running, shop, _, _ in
            let large = String(repeating: "x", count: 4500)
            for (body, problems) in [
                (#"{"content":{"alert":"Goal"}}"#, ["/content/event unsupported_value"]),
                (#"{"payload":{"aps":{"event":"start","timestamp":1,"content-state":{}}},"push_type":"liveactivity"}"#, nil),
                (Self.state(1, more: #","to":{"user":"ada"}"#), ["/to unknown_field"]),
                (Self.state(1, more: #","collapse_id":"a","not_before":"2099-01-01T00:00:00Z""#), nil),
                (Self.state(1, more: #","priority":1"#), ["/priority unsupported_value"]),
                (Self.state(1, more: #","fallback":"devices""#), nil),
                (#"{"content":{"event":"update","content_state":{"a":"\#(large)"}},"fallback":"activities"}"#, ["/content too_large"]),
            ] as [(String, [String]?)] {
                let refused = try await shop.post(Self.path, body)
                #expect(refused.status == 400, "\(body)")
                if let problems { #expect(refused.problems == problems) }
            }
            #expect(try await shop.post(Self.path, #"{"content":{"event":"update","content_state":{"a":"\#(large)"}}}"#).status == 202)
            let asToken = try await shop.put(
                "/v1/apps/shop/installations/\(installation(1))",
                #"{"user":"ada","tokens":[{"token":"\#(token(1))","purpose":"channel:game"}]}"#)
            #expect(asToken.status == 400)
        }
    }
}
