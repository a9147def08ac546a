import APNsSimulator
import StrictJSON
import Testing

@Suite("Live Activities follow channels, and devices that were away miss what no channel keeps", .timeLimit(.minutes(5)))
struct FollowerTests {
    private let phone = TestPush.token

    private func channel(_ control: TestControl) async throws -> JSONValue {
        try #require(try await control.call("GET", "/v1/channels?followers=10").json?["channels"]?[0])
    }

    private func broadcast(_ test: TestSimulator, _ channel: String, score: Int, event: String = "update") -> TestPush {
        let now = test.clock.now / 1000
        return ChannelRequests.broadcast(test, channel).body(
            #"{"aps":{"event":"\#(event)","timestamp":\#(now),"content-state":{"score":\#(score)}}}"#)
    }

    @Test("A start with a channel gets no token, follows the channel to its end, and then no more")
    func follow() async throws {
        try await withControl { control in
            let test = control.test
            try ActivityPushes.install(test)
            let id = try ChannelRequests.create(test, ChannelRequests.manage(test))
            let client = try test.client()
            #expect(try client.send(ActivityPushes.start(test, ["input-push-channel": #""\#(id)""#])).status == 200)
            let activity = try ActivityPushes.activity(test)
            #expect(activity.updateToken == nil && activity.channelID == id)
            #expect(try test.simulator.device(phone)?.device.channels == [id])
            let follower = try await channel(control)["followers"]?[0]
            #expect(follower?["token"]?.stringValue == phone)
            #expect(follower?["activities"]?[0]?.stringValue == "ride-1")
            #expect(try client.send(broadcast(test, id, score: 1)).status == 200)
            #expect(try ActivityPushes.activity(test).contentState == #"{"score":1}"#)
            #expect(try client.send(broadcast(test, id, score: 2, event: "end")).status == 200)
            #expect(try ActivityPushes.activity(test).state == .ended)
            #expect(try await channel(control)["subscribers"]?.integerValue == 0)
            #expect(try test.simulator.device(phone)?.device.channels == [])
            #expect(try client.send(broadcast(test, id, score: 3)).status == 200)
            #expect(try ActivityPushes.activity(test).contentState == #"{"score":2}"#)
            #expect(try await channel(control)["receptions"]?.integerValue == 2)
        }
    }

    @Test("One broadcast reaches every activity of a device that follows the channel, and a dismissed one follows no more")
    func several() async throws {
        try await withControl { control in
            let test = control.test
            try ActivityPushes.install(test)
            let id = try ChannelRequests.create(test, ChannelRequests.manage(test))
            for name in ["1", "2"] {
                #expect(try test.simulator.startActivity("Ride", on: phone, id: name, channelID: id) != nil)
            }
            #expect(try test.simulator.startActivity("Ride", on: phone, channelID: "AAAA") == nil)
            let client = try test.client()
            #expect(try client.send(broadcast(test, id, score: 1)).status == 200)
            #expect(try test.simulator.activities(phone).map(\.contentState) == [#"{"score":1}"#, #"{"score":1}"#])
            #expect(try await channel(control)["subscribers"]?.integerValue == 1)
            #expect(test.simulator.counters.requests == 2)
            for name in ["1", "2"] {
                #expect(try await channel(control)["subscribers"]?.integerValue == 1)
                try test.simulator.dismissActivity(name, on: phone)
            }
            #expect(try await channel(control)["subscribers"]?.integerValue == 0)
        }
    }

    @Test("An activity that begins later gets the newest broadcast that its channel keeps", arguments: [0, 1])
    func late(_ policy: Int) async throws {
        try await withSimulator { test in
            try ActivityPushes.install(test)
            let id = try ChannelRequests.create(test, ChannelRequests.manage(test), policy: policy)
            let client = try test.client()
            #expect(try client.send(broadcast(test, id, score: 1)).status == 200)
            let start = ActivityPushes.start(test, ["input-push-channel": #""\#(id)""#, "timestamp": "5"])
            #expect(try client.send(start).status == 200)
            #expect(try ActivityPushes.activity(test).contentState == (policy == 1 ? #"{"score":1}"# : #"{"eta":5}"#))
            #expect(try test.simulator.device(phone)?.missedCount == 0)
        }
    }

    @Test("A device that was away gets the newest broadcast of a channel that keeps it and misses the others", arguments: [0, 1])
    func away(_ policy: Int) async throws {
        try await withControl { control in
            let test = control.test
            try ActivityPushes.install(test)
            let id = try ChannelRequests.create(test, ChannelRequests.manage(test), policy: policy)
            #expect(try test.simulator.startActivity("Ride", on: phone, id: "ride-1", contentState: "{}", channelID: id) != nil)
            try test.simulator.setOnline(false, phone)
            let client = try test.client()
            for score in 1...3 { #expect(try client.send(broadcast(test, id, score: score)).status == 200) }
            let missed = try await channel(control)["followers"]?[0]
            #expect(missed?["missed"]?.integerValue == 3 && missed?["online"]?.boolValue == false)
            try test.simulator.setOnline(true, phone)
            #expect(try ActivityPushes.activity(test).contentState == (policy == 1 ? #"{"score":3}"# : "{}"))
            #expect(try test.simulator.device(phone)?.missedCount == (policy == 1 ? 2 : 3))
            try test.simulator.setOnline(true, phone)
            #expect(try test.simulator.device(phone)?.missedCount == (policy == 1 ? 2 : 3))
        }
    }

    @Test("A kept broadcast waits eight hours; then the device has missed it too")
    func expired() async throws {
        try await withSimulator { test in
            try ActivityPushes.install(test)
            let id = try ChannelRequests.create(test, ChannelRequests.manage(test))
            try test.simulator.setOnline(false, phone)
            #expect(try test.simulator.startActivity("Ride", on: phone, id: "ride-1", contentState: "{}", channelID: id) != nil)
            test.clock.advance(by: .seconds(10))
            #expect(try test.client().send(broadcast(test, id, score: 1)).status == 200)
            test.clock.advance(by: .seconds(8 * 3600))
            try test.simulator.setOnline(true, phone)
            #expect(try test.simulator.device(phone)?.missedCount == 1)
            #expect(try ActivityPushes.activity(test).contentState == "{}")
        }
    }

    @Test("An activity that the system has ended follows no channel any more, also on a device that is off", arguments: [true, false])
    func endedBySystem(_ isOnline: Bool) async throws {
        try await withControl { control in
            let test = control.test
            try ActivityPushes.install(test)
            let id = try ChannelRequests.create(test, ChannelRequests.manage(test))
            #expect(try test.simulator.startActivity("Ride", on: phone, id: "ride-1", channelID: id) != nil)
            try test.simulator.setOnline(isOnline, phone)
            test.clock.advance(by: .seconds(8 * 3600))
            let arrivals = try await control.call("GET", "/v1/arrivals").json?["last_sequence"]?.integerValue
            let client = try PushClient(port: test.simulator.productionPort)
            let bearer = try test.bearer()
            #expect(try client.send(broadcast(test, id, score: 1).with("authorization", bearer)).status == 200)
            #expect(try test.simulator.device(phone)?.missedCount == 0)
            #expect(try await control.call("GET", "/v1/arrivals").json?["last_sequence"]?.integerValue == arrivals)
            #expect(try await channel(control)["subscribers"]?.integerValue == 0)
        }
    }

    @Test("A broadcast is one request and reaches a hundred thousand followers without devices")
    func anonymous() async throws {
        try await withControl { control in
            let test = control.test
            let id = try ChannelRequests.create(test, ChannelRequests.manage(test))
            func add(_ count: Int, to channel: String) async throws -> UInt {
                try await control.call("POST", "/v1/channels/followers", #"{"channel_id":"\#(channel)","add":\#(count)}"#).status
            }
            #expect(try await add(100_000, to: id) == 204)
            #expect(try await add(1, to: "AAAA") == 404)
            for score in 1...2 { #expect(try test.client().send(broadcast(test, id, score: score)).status == 200) }
            let found = try await channel(control)
            #expect(found["anonymous"]?.integerValue == 100_000)
            #expect(found["receptions"]?.integerValue == 200_000)
            #expect(found["published"]?.integerValue == 2)
            #expect(test.simulator.counters.requests == 3)
            for _ in 0..<2 { #expect(try await add(1_000_000_000, to: id) == 204) }
            #expect(try await channel(control)["anonymous"]?.integerValue == 1_000_000_000)
            #expect(try await add(-1_000_000_000, to: id) == 204)
            #expect(try await add(-1, to: id) == 204)
            #expect(try await channel(control)["anonymous"]?.integerValue == 0)
        }
    }

    @Test("More broadcasts in a second than the setting says are 429 and reach nobody; another channel and the next second are free")
    func pace() async throws {
        try await withControl {
            $0.broadcastsPerSecond = 1
        } _: { control in
            let test = control.test
            let manager = try ChannelRequests.manage(test)
            let ids = [try ChannelRequests.create(test, manager), try ChannelRequests.create(test, manager)]
            let client = try test.client()
            #expect(try client.send(broadcast(test, ids[0], score: 1)).status == 200)
            let refused = try client.send(broadcast(test, ids[0], score: 2))
            #expect(refused.status == 429 && refused.body == #"{"reason":"TooManyRequests"}"#)
            #expect(try client.send(broadcast(test, ids[1], score: 1)).status == 200)
            test.clock.advance(by: .seconds(1))
            #expect(try client.send(broadcast(test, ids[0], score: 3)).status == 200)
            let published = try await control.call("GET", "/v1/channels").json?["channels"]?.arrayValue?.map {
                $0["published"]?.integerValue
            }
            #expect(published.map { Set($0) } == [1, 2])
            #expect(try await control.call("GET", "/v1/channels?limit=1").json?["channels"]?.arrayValue?.count == 1)
            #expect(try await control.call("GET", "/v1/channels?limit=1").json?["total"]?.integerValue == 2)
        }
    }

    @Test("Broadcasts count against the budget of each activity that follows")
    func budget() async throws {
        try await withSimulator {
            $0.activityBudgetPerHour = 1
        } _: { test in
            try ActivityPushes.install(test)
            let id = try ChannelRequests.create(test, ChannelRequests.manage(test))
            #expect(try test.simulator.startActivity("Ride", on: phone, id: "ride-1", channelID: id) != nil)
            let client = try test.client()
            for score in 1...2 { #expect(try client.send(broadcast(test, id, score: score)).status == 200) }
            #expect(try ActivityPushes.activity(test).contentState == #"{"score":1}"#)
            #expect(try client.send(broadcast(test, id, score: 3).with("apns-priority", "5")).status == 200)
            #expect(try ActivityPushes.activity(test).contentState == #"{"score":3}"#)
        }
    }
}
