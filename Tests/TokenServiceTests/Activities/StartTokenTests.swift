import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenServiceRegistry
@testable import TokenServiceUpkeep

/// Rule 11 of `docs/registration.md`. Over HTTP, with the database and the broker; the dispatcher is played.
@Suite("A start token is doubtful when several starts to it bring no report of an activity", .serialized, .timeLimit(.minutes(5)))
struct StartTokenTests {
    private static let phone = "/v1/apps/shop/installations/\(installation(1))"

    /// A phone with a start token of the type `Ride`, which reported an activity nine hours ago.
    private static func withSilentPhone(_ body: @Sendable (RunningService, APITestClient) async throws -> Void) async throws {
        try await ActivityLineTests.withPhone { running, shop in
            let report = #"{"token":"\#(token(3))","attributes_type":"Ride"}"#
            #expect(try await shop.put(ActivityLineTests.path + "/first", report).status == 200)
            try await Self.age(running)
            try await body(running, shop)
        }
    }

    private static func age(_ running: RunningService) async throws {
        try await running.execute(
            "UPDATE tokens SET registered_at = registered_at - interval '10 hours', silent_since = silent_since - interval '9 hours'")
    }

    /// Starts a ride, and reports that APNs accepted it so many hours ago.
    /// - Returns: whether it reached the phone's start token.
    private static func start(
        _ id: String, _ hoursAgo: Int64, _ running: RunningService, _ shop: APITestClient, more: String = ""
    ) async throws -> Bool {
        try await running.jobs { signal in
            let body = ActivityLineTests.start(id).replacing(#""content_state":{}"#, with: #""content_state":{}\#(more)"#)
            let notification = try await ActivityLineTests.send(body, by: shop)
            guard try await ActivityLineTests.state(notification, shop) != "no_targets" else { return false }
            let job = try PushJob(decoding: try await signal.next().body)
            try await running.report(.accepted, of: job, status: 200, sentAt: UnixClock.now() - hoursAgo * 3_600_000)
            _ = try await running.completed(job.notification, shop)
            return true
        }
    }

    /// Four starts, two hours apart.
    private static func doubt(_ running: RunningService, _ shop: APITestClient, name: String = "ride") async throws {
        for (number, hours) in [8, 6, 4, 2].enumerated() {
            #expect(try await start("\(name)-\(number)", Int64(hours), running, shop))
        }
        #expect(try await state(shop) == "doubtful")
    }

    /// Of the newest start token.
    private static func state(_ shop: APITestClient) async throws -> String? {
        let tokens = try await shop.record(installation(1))["tokens"]?.arrayValue ?? []
        return tokens.first { $0.text("purpose") == "activity_start:Ride" }?.text("state")
    }

    @Test("With the fourth silent start the token is doubtful: no start goes to it, and its registration ends that") func silentStarts()
        async throws
    {
        try await Self.withSilentPhone { running, shop in
            for (number, hours) in [8, 6, 4, 4].enumerated() {
                #expect(try await Self.start("ride-\(number)", Int64(hours), running, shop))
                #expect(try await Self.state(shop) == "active", "\(number): the fourth is sent within an hour of the third")
            }
            #expect(try await Self.start("ride-4", 2, running, shop))
            #expect(try await Self.state(shop) == "doubtful")
            try await running.counted("tokens_doubtful_total", 1)
            let queue = try #require(try await running.history(installation(1), ["token_doubtful"]).first)
            #expect(queue.token == "\(hint(2)) production activity_start:Ride")

            let left = try await ActivityLineTests.send(ActivityLineTests.start("ride-5"), by: shop)
            #expect(try await ActivityLineTests.state(left, shop) == "no_targets")
            let why = try await shop.get("/v1/apps/shop/notifications/\(left)/why?user=ada").json
            let step = try #require(why["steps"]?.arrayValue?.first { $0.text("what") == "token_doubtful" }, "\(why)")
            #expect(step["detail"]?.text("hint") == hint(2) && why.text("conclusion") == "not_sent")
            let due = RFC3339.text(milliseconds: UnixClock.now() + 600_000)
            let later = try await ActivityLineTests.send(
                ActivityLineTests.start("later").replacing(#"{"to":"#, with: #"{"not_before":"\#(due)","to":"#), by: shop)
            let waiting = try await shop.get("/v1/apps/shop/notifications/\(later)/why?user=ada").json
            #expect(waiting["steps"]?.arrayValue?.contains { $0.text("what") == "not_reached_yet" } == true, "\(waiting)")
            #expect(waiting.text("conclusion") != "not_sent")
            let validated = try await shop.post("/v1/apps/shop/notifications/validate", ActivityLineTests.start("ride-6")).json
            #expect(validated["audience"]?["reasons"]?[0]?.text("reason") == "token_doubtful", "\(validated)")
            #expect(try await running.sendAndTake(#"{"user":"ada"}"#, with: shop).deliveries.map(\.token.hex) == [token(1)])
            let exported = try await shop.export().lines.first { $0.text("id") == installation(1).description }
            #expect(exported?["tokens"]?.arrayValue?.contains { $0.text("token") == token(2) } == true, "\(String(describing: exported))")

            // Another token, and the same one.
            let others = #"{"user":"ada","tokens":[{"token":"\#(token(1))"}]}"#
            #expect(try await shop.put(Self.phone, others).status == 200)
            #expect(try await Self.state(shop) == "doubtful", "it names no start token")
            let named = #"{"user":"ada","tokens":[{"token":"\#(token(1))"},{"token":"\#(token(2))","purpose":"activity_start:Ride"}]}"#
            #expect(try await shop.put(Self.phone, named).status == 200)
            #expect(try await Self.state(shop) == "active")
            // What ended the doubt left no record.
            let after = try await shop.get("/v1/apps/shop/notifications/\(left)/why?user=ada").json
            #expect(after.text("conclusion") == "not_recorded", "\(after)")
            try await Self.age(running)
            try await Self.doubt(running, shop, name: "again")
        }
    }

    @Test("A report of an activity of the type ends the doubt, and the count begins anew") func reported() async throws {
        try await Self.withSilentPhone { running, shop in
            try await Self.doubt(running, shop)
            let other = #"{"token":"\#(token(4))","attributes_type":"Match"}"#
            #expect(try await shop.put(ActivityLineTests.path + "/match", other).status == 200)
            #expect(try await Self.state(shop) == "doubtful", "an activity of another type")
            let late = #"{"token":"\#(token(5))","attributes_type":"Ride"}"#
            #expect(try await shop.put(ActivityLineTests.path + "/ride-1", late).status == 200)
            #expect(try await Self.state(shop) == "active")
            // Starts that were sent before the report do not count.
            for number in 10...14 { #expect(try await Self.start("ride-\(number)", 0, running, shop)) }
            #expect(try await Self.state(shop) == "active")
            #expect(try await running.count("SELECT count(*) FROM tokens WHERE silent_starts > 0") == 0)
        }
    }

    @Test("A day later one start goes to a doubtful token, and makes it doubtful again if it brings no report") func dailyProbe()
        async throws
    {
        try await Self.withSilentPhone { running, shop in
            try await Self.doubt(running, shop)
            func probe() async throws -> Retention.Step {
                try await running.pool.session { session in try Retention(session: session).probeDoubtfulTokens() }
            }
            let early = try await probe()
            #expect(early.removed == 0 && early.isDone)
            try await running.execute("UPDATE tokens SET silent_since = silent_since - interval '1 day' WHERE state = 'doubtful'")
            let late = try await probe()
            #expect(late.removed == 1 && late.isDone)
            #expect(try await Self.state(shop) == "active")
            try await Self.addTablet(shop)
            let isProbed = try await Self.start("probe", 0, running, shop)
            #expect(isProbed)
            #expect(try await Self.state(shop) == "doubtful")
            let shown = try await Self.stateAfterTablet("probe", shop)
            #expect(shown == "active", "the phone may have got this one")
            let again = try await probe()
            #expect(again.removed == 0)
        }
    }

    @Test("The start that makes a phone's token doubtful may be shown there: its activity goes on when the tablet is done with it")
    func doubtWhileShown() async throws {
        try await Self.withSilentPhone { running, shop in
            for (number, hours) in [8, 6, 4].enumerated() { #expect(try await Self.start("ride-\(number)", Int64(hours), running, shop)) }
            try await Self.addTablet(shop)
            #expect(try await Self.start("ride", 0, running, shop))
            #expect(try await Self.state(shop) == "doubtful")
            #expect(try await Self.stateAfterTablet("ride", shop) == "active")
            try await running.jobs { signal in
                #expect(try await shop.put(ActivityLineTests.path + "/ride", #"{"token":"\#(token(9))"}"#).status == 200)
                try await ActivityLineTests.send(ActivityLineTests.change("ride", 7), by: shop)
                let first = try PushJob(decoding: try await signal.next().body)
                #expect(first.deliveries.map(\.token.hex) == [token(9)])
                #expect(try JSONValue.parse(first.payload)["aps"]?.text("event") == "update")
            }
        }
    }

    @Test("A start does not go to a token that is doubtful already: its activity is over when the tablet is done with it, or signs out")
    func doubtBeforeStart() async throws {
        try await Self.withSilentPhone { running, shop in
            try await Self.doubt(running, shop)
            try await running.execute("UPDATE tokens SET silent_since = silent_since - interval '9 hours' WHERE state = 'doubtful'")
            try await Self.addTablet(shop)
            for id in ["one", "two"] { #expect(try await Self.start(id, 0, running, shop)) }
            #expect(try await Self.stateAfterTablet("one", shop) == "ended")
            #expect(try await shop.post(Self.tablet + "/logout", "{}").status == 200)
            #expect(try await shop.get("/v1/apps/shop/activities/two?user=ada").json.text("state") == "ended")
        }
    }

    private static let tablet = "/v1/apps/shop/installations/\(installation(2))"

    private static func addTablet(_ shop: APITestClient) async throws {
        let tokens = #"[{"token":"\#(token(7))","purpose":"activity_start:Ride"}]"#
        #expect(try await shop.put(tablet, #"{"user":"ada","tokens":\#(tokens)}"#).status == 201)
    }

    /// The tablet shows the activity, and its person dismisses it.
    private static func stateAfterTablet(_ id: String, _ shop: APITestClient) async throws -> String? {
        let path = tablet + "/activities/" + id
        #expect(try await shop.put(path, #"{"token":"\#(token(8))","attributes_type":"Ride"}"#).status == 200)
        #expect(try await shop.delete(path).status == 204)
        return try await shop.get("/v1/apps/shop/activities/\(id)?user=ada").json.text("state")
    }

    @Test("A new start token takes a doubtful one's place, and goes on with what is known of the device") func newToken() async throws {
        try await Self.withSilentPhone { running, shop in
            try await Self.doubt(running, shop)
            let named = #"{"user":"ada","tokens":[{"token":"\#(token(1))"},{"token":"\#(token(6))","purpose":"activity_start:Ride"}]}"#
            #expect(try await shop.put(Self.phone, named).status == 200)
            let states = try await shop.record(installation(1)).tokenStates
            #expect(states.contains("\(hint(6)) active") && states.contains("\(hint(2)) retired replaced"))
            #expect(try await running.count("SELECT count(*) FROM tokens WHERE state = 'active' AND silent_since IS NOT NULL") == 1)
            #expect(try await Self.start("next", 0, running, shop))
        }
    }

    @Test("Starts of an app that reports no activity, and starts that follow a channel, make no token doubtful") func silentApps()
        async throws
    {
        try await ActivityLineTests.withPhone { running, shop in
            try await Self.age(running)
            for (number, hours) in [9, 7, 5, 3, 1].enumerated() {
                #expect(try await Self.start("ride-\(number)", Int64(hours), running, shop))
            }
            #expect(try await Self.state(shop) == "active")
        }
        try await Self.withSilentPhone { running, shop in
            let channel = #","input_push_channel":"dHN0LXNyY2gtY2hubA==""#
            for (number, hours) in [9, 7, 5, 3, 1].enumerated() {
                // Beside the content's state.
                let reached = try await Self.start("match-\(number)", Int64(hours), running, shop, more: channel)
                #expect(reached)
            }
            let state = try await Self.state(shop)
            #expect(state == "active")
        }
    }

    @Test("Starts count if they are sent an hour apart, after the last report and the last registration") func counting() throws {
        let value = try #require(DeviceToken(hex: token(1)))
        let hour = TokenState.Starts.fairTime
        func held(_ purpose: Purpose, since: Int64?, registeredAt: Int64 = 0) -> TokenState {
            TokenState(
                id: 1, app: 1, named: RegisteredToken(token: value, environment: .production, purpose: purpose),
                installation: installation(1), registeredAt: registeredAt, starts: .init(since: since))
        }
        func doubtful(_ token: TokenState, _ sentAt: [Int64], now: Int64 = Int64.max / 2) -> [Bool] {
            var batch = RegistryBatch(installations: [], tokens: [token], now: now)
            return sentAt.map { batch.apply(toToken: .countStart(token: 1, sentAt: $0)).tokens == 1 }
        }
        let ride = Purpose.activityStart(type: "Ride")
        #expect(doubtful(held(ride, since: 0), [1, 2, 3, 4].map { $0 * hour }) == [false, false, false, true])
        #expect(doubtful(held(ride, since: 0), [1, 2, 3, 4, 5].map { $0 * hour })[4] == false, "it is doubtful already")
        #expect(!doubtful(held(ride, since: 0), (1...9).map { $0 * hour / 2 }).prefix(7).contains(true), "every second one counts")
        #expect(!doubtful(held(ride, since: nil), (1...9).map { $0 * hour }).contains(true))
        #expect(!doubtful(held(ride, since: 0, registeredAt: 3 * hour), (1...5).map { $0 * hour }).contains(true))
        #expect(!doubtful(held(ride, since: 0), (1...9).map { $0 * hour }, now: 2 * hour).contains(true), "a clock that is ahead")
        #expect(!doubtful(held(.alert, since: 0), (1...9).map { $0 * hour }).contains(true))
    }

    @Test("A doubtful token keeps its place when another one of the device is corrected to its environment") func correctedBeside()
        async throws
    {
        try await ActivityLineTests.withPhone { running, shop in
            let sandbox = #"{"token":"\#(token(6))","purpose":"activity_start:Ride","environment":"sandbox"}"#
            let named = #"[{"token":"\#(token(1))"},{"token":"\#(token(2))","purpose":"activity_start:Ride"},\#(sandbox)]"#
            #expect(try await shop.put(Self.phone, #"{"user":"ada","tokens":\#(named)}"#).status == 200)
            try await running.execute("UPDATE tokens SET state = 'doubtful' WHERE environment = 'sandbox'")
            try await running.jobs { signal in
                let start = try await ActivityLineTests.send(ActivityLineTests.start("ride"), by: shop)
                let job = try PushJob(decoding: try await signal.next().body)
                #expect(job.deliveries.map(\.token.hex) == [token(2)])
                try await running.report(.accepted, of: job, status: 200, attempt: 2, environment: .sandbox)
                _ = try await running.completed(start, shop)
            }
            let states = try await shop.record(installation(1)).tokenStates
            #expect(states.contains("\(hint(6)) doubtful") && states.contains("\(hint(2)) retired replaced"), "\(states)")
        }
    }

    @Test("A replay goes to a doubtful token: it is not over") func replayed() async throws {
        try await ActivityLineTests.withPhone { running, shop in
            try await running.jobs { signal in
                try await ActivityLineTests.send(ActivityLineTests.start("ride"), by: shop)
                try await DeadLetterTests.giveUp(try PushJob(decoding: try await signal.next().body), running)
                try await running.execute("UPDATE tokens SET state = 'doubtful' WHERE purpose LIKE 'activity_start:%'")
                #expect(try await DeadLetterTests.replay(running)["deliveries"]?.number("sent") == 1)
                #expect(try PushJob(decoding: try await signal.next().body).deliveries.map(\.token.hex) == [token(2)])
            }
        }
    }

    // MARK: Locks

    @Test("A report writes the start token that it answers in one order with the update token, as APNs' answers lock them")
    func lockOrder() async throws {
        try await ActivityLineTests.withPhone { running, shop in
            let (path, report) = (ActivityLineTests.path + "/ride", #"{"token":"\#(token(3))","attributes_type":"Ride"}"#)
            #expect(try await shop.put(path, report).status == 200)
            let again = try await running.holding("SELECT FROM tokens WHERE purpose = 'activity_start:Ride' FOR NO KEY UPDATE") {
                let again = Task { try await shop.put(path, report).status }
                try await running.waits("MERGE INTO tokens")
                let free: PostgresQuery = """
                    SELECT count(*) FROM (SELECT FROM tokens WHERE purpose = 'activity:ride' FOR NO KEY UPDATE SKIP LOCKED) AS free
                    """
                let count = try await running.count(free)
                #expect(count == 1, "it comes after the start token")
                return again
            }
            let status = try await again.value
            #expect(status == 200)
        }
    }

    @Test("An accepted start that does not count waits for no lock of its token") func uncountedStart() async throws {
        try await ActivityLineTests.withPhone { running, shop in
            // APNs' first acceptance is noted at the token.
            #expect(try await Self.start("first", 0, running, shop))
            let report = #"{"token":"\#(token(3))","attributes_type":"Ride"}"#
            #expect(try await shop.put(ActivityLineTests.path + "/first", report).status == 200)
            try await running.holding("SELECT FROM tokens WHERE purpose = 'activity_start:Ride' FOR NO KEY UPDATE") {
                let hasReached = try await Self.start("second", 0, running, shop)
                #expect(hasReached)
            }
        }
    }

    // MARK: What APNs and the app say of an activity

    @Test("A late report of an activity that is over touches nothing of the next one") func lateReport() async throws {
        try await ActivityLineTests.withPhone { running, shop in
            let path = ActivityLineTests.path
            #expect(try await shop.put(path + "/old", #"{"token":"\#(token(3))"}"#).status == 200)
            try await running.jobs { signal in
                let end = try await ActivityLineTests.send(ActivityLineTests.change("old", 0, event: "end"), by: shop)
                try await running.report(.accepted, of: try PushJob(decoding: try await signal.next().body), status: 200)
                _ = try await running.completed(end, shop)
                #expect(try await shop.put(path + "/new", #"{"token":"\#(token(4))"}"#).status == 200)
                let before = try await shop.record(installation(1)).tokenStates
                // The app takes the new activity's token for the old one's.
                let mixed = try await shop.put(path + "/old", #"{"token":"\#(token(4))"}"#)
                #expect(mixed.status == 410 && mixed.code == "activity_over")
                #expect(try await shop.record(installation(1)).tokenStates == before)
                // The same in a registration, which is not refused. An end would go to the new one's token first.
                let own = #"{"token":"\#(token(1))"},{"token":"\#(token(2))","purpose":"activity_start:Ride"}"#
                let both = ["new", "old"].map { #"{"token":"\#(token(4))","purpose":"activity:\#($0)"}"# }.joined(separator: ",")
                #expect(try await shop.put(Self.phone, #"{"user":"ada","tokens":[\#(own),\#(both)]}"#).status == 200)
                // iOS had given the old one another token: the end goes there.
                #expect(try await shop.put(path + "/old", #"{"token":"\#(token(5))"}"#).status == 200)
                let again = try PushJob(decoding: try await signal.next().body)
                #expect(again.deliveries.map(\.token.hex) == [token(5)])
                #expect(try JSONValue.parse(again.payload)["aps"]?.text("event") == "end")
                #expect(try await shop.get("/v1/apps/shop/activities/new?user=ada").json.text("state") == "active")
                try await ActivityLineTests.send(ActivityLineTests.change("new", 1), by: shop)
                #expect(try PushJob(decoding: try await signal.next().body).deliveries.map(\.token.hex) == [token(4)])
            }
        }
    }

    @Test("At its next launch an app says that activities are over that ended while it was dead: active ones, and starting ones")
    func endsAtNextLaunch() async throws {
        try await ActivityLineTests.withPhone { running, shop in
            let path = ActivityLineTests.path
            func state(_ id: String) async throws -> String? {
                try await shop.get("/v1/apps/shop/activities/\(id)?user=ada").json.text("state")
            }
            #expect(try await shop.put(path + "/active", #"{"token":"\#(token(3))"}"#).status == 200)
            try await ActivityLineTests.send(ActivityLineTests.start("starting"), by: shop)
            for id in ["active", "starting"] {
                #expect(try await state(id) == id)
                #expect(try await shop.delete(path + "/\(id)").status == 204)
                #expect(try await state(id) == "ended", "\(id)")
            }
            #expect(try await shop.record(installation(1)).tokenStates.contains("\(hint(3)) retired removed"))
            let update = try await ActivityLineTests.send(ActivityLineTests.change("starting", 1), by: shop)
            #expect(try await ActivityLineTests.state(update, shop) == "no_targets")

            let tablet = #"{"user":"ada","tokens":[{"token":"\#(token(7))","purpose":"activity_start:Ride"}]}"#
            #expect(try await shop.put("/v1/apps/shop/installations/\(installation(2))", tablet).status == 201)
            try await ActivityLineTests.send(ActivityLineTests.start("both"), by: shop)
            #expect(try await shop.delete(path + "/both").status == 204)
            #expect(try await state("both") == "starting", "the other device may have got the start")
        }
    }

    @Test("A late word that an activity is over does not end the next one of the same id") func lateEnd() async throws {
        try await ActivityLineTests.withPhone { running, shop in
            let path = ActivityLineTests.path + "/ride"
            @Sendable func state() async throws -> String? {
                try await shop.get("/v1/apps/shop/activities/ride?user=ada").json.text("state")
            }
            #expect(try await shop.put(path, #"{"token":"\#(token(3))"}"#).status == 200)
            try await running.jobs { signal in
                let end = try await ActivityLineTests.send(ActivityLineTests.change("ride", 0, event: "end"), by: shop)
                try await running.report(.accepted, of: try PushJob(decoding: try await signal.next().body), status: 200)
                _ = try await running.completed(end, shop)
                try await ActivityLineTests.send(ActivityLineTests.start("ride"), by: shop)
                #expect(try PushJob(decoding: try await signal.next().body).deliveries.map(\.token.hex) == [token(2)])
                // The first retires the earlier token. It comes again after an answer that was lost.
                for _ in 1...2 {
                    #expect(try await shop.delete(path).status == 204)
                    let after = try await state()
                    #expect(after == "starting")
                }
                #expect(try await shop.put(path, #"{"token":"\#(token(4))"}"#).status == 200)
                let reported = try await state()
                #expect(reported == "active")
                // An end would go to the new token first.
                try await ActivityLineTests.send(ActivityLineTests.change("ride", 7), by: shop)
                let update = try PushJob(decoding: try await signal.next().body)
                #expect(update.deliveries.map(\.token.hex) == [token(4)])
                #expect(try ActivityLineTests.eta(update) == 7)
                #expect(try await shop.delete(path).status == 204)
                let ended = try await state()
                #expect(ended == "ended", "it has reported this one")
            }
        }
    }

    @Test("Before a start is due, no device's word ends its activity") func endBeforeStart() async throws {
        try await ActivityLineTests.withPhone { running, shop in
            let due = RFC3339.text(milliseconds: UnixClock.now() + 600_000)
            let start = ActivityLineTests.start("ride").replacing(#"{"to":"#, with: #"{"not_before":"\#(due)","to":"#)
            try await ActivityLineTests.send(start, by: shop)
            #expect(try await shop.delete(ActivityLineTests.path + "/ride").status == 204)
            #expect(try await shop.get("/v1/apps/shop/activities/ride?user=ada").json.text("state") == "starting")
        }
    }

    @Test("A 410 to an update token or a start token retires that one alone, and its event names the activity or the type") func gone()
        async throws
    {
        try await ActivityLineTests.withPhone { running, shop in
            try await EventStreamTests.stream(#""installations""#, running)
            #expect(try await shop.put(ActivityLineTests.path + "/ride", #"{"token":"\#(token(3))"}"#).status == 200)
            try await EventStreamTests.listen("shop.token.retired", running) { events in
                try await running.jobs { signal in
                    /// Sends it, answers 410, and returns the token of the event.
                    func retired(_ body: String) async throws -> JSONValue? {
                        try await ActivityLineTests.send(body, by: shop)
                        let job = try PushJob(decoding: try await signal.next().body)
                        try await running.report(
                            .tokenGone, of: job, status: 410, reason: "ExpiredToken", timestamp: UnixClock.now() + 60_000)
                        _ = try await running.completed(job.notification, shop)
                        let event = try JSONValue.parse(try await events.next().body)["data"]
                        #expect(event?.number("status") == 410 && event?.text("installation") == installation(1).description)
                        return event?["token"]
                    }
                    #expect(try await retired(ActivityLineTests.change("ride", 1))?.text("purpose") == "activity:ride")
                    let left = try await shop.record(installation(1)).tokenStates
                    #expect(left.filter { $0.hasSuffix(" active") }.sorted() == ["\(hint(1)) active", "\(hint(2)) active"].sorted())
                    // What the backend does then.
                    #expect(try await retired(ActivityLineTests.start("ride-2"))?.text("purpose") == "activity_start:Ride")
                    let rest = try await shop.record(installation(1)).tokenStates
                    #expect(rest.filter { $0.hasSuffix(" active") } == ["\(hint(1)) active"])
                }
            }
        }
    }
}
