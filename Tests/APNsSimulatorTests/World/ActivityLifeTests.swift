import APNsSimulator
import StrictJSON
import Testing

@Suite("A Live Activity lives as on a phone: updates, staleness, the end, and tokens that change", .timeLimit(.minutes(5)))
struct ActivityLifeTests {
    private let phone = TestPush.token

    /// A device with one activity.
    private func withActivity(
        _ change: (inout APNsSimulatorConfiguration) throws -> Void = { _ in },
        _ body: (TestSimulator, PushClient, String) async throws -> Void
    ) async throws {
        try await withSimulator(change) { test in
            try ActivityPushes.install(test)
            let client = try test.client()
            try await body(test, client, try ActivityPushes.begin(test, client))
        }
    }

    private func eta(_ test: TestSimulator, _ id: String = "ride-1") throws -> String? {
        try ActivityPushes.activity(test, id).contentState
    }

    @Test("Two activities at once change alone")
    func two() async throws {
        try await withActivity { (test, client, first) async throws in
            let second = try ActivityPushes.begin(test, client, id: "ride-2")
            #expect(try client.send(ActivityPushes.change(test, second, eta: 2)).status == 200)
            #expect(try eta(test) == #"{"eta":5}"#)
            #expect(try eta(test, "ride-2") == #"{"eta":2}"#)
            #expect(try client.send(ActivityPushes.change(test, first, "end", eta: 0)).status == 200)
            #expect(try test.simulator.activities(phone).map(\.state) == [.ended, .active])
            #expect(try test.simulator.inbox(phone).map(\.content.activity?.contentState) == [#"{"eta":2}"#, #"{"eta":0}"#])
        }
    }

    @Test("The newest timestamp wins, and one without is the oldest of all")
    func newest() async throws {
        try await withActivity { (test, client, token) async throws in
            let now = test.clock.now / 1000
            for (timestamp, expected) in [(now + 5, ActivityResult.updated), (now + 5, .updated), (now + 4, .outdated), (0, .outdated)] {
                #expect(try client.send(ActivityPushes.change(test, token, timestamp: timestamp, eta: 1)).status == 200)
                #expect(ActivityPushes.result(test) == expected)
            }
            #expect(try client.send(ActivityPushes.change(test, token, eta: 9, ["timestamp": nil])).status == 200)
            #expect(ActivityPushes.result(test) == .outdated)
            #expect(try ActivityPushes.activity(test).timestamp == now + 5)
        }
    }

    @Test("Nothing changes an activity after its end, and a start does not reach an update token")
    func afterEnd() async throws {
        try await withActivity { (test, client, token) async throws in
            #expect(try client.send(ActivityPushes.start(test).to(token)).status == 200)
            #expect(ActivityPushes.result(test) == .notAnUpdate)
            #expect(try client.send(ActivityPushes.change(test, token, "end", eta: 0, ["content-state": nil])).status == 200)
            #expect(ActivityPushes.result(test) == .ended)
            for event in ["update", "end"] {
                #expect(try client.send(ActivityPushes.change(test, token, event, eta: 7)).status == 200)
                #expect(ActivityPushes.result(test) == .afterEnd)
            }
            // An end without a state leaves the last one on the screen.
            #expect(try eta(test) == #"{"eta":5}"#)
            #expect(try ActivityPushes.activity(test).event == .end)
        }
    }

    @Test("An activity is stale from its stale date until the next update")
    func stale() async throws {
        try await withActivity { (test, client, token) async throws in
            let moment = String(test.clock.now / 1000 + 60)
            #expect(try client.send(ActivityPushes.change(test, token, eta: 4, ["stale-date": moment])).status == 200)
            #expect(try ActivityPushes.activity(test).state == .active)
            test.clock.advance(by: .seconds(61))
            #expect(try ActivityPushes.activity(test).state == .stale)
            #expect(try client.send(ActivityPushes.change(test, token, eta: 3)).status == 200)
            #expect(try ActivityPushes.activity(test).state == .active)
        }
    }

    @Test("An ended activity leaves at its dismissal date, four hours after the end at the latest", arguments: [nil, -1, 600, 5 * 3600])
    func dismissal(_ seconds: Int64?) async throws {
        try await withActivity { (test, client, token) async throws in
            let date = seconds.map { String(test.clock.now / 1000 + $0) }
            #expect(try client.send(ActivityPushes.change(test, token, "end", eta: 0, ["dismissal-date": date])).status == 200)
            let stay = min(seconds ?? 4 * 3600, 4 * 3600)
            if stay > 0 {
                test.clock.advance(by: .seconds(stay - 1))
                #expect(try ActivityPushes.activity(test).state == .ended)
                #expect(try test.simulator.inbox(phone).count == 1)
                test.clock.advance(by: .seconds(1))
            }
            #expect(try ActivityPushes.activity(test).state == .dismissed)
            #expect(try test.simulator.inbox(phone).isEmpty)
            #expect(try test.simulator.device(phone)?.activityCount == 0)
        }
    }

    @Test("The system ends an activity eight hours after its start and removes it after twelve, whatever updates come")
    func longest() async throws {
        try await withActivity { (test, client, token) async throws in
            // A provider token and its connection are good for an hour.
            func send() throws {
                let push = try ActivityPushes.change(test, token, eta: 3).with("authorization", test.bearer())
                #expect(try test.client().send(push).status == 200)
            }
            test.clock.advance(by: .seconds(8 * 3600 - 1))
            try send()
            #expect(ActivityPushes.result(test) == .updated)
            test.clock.advance(by: .seconds(1))
            #expect(try ActivityPushes.activity(test).state == .ended)
            try send()
            #expect(ActivityPushes.result(test) == .afterEnd)
            test.clock.advance(by: .seconds(4 * 3600 - 1))
            #expect(try ActivityPushes.activity(test).state == .ended)
            #expect(try test.simulator.inbox(phone).count == 1)
            test.clock.advance(by: .seconds(1))
            #expect(try ActivityPushes.activity(test).state == .dismissed)
            #expect(try test.simulator.inbox(phone).isEmpty)
        }
    }

    @Test("A replaced update token is 410 since the replacement, and the new one goes on")
    func rotate() async throws {
        try await withActivity { (test, client, old) async throws in
            let new = try #require(try test.simulator.rotateActivity("ride-1", on: phone))
            #expect(new != old && new.count == old.count)
            let answer = try client.send(ActivityPushes.change(test, old, eta: 4))
            #expect(answer.body == #"{"reason":"Unregistered","timestamp":\#(test.clock.now)}"#)
            #expect(try client.send(ActivityPushes.change(test, new, eta: 3)).status == 200)
            #expect(try eta(test) == #"{"eta":3}"#)
            #expect(try client.send(ActivityPushes.change(test, new, "end", eta: 0)).status == 200)
            #expect(try test.simulator.rotateActivity("ride-1", on: phone) == nil)
        }
    }

    @Test("When the device's own token changes, its activities go on; when the app is reinstalled, they are gone")
    func ownToken() async throws {
        try await withActivity { (test, client, token) async throws in
            let (other, third) = (String(repeating: "ff00", count: 16), String(repeating: "ee00", count: 16))
            #expect(try test.simulator.rotate(phone, to: other))
            #expect(try client.send(ActivityPushes.change(test, token, eta: 3)).status == 200)
            #expect(try test.simulator.activities(other).map(\.contentState) == [#"{"eta":3}"#])
            #expect(try client.send(ActivityPushes.start(test, id: "ride-2")).status == 200)
            #expect(try test.simulator.activities(other).count == 2)
            #expect(try test.simulator.reinstall(other, as: third))
            for address in [token, ActivityPushes.start] {
                #expect(try client.send(ActivityPushes.change(test, address, eta: 2)).status == 410)
            }
            #expect(try test.simulator.activities(third).isEmpty)
        }
    }

    @Test("A dismissed activity has left the screen, and later pushes do nothing")
    func dismiss() async throws {
        try await withActivity { (test, client, token) async throws in
            #expect(try test.simulator.dismissActivity("ride-1", on: phone))
            #expect(try ActivityPushes.activity(test).state == .dismissed)
            #expect(try test.simulator.inbox(phone).isEmpty)
            #expect(try client.send(ActivityPushes.change(test, token, eta: 3)).status == 200)
            #expect(ActivityPushes.result(test) == .afterEnd)
            #expect(try test.simulator.inbox(phone).isEmpty)
        }
    }

    @Test("When the person opens the app, its activities stay")
    func open() async throws {
        try await withActivity { (test, client, token) async throws in
            try test.simulator.open(phone)
            #expect(try ActivityPushes.activity(test).state == .active)
            #expect(try client.send(ActivityPushes.change(test, token, eta: 3)).status == 200)
            #expect(try test.simulator.inbox(phone).count == 1)
        }
    }

    @Test("Updates with priority 10 beyond the budget are accepted and not shown; priority 5, the end and the next hour are free")
    func budget() async throws {
        try await withActivity {
            $0.activityBudgetPerHour = 2
        } _: { (test, client, token) async throws in
            func send(_ priority: String?, _ event: String = "update") throws -> ActivityResult? {
                let push = ActivityPushes.change(test, token, event, eta: 1).with("apns-priority", priority)
                #expect(try client.send(push).status == 200)
                return ActivityPushes.result(test)
            }
            #expect(try ActivityPushes.activity(test).budgetLeft == 2)
            #expect(try [send("10"), send(nil), send("10")] == [.updated, .updated, .overBudget])
            #expect(try ActivityPushes.activity(test).budgetLeft == 0)
            #expect(try send("5") == .updated)
            let second = try ActivityPushes.begin(test, client, id: "ride-2")
            #expect(try client.send(ActivityPushes.change(test, second, eta: 1)).status == 200)
            #expect(ActivityPushes.result(test) == .updated)
            test.clock.advance(by: .seconds(3600))
            #expect(try ActivityPushes.activity(test).budgetLeft == 2)
            #expect(try [send("10"), send("10"), send("10")] == [.updated, .updated, .overBudget])
            #expect(try send("10", "end") == .ended)
        }
    }

    @Test("An update over the budget leaves the state as it was; with frequent updates a device shows four times as many")
    func frequent() async throws {
        try await withSimulator {
            $0.activityBudgetPerHour = 1
        } _: { test in
            try ActivityPushes.install(test, hasFrequentUpdates: true)
            let client = try test.client()
            let token = try ActivityPushes.begin(test, client)
            for number in 1...5 { #expect(try client.send(ActivityPushes.change(test, token, eta: number)).status == 200) }
            #expect(ActivityPushes.result(test) == .overBudget)
            #expect(try eta(test) == #"{"eta":4}"#)
            #expect(test.simulator.counters.shown == 5)
        }
    }
}
