import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenServiceRegistry

/// Whose an activity is, and on which devices it shows.
extension ActivityLineTests {
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
                #expect(try await shop.get("/v1/apps/shop/activities/ride?user=ada").json.text("state") == "active", "on another device")
                #expect(try await shop.get("/v1/apps/shop/activities/pass?user=ada").json.text("state") == "ended")
                // The next user's app has one of the same name.
                try await shop.register(installation(1), user: "eve", token: token(1))
                for _ in 1...2 { _ = try await signal.next() }
                #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(6))"}"#).status == 200)
                for user in ["ada", "eve"] {
                    #expect(try await shop.get("/v1/apps/shop/activities/ride?user=\(user)").json.text("state") == "active")
                }
            }
        }
    }

    @Test("The end at a sign-out is newer than the newest state, or the device ignores it") func endIsNewest() async throws {
        try await Self.withPhone { running, shop in
            #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(3))"}"#).status == 200)
            try await running.jobs { signal in
                try await Self.send(
                    #"""
                    {"to":{"user":"ada","activity":"ride"},"payload":{"aps":{"event":"update","timestamp":4070908800,"content-state":{}}}}
                    """#,
                    by: shop)
                _ = try await signal.next()
                #expect(try await shop.post("/v1/apps/shop/installations/\(installation(1))/logout", "{}").status == 200)
                let aps = try JSONValue.parse(try PushJob(decoding: try await signal.next().body).payload)["aps"]
                #expect(aps?["event"]?.stringValue == "end" && aps?["timestamp"]?.integerValue ?? 0 > 4_070_908_800)
                #expect(aps?["dismissal-date"]?.integerValue ?? .max <= UnixClock.now() / 1000)
            }
        }
    }

    @Test("A start to an installation makes an activity of the user who is signed in there") func startOnInstallation() async throws {
        try await Self.withPhone { running, shop in
            let content = #"{"event":"start","attributes_type":"Ride","attributes":{},"content_state":{},"alert":"Now"}"#
            try await Self.send(
                #"{"to":{"installation":"\#(installation(1))"},"activity":"ride","content":\#(content)}"#, by: shop)
            #expect(try await shop.get("/v1/apps/shop/activities/ride?user=ada").json.text("user") == "ada")
            #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(3))"}"#).status == 200)
            #expect(try await shop.get("/v1/apps/shop/activities/ride?user=ada").json.text("state") == "active")
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
            func state(_ id: String) async throws -> String? {
                try await shop.get("/v1/apps/shop/activities/\(id)?user=ada").json.text("state")
            }
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

    @Test("An activity that its user's only device got and never reported ends when the user signs out there, and can be started again")
    func unreportedOnlyDevice() async throws {
        try await Self.withPhone { running, shop in
            try await running.jobs { signal in
                func state(_ id: String) async throws -> String? {
                    try await shop.get("/v1/apps/shop/activities/\(id)?user=ada").json.text("state")
                }
                try await Self.send(Self.start("ride"), by: shop)
                #expect(try PushJob(decoding: try await signal.next().body).deliveries.map(\.token.hex) == [token(2)])
                // Not due yet.
                let later = RFC3339.text(milliseconds: UnixClock.now() + 3_600_000)
                let scheduled = Self.start("trip").replacing(#"{"to""#, with: #"{"not_before":"\#(later)","to""#)
                try await Self.send(scheduled, by: shop)
                #expect(try await shop.post("/v1/apps/shop/installations/\(installation(1))/logout").status == 200)
                #expect(try await state("ride") == "ended")
                #expect(try await state("trip") == "starting")
                let tokens = #"[{"token":"\#(token(1))"},{"token":"\#(token(2))","purpose":"activity_start:Ride"}]"#
                let body = #"{"user":"ada","tokens":\#(tokens)}"#
                #expect(try await shop.put("/v1/apps/shop/installations/\(installation(1))", body).status == 200)
                let again = try await Self.send(Self.start("ride"), by: shop)
                #expect(try PushJob(decoding: try await signal.next().body).notification == again)
                #expect(try await state("ride") == "starting")
            }
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
            #expect(try await shop.get("/v1/apps/shop/activities/lonely?installation=\(installation(2))").json.text("state") == "ended")
            #expect(try await running.client.erase("ada").json["erased"]?["activities"]?.integerValue == 1)
            #expect(try await shop.get("/v1/apps/shop/activities/ride?user=ada").status == 404)
        }
    }

    @Test("If another user signs in and reports activities in one commit, those of the user before end, and those of the next go on")
    func signInAndReport() async throws {
        try await Self.withPhone { running, shop in
            for (id, number) in [("ride", 3), ("pass", 4)] {
                #expect(try await shop.put("\(Self.path)/\(id)", #"{"token":"\#(token(number))"}"#).status == 200)
            }
            // A start that the device got for her and has not reported.
            try await Self.send(Self.start("boarding"), by: shop)
            try await Self.commit(
                [
                    .report("late", token: 5), .signIn("eve"), .report("ride", token: 6), .report("trip", token: 7),
                    .report("boarding", token: 9),
                ], running)
            let ends: [String] = try await running.pool.session { session in
                try session.execute(
                    """
                    SELECT encode(t.token, 'hex') AS token
                    FROM notifications n JOIN jobs j ON j.notification = n.id CROSS JOIN LATERAL members_of(j) AS m
                    JOIN tokens t ON t.id = m.token_id WHERE n.target_installation = \(installation(1)) ORDER BY 1
                    """
                ).column("token")
            }
            // The device itself has replaced the token of the first ride.
            #expect(ends == [token(4), token(5), token(9)])
            #expect(try await shop.get("/v1/apps/shop/activities/boarding?user=eve").status == 404)
            for (id, user, state) in [
                ("ride", "ada", "ended"), ("pass", "ada", "ended"), ("late", "ada", "ended"), ("boarding", "ada", "ended"),
                ("ride", "eve", "active"),
                ("trip", "eve", "active"),
            ] {
                let found = try await shop.get("/v1/apps/shop/activities/\(id)?user=\(user)").json.text("state")
                #expect(found == state, "\(id) of \(user)")
            }
            // She leaves in the commit in which she reports one more.
            try await Self.commit([.report("last", token: 8), .signIn(nil)], running)
            for id in ["ride", "trip", "last"] {
                #expect(try await shop.get("/v1/apps/shop/activities/\(id)?user=eve").json.text("state") == "ended")
            }
        }
    }

    private enum Step {
        case signIn(String?)
        case report(String, token: Int)
    }

    /// What the phone does, in one transaction.
    private static func commit(_ steps: [Step], _ running: RunningService) async throws {
        let app = try await running.app()
        func registered(_ number: Int, _ purpose: Purpose) throws -> RegisteredToken {
            RegisteredToken(token: try #require(DeviceToken(hex: token(number))), environment: .production, purpose: purpose)
        }
        let requests = try steps.map { step -> RegistryRequest in
            switch step {
            case .signIn(let user):
                let registration = Registration(
                    installation: installation(1), user: user, tokens: [try registered(1, .alert)], profile: InstallationProfile(),
                    expectedOwner: .anyone)
                return RegistryRequest(app: app, registration)
            case .report(let id, let number):
                let report = ActivityReport(
                    installation: installation(1), id: id, token: try registered(number, .activity(id: id)), expectedOwner: .anyone)
                return RegistryRequest(app: app, report)
            }
        }
        for result in await InstallationRegistration.Transactions(pool: running.pool).commit(requests) { _ = try result.get() }
    }

    @Test("A start that a device gets for a user who has left ends there when the next user's app reports it") func lateReport()
        async throws
    {
        try await Self.withPhone { running, shop in
            try await shop.register(installation(2), user: "ada", token: token(11))
            let tablet = "/v1/apps/shop/installations/\(installation(2))/activities/ride"
            try await running.jobs { signal in
                try await Self.send(Self.start("ride"), by: shop)
                _ = try await signal.next()
                #expect(try await shop.put(tablet, #"{"token":"\#(token(5))"}"#).status == 200)
                try await shop.register(installation(1), user: "eve", token: token(1))
                #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(6))"}"#).status == 200)
                let end = try PushJob(decoding: try await signal.next().body)
                #expect(end.deliveries.map(\.token.hex) == [token(6)] && end.deliveries.map(\.ownerEpoch) == [2])
                #expect(try JSONValue.parse(end.payload)["aps"]?["event"]?.stringValue == "end")
                #expect(try await shop.get("/v1/apps/shop/activities/ride?user=eve").status == 404)
                #expect(try await shop.get("/v1/apps/shop/activities/ride?user=ada").json.text("state") == "active", "on the tablet")
            }
        }
    }

    @Test("An activity that is over ends on a device once for each of its tokens, however often the device reports it")
    func reportsAfterEnd()
        async throws
    {
        try await Self.withPhone { running, shop in
            func report(_ number: Int) async throws {
                #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(number))"}"#).status == 200)
            }
            func sent() async throws -> Int64 { try await running.count("SELECT count(*) FROM notifications") }
            try await report(3)
            try await Self.send(Self.change("ride", 1, event: "end"), by: shop)
            #expect(try await sent() == 1)
            for _ in 1...3 { try await report(3) }
            #expect(try await sent() == 1)
            for _ in 1...3 { try await report(4) }
            #expect(try await sent() == 2)
        }
    }

    @Test("A registration that lists an update token reports it: an activity that is over ends there, another one gets its newest state")
    func listedToken() async throws {
        try await Self.withPhone { running, shop in
            try await shop.register(installation(2), user: "ada", token: token(11))
            try await running.jobs { signal in
                func next(to tokens: Int...) async throws -> PushJob {
                    let job = try PushJob(decoding: try await signal.next().body)
                    #expect(Set(job.deliveries.map(\.token.hex)) == Set(tokens.map { token($0) }))
                    return job
                }
                for (id, number, event) in [("ride", 5, "end"), ("trip", 6, "update")] {
                    #expect(try await Self.report(id, token: token(number), on: 2, by: shop) == 200)
                    try await Self.send(Self.change(id, 1, event: event), by: shop)
                    let job = try await next(to: number)
                    #expect(try Self.eta(job) == 1)
                    try await running.report(.accepted, of: job, status: 200)
                    _ = try await running.completed(job.notification, shop)
                }
                func list(_ id: String, _ number: Int) async throws {
                    let tokens = #"[{"token":"\#(token(1))"},{"token":"\#(token(number))","purpose":"activity:\#(id)"}]"#
                    let body = #"{"user":"ada","tokens":\#(tokens)}"#
                    for _ in 1...2 { #expect(try await shop.put("/v1/apps/shop/installations/\(installation(1))", body).status == 200) }
                    #expect(try await Self.report(id, token: token(number), on: 1, by: shop) == 200)
                }
                try await list("ride", 3)
                let end = try await next(to: 3)
                #expect(try JSONValue.parse(end.payload)["aps"]?["event"]?.stringValue == "end")
                #expect(try Self.eta(end) == nil)
                try await list("trip", 4)
                #expect(try Self.eta(try await next(to: 6, 4)) == 1)
                try await list("own", 7)
                #expect(try await running.count("SELECT count(*) FROM notifications") == 4, "each token once")
            }
        }
    }

    @Test(
        "An activity that no device shows any more ends on a device that got its start and reports it later, also if an update waited",
        arguments: ["sign-out", "end"])
    func reportAfterReturn(reason: String) async throws {
        try await Self.withPhone { running, shop in
            try await running.jobs { signal in
                try await Self.send(Self.start("ride"), by: shop)
                _ = try await signal.next()
                let update = try await Self.send(Self.change("ride", 9), by: shop)
                if reason == "sign-out" {
                    #expect(try await shop.post("/v1/apps/shop/installations/\(installation(1))/logout").status == 200)
                    try await shop.register(installation(1), user: "ada", token: token(1))
                } else {
                    #expect(try await shop.delete(Self.path + "/ride").status == 204)
                }
                let over = try await shop.get("/v1/apps/shop/activities/ride?user=ada").json
                #expect(over.text("state") == "ended" && over["waiting"]?.boolValue == false)
                for _ in 1...2 { #expect(try await Self.report("ride", token: token(3), on: 1, by: shop) == 200) }
                let end = try PushJob(decoding: try await signal.next().body)
                #expect(end.deliveries.map(\.token.hex) == [token(3)])
                #expect(try JSONValue.parse(end.payload)["aps"]?["event"]?.stringValue == "end")
                // Fan-out looks at the update again.
                try await running.execute("UPDATE fan_outs SET free_from = now(), due_at = now() WHERE notification = \(update)")
                _ = try await eventually { () -> Bool? in try await Self.state(update, shop) == "cancelled" ? true : nil }
                #expect(try await running.count("SELECT count(*) FROM jobs WHERE notification = \(update)") == 0)
                #expect(try await running.count("SELECT count(*) FROM notifications") == 3)
            }
        }
    }

    @Test("Two users have activities of one name, and a device that knows the name reaches the other's neither before nor after it")
    func sameName() async throws {
        try await RunningService.withDevices { running, shop in
            let (mallory, ada) = (
                try await shop.device(user: "mallory", id: installation(1)), try await shop.device(user: "ada", id: installation(2))
            )
            try await mallory.register(installation(1), user: "mallory", token: token(1))
            try await ada.register(installation(2), user: "ada", token: token(2))
            @Sendable func path(_ device: Int, _ id: String) -> String {
                "/v1/apps/shop/installations/\(installation(device))/activities/\(id)"
            }
            // She knows the names that will come, and she takes them first. The second one the app of ada makes itself, the third one the
            // backend starts.
            for (number, id) in ["ride-4712", "ride-4713", "ride-4714"].enumerated() {
                #expect(try await mallory.put(path(1, id), #"{"token":"\#(token(10 + number))"}"#).status == 200)
            }
            try await running.jobs { signal in
                #expect(try await ada.put(path(2, "ride-4713"), #"{"token":"\#(token(23))"}"#).status == 200)
                let update = #""content":{"event":"update","content_state":{"eta":7}}}"#
                for (user, id, tokens) in [("ada", "ride-4713", [token(23)]), ("mallory", "ride-4713", [token(11)])] {
                    let sent = try await Self.send(#"{"to":{"user":"\#(user)","activity":"\#(id)"},\#(update)"#, by: shop)
                    let job = try PushJob(decoding: try await signal.next().body)
                    #expect(job.notification == sent && job.deliveries.map(\.token.hex) == tokens)
                }
                // The name that she holds and ada does not.
                let nowhere = try await Self.send(#"{"to":{"user":"ada","activity":"ride-4712"},\#(update)"#, by: shop)
                #expect(try await Self.state(nowhere, shop) == "no_targets")
                let read = try await shop.get("/v1/apps/shop/notifications/\(nowhere)").json["to"]
                #expect(read?.text("user") == "ada" && read?.text("activity") == "ride-4712")
                let nameless = try await shop.post("/v1/apps/shop/notifications", #"{"to":{"activity":"ride-4712"},\#(update)"#)
                #expect(nameless.status == 400 && nameless.problems == ["/to/user missing"])
                let start = #"{"event":"start","attributes_type":"Ride","attributes":{},"content_state":{},"alert":"Now"}"#
                let more = #"{"user":"ada","tokens":[{"token":"\#(token(2))"},{"token":"\#(token(9))","purpose":"activity_start:Ride"}]}"#
                #expect(try await ada.put("/v1/apps/shop/installations/\(installation(2))", more).status == 200)
                try await Self.send(#"{"to":{"user":"ada"},"activity":"ride-4714","content":\#(start)}"#, by: shop)
                #expect(try PushJob(decoding: try await signal.next().body).deliveries.map(\.token.hex) == [token(9)])
                // After it she reports the name again, says that it is over, and signs out.
                #expect(try await mallory.put(path(1, "ride-4714"), #"{"token":"\#(token(14))"}"#).status == 200)
                #expect(try await mallory.delete(path(1, "ride-4713")).status == 204)
                #expect(try await mallory.post("/v1/apps/shop/installations/\(installation(1))/logout", "{}").status == 200)
                for (id, state) in [("ride-4713", "active"), ("ride-4714", "starting")] {
                    #expect(try await shop.get("/v1/apps/shop/activities/\(id)?user=ada").json.text("state") == state)
                    #expect(try await shop.get("/v1/apps/shop/activities/\(id)?user=mallory").json.text("state") == "ended")
                }
                #expect(try await running.count("SELECT count(*) FROM notifications WHERE target_installation = \(installation(2))") == 0)
            }
            let listed = try await shop.get("/v1/apps/shop/activities").json["activities"]?.arrayValue ?? []
            #expect(
                listed.map { "\($0.text("user") ?? "") \($0.text("id") ?? "")" } == [
                    "ada ride-4713", "ada ride-4714", "mallory ride-4712", "mallory ride-4713", "mallory ride-4714",
                ])
            for query in ["", "?user=ada&installation=\(installation(2))", "?installation=x"] {
                #expect(try await shop.get("/v1/apps/shop/activities/ride-4713" + query).status == 400)
            }
        }
    }
}
