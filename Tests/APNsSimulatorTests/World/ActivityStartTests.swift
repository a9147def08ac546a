import APNsSimulator
import StrictJSON
import Testing

@Suite("A push to a start token begins a Live Activity with an update token of its own", .timeLimit(.minutes(5)))
struct ActivityStartTests {
    private let phone = TestPush.token

    @Test("A start begins an activity that its attributes name, and the lock screen shows it")
    func start() async throws {
        try await withSimulator { test in
            try ActivityPushes.install(test)
            let client = try test.client()
            let token = try ActivityPushes.begin(test, client)
            let activity = try ActivityPushes.activity(test)
            #expect(token.count > 64)
            #expect(activity.attributesType == ActivityPushes.type)
            #expect(activity.attributes == #"{"id":"ride-1","from":"Gate 4"}"#)
            #expect(activity.contentState == #"{"eta":5}"#)
            #expect(activity.state == .active && activity.event == .start && activity.startedAt == test.clock.now)
            #expect(activity.topic == ActivityPushes.topic)
            #expect(ActivityPushes.result(test) == .started)
            #expect(try test.simulator.inbox(phone).map(\.content.title) == ["Your ride"])
            #expect(try test.simulator.device(phone)?.acceptedCount == 1)
        }
    }

    @Test(
        "A start without a part that iOS needs is accepted and starts nothing; the journal says why",
        arguments: [
            (["alert": nil], ActivityResult.noAlert), (["alert": #""""#], .noAlert), (["alert": "{}"], .noAlert),
            (["attributes-type": nil], .noAttributesType), (["attributes-type": #""""#], .noAttributesType),
            (["attributes-type": #""MatchAttributes""#], .otherAttributesType), (["attributes": nil], .noAttributes),
            (["attributes": "[]"], .noAttributes), (["event": #""update""#], .notAStart), (["event": #""end""#], .notAStart),
            (["event": nil], .noEvent), (["event": #""begin""#], .noEvent),
        ] as [([String: String?], ActivityResult)])
    func fault(_ changes: [String: String?], _ result: ActivityResult) async throws {
        try await withControl { control in
            let test = control.test
            try ActivityPushes.install(test)
            #expect(try test.client().send(ActivityPushes.start(test, changes)).status == 200)
            #expect(try test.simulator.activities(phone).isEmpty)
            #expect(try test.simulator.inbox(phone).isEmpty)
            #expect(ActivityPushes.result(test) == result)
            let entry = try await control.call("GET", "/v1/journal").json?["requests"]?[0]
            #expect(entry?["activity_result"]?.stringValue == result.rawValue)
            #expect(entry?["shown"]?.boolValue == false)
            let arrivals = try await control.call("GET", "/v1/arrivals").json?["arrivals"]?.arrayValue
            #expect(arrivals?.last?["kind"]?.stringValue == "ignored")
            #expect(arrivals?.last?["activity_result"]?.stringValue == result.rawValue)
        }
    }

    @Test("Texts of an alert may be keys, and the sound stands in the alert")
    func localised() async throws {
        try await withSimulator { test in
            try ActivityPushes.install(test)
            let alert = #"{"title":{"loc-key":"RIDE"},"body":{"loc-key":"COMES","loc-args":["5"]},"sound":"horn.aiff"}"#
            #expect(try test.client().send(ActivityPushes.start(test, ["alert": alert])).status == 200)
            let content = try #require(try test.simulator.inbox(phone).first?.content)
            #expect([content.title, content.body, content.sound] == ["RIDE", "COMES", "horn.aiff"])
        }
    }

    @Test("Two starts of one id are two activities, as on a phone; after a dismissal the id is free")
    func twice() async throws {
        try await withSimulator { test in
            try ActivityPushes.install(test)
            let client = try test.client()
            let first = try ActivityPushes.begin(test, client)
            #expect(try client.send(ActivityPushes.start(test)).status == 200)
            #expect(try test.simulator.activities(phone).map(\.id) == ["ride-1", "ride-1-2"])
            #expect(try test.simulator.inbox(phone).count == 2)
            try test.simulator.dismissActivity("ride-1", on: phone)
            let second = try ActivityPushes.begin(test, client)
            #expect(first != second)
            #expect(try test.simulator.activities(phone).map(\.id) == ["ride-1-2", "ride-1"])
            #expect(try client.send(ActivityPushes.change(test, first, eta: 1)).status == 410)
        }
    }

    @Test("Without an id in the attributes an activity has one of its own", arguments: [#"{}"#, #"{"id":""}"#, #"{"id":"a\u0007"}"#])
    func ownID(_ attributes: String) async throws {
        try await withSimulator { test in
            try ActivityPushes.install(test)
            #expect(try test.client().send(ActivityPushes.start(test, ["attributes": attributes])).status == 200)
            #expect(try test.simulator.activities(phone).map(\.id.count) == [36])
        }
    }

    @Test("Tokens beside the device's own follow its environment, its topics, its app and its script")
    func answers() async throws {
        try await withSimulator { test in
            try ActivityPushes.install(test, topics: [TestPush.topic])
            let client = try test.client()
            let token = try ActivityPushes.begin(test, client)
            for address in [ActivityPushes.start, token] {
                let push = ActivityPushes.change(test, address, eta: 1)
                #expect(try client.send(push).status == 200)
                #expect(try test.client(.sandbox).send(push).body == #"{"reason":"BadDeviceToken"}"#)
                let other = push.with("apns-topic", "com.example.other.push-type.liveactivity")
                #expect(try client.send(other).body == #"{"reason":"DeviceTokenNotForTopic"}"#)
                #expect(try client.send(test.push().to(address)).body == #"{"reason":"DeviceTokenNotForTopic"}"#)
                try test.simulator.script(address, [.reject(.tooManyRequests)])
                #expect(try client.send(push).status == 429)
            }
            try test.simulator.uninstall(phone, since: 7000)
            for address in [ActivityPushes.start, token] {
                #expect(
                    try client.send(ActivityPushes.change(test, address, eta: 2)).body == #"{"reason":"Unregistered","timestamp":7000}"#)
            }
            #expect(try test.simulator.activities(phone).isEmpty)
            try test.simulator.forget(phone)
            #expect(try client.send(ActivityPushes.change(test, token, eta: 3)).status == 200)
        }
    }

    @Test("A device that was off starts the activity once it is on")
    func stored() async throws {
        try await withSimulator { test in
            try ActivityPushes.install(test)
            try test.simulator.setOnline(false, phone)
            #expect(try test.client().send(ActivityPushes.start(test)).status == 200)
            #expect(try test.simulator.activities(phone).isEmpty)
            try test.simulator.setOnline(true, phone)
            let token = try #require(try ActivityPushes.activity(test).updateToken)
            #expect(try test.client().send(ActivityPushes.change(test, token, eta: 1)).status == 200)
            #expect(ActivityPushes.result(test) == .updated)
        }
    }

    @Test("A start token that the app has replaced is 410, and one that belongs to another device is refused")
    func startTokens() async throws {
        try await withControl { control in
            let test = control.test
            func put(_ device: String, _ start: String) async throws -> TestControl.Answer {
                try await control.call(
                    "PUT", "/v1/devices/\(device)",
                    #"{"environment":"production","start_tokens":[{"attributes_type":"RideAttributes","token":"\#(start)"}]}"#)
            }
            #expect(try await put(phone, "aa11").status == 201)
            let changed = try await put(phone, "aa22")
            #expect(changed.json?["start_tokens"]?[0]?["token"]?.stringValue == "aa22")
            let client = try test.client()
            let old = ActivityPushes.start(test).to("aa11")
            #expect(try client.send(old).body == #"{"reason":"Unregistered","timestamp":\#(test.clock.now)}"#)
            #expect(try client.send(old.to("aa22")).status == 200)
            #expect(try await put("bb", "aa22").status == 409)
            #expect(try await put("bb", "bb").status == 409)
            #expect(try await put("aa22", "cc").status == 409)
            #expect(try await put("bb", phone).status == 409)
            let token = try #require(try ActivityPushes.activity(test).updateToken)
            #expect(try await put("bb", token).status == 409)
            #expect(try await put(token, "cc").status == 409)
            let gone = #""state":"uninstalled","uninstalled_at_ms":9"#
            try await control.call(
                "PUT", "/v1/devices/dd",
                #"{"environment":"production",\#(gone),"start_tokens":[{"attributes_type":"RideAttributes","token":"dd11"}]}"#)
            #expect(try client.send(old.to("dd11")).body == #"{"reason":"Unregistered","timestamp":9}"#)
            try await control.call("PUT", "/v1/devices/\(phone)", #"{"environment":"sandbox"}"#)
            #expect(try client.send(old.to("aa22")).status == 410)
            let made = try await control.call(
                "PUT", "/v1/devices/cc", #"{"environment":"production","start_tokens":[{"attributes_type":"RideAttributes"}]}"#)
            #expect((made.json?["start_tokens"]?[0]?["token"]?.stringValue?.count ?? 0) > 64)
        }
    }

    @Test("A device remembers a hundred activities; the token of the one that gave way is 410")
    func many() async throws {
        try await withSimulator { test in
            try ActivityPushes.install(test)
            let client = try test.client()
            let first = try ActivityPushes.begin(test, client, id: "0")
            for number in 1...100 { #expect(try client.send(ActivityPushes.start(test, id: String(number))).status == 200) }
            #expect(try test.simulator.activities(phone).count == 100)
            #expect(try client.send(ActivityPushes.change(test, first, eta: 1)).status == 410)
        }
    }
}
