import APNsSimulator
import StrictJSON
import Synchronization
import Testing

@Suite("Live Activities over the control API", .timeLimit(.minutes(5)))
struct ActivityControlTests {
    private static let device = "/v1/devices/" + TestPush.token
    private static let path = device + "/activities"

    @Test("A local start, an update, a rotation and a dismissal, each with its signal")
    func life() async throws {
        try await withControl { control in
            let test = control.test
            #expect(try await control.call("GET", Self.path).status == 404)
            #expect(try await control.call("POST", Self.path, #"{"attributes_type":"Ride"}"#).status == 404)
            try ActivityPushes.install(test)
            #expect(try await control.call("GET", Self.path).json?["changes"]?.integerValue == 0)
            async let waited = control.call("GET", Self.path + "?wait_changes=1&timeout_seconds=30")
            let made = try await control.call(
                "POST", Self.path, #"{"id":"a/b ü","attributes_type":"Ride","attributes":{"from":"A"},"content_state":{"eta":9}}"#)
            #expect(made.status == 201)
            #expect(made.json?["content_state"]?["eta"]?.integerValue == 9)
            #expect(made.json?["state"]?.stringValue == "active")
            #expect(made.json?["event"]?.stringValue == "start")
            let listed = try #require(try await waited.json)
            #expect(listed["changes"]?.integerValue == 1)
            #expect(listed["activities"]?[0]?["id"]?.stringValue == "a/b ü")
            let token = try #require(made.json?["update_token"]?.stringValue)
            #expect(try test.client().send(ActivityPushes.change(test, token, eta: 4)).status == 200)
            let updated = try await control.call("GET", Self.path + "?wait_changes=2").json?["activities"]?[0]
            #expect(updated?["content_state"]?["eta"]?.integerValue == 4)
            let one = Self.path + "/a%2Fb%20%C3%BC"
            let rotated = try await control.call("POST", one + "/rotate", "{}")
            #expect(rotated.status == 200 && rotated.json?["update_token"]?.stringValue != token)
            #expect(try await control.call("POST", one + "/rotate", #"{"new_token":"abcd"}"#).json?["update_token"]?.stringValue == "abcd")
            #expect(try await control.call("POST", one + "/rotate", #"{"new_token":"\#(token)"}"#).status == 409)
            #expect(try await control.call("POST", one + "/rotate", #"{"new_token":"x"}"#).status == 400)
            let gone = try await control.call("DELETE", one)
            #expect(gone.json?["state"]?.stringValue == "dismissed")
            #expect(try await control.call("POST", one + "/rotate", "{}").status == 409)
            #expect(try await control.call("DELETE", Self.path + "/other").status == 404)
            #expect(try await control.call("GET", Self.path + "?wait_changes=5&timeout_seconds=0").json?["changes"]?.integerValue == 5)
            #expect(try await control.call("GET", Self.path + "?wait_changes=6&timeout_seconds=0").json?["changes"]?.integerValue == 5)
        }
    }

    @Test("An app starts activities with a token, without pushes, or on a channel", arguments: ["token", "none", "channel"])
    func updates(_ kind: String) async throws {
        try await withControl { control in
            let test = control.test
            try ActivityPushes.install(test)
            let channel = try ChannelRequests.create(test, ChannelRequests.manage(test))
            let more = [
                "token": #","bundle_id":"com.example.shop""#, "none": #","push":false"#, "channel": #","channel_id":"\#(channel)""#,
            ]
            let made = try await control.call("POST", Self.path, #"{"id":"1","attributes_type":"Ride"\#(more[kind] ?? "")}"#)
            #expect(made.status == 201)
            #expect((made.json?["update_token"] != nil) == (kind == "token"))
            #expect(made.json?["channel_id"]?.stringValue == (kind == "channel" ? channel : nil))
            #expect(try await control.call("POST", Self.path, #"{"id":"1","attributes_type":"Ride"}"#).status == 409)
            guard let token = made.json?["update_token"]?.stringValue else {
                #expect(try await control.call("POST", Self.path + "/1/rotate", "{}").status == 409)
                return
            }
            let other = ActivityPushes.change(test, token, eta: 1).with("apns-topic", "com.example.other.push-type.liveactivity")
            #expect(try test.client().send(other).body == #"{"reason":"DeviceTokenNotForTopic"}"#)
            try test.simulator.uninstall(TestPush.token)
            #expect(try await control.call("POST", Self.path, #"{"attributes_type":"Ride"}"#).status == 409)
        }
    }

    @Test(
        "A wrong local start is refused with its place",
        arguments: [
            ("{}", "/attributes_type"), (#"{"attributes_type":"R","attributes":[]}"#, "/attributes"),
            (#"{"attributes_type":"R","content_state":1}"#, "/content_state"), (#"{"attributes_type":"R","id":"a\u0007"}"#, "/id"),
            (#"{"attributes_type":"R","channel_id":"AAAA","push":false}"#, "/push"), (#"{"attributes_type":"R","more":1}"#, "/more"),
        ])
    func wrong(_ body: String, _ pointer: String) async throws {
        try await withControl { control in
            try ActivityPushes.install(control.test)
            let answer = try await control.call("POST", Self.path, body)
            #expect(answer.status == 400)
            #expect(answer.json?["errors"]?[0]?["pointer"]?.stringValue == pointer)
            #expect(try await control.call("POST", Self.path, #"{"attributes_type":"R","channel_id":"AAAA"}"#).status == 404)
        }
    }

    @Test("The list of devices has what the page shows, and the filter finds a device with an activity alone")
    func list() async throws {
        try await withControl { control in
            try ActivityPushes.install(control.test)
            let all = "/v1/devices?groups=3&only=notified"
            #expect(try await control.call("GET", all).json?["matching"]?.integerValue == 0)
            try await control.call("POST", Self.path, #"{"id":"1","attributes_type":"Ride"}"#)
            #expect(try await control.call("GET", all).json?["matching"]?.integerValue == 1)
            #expect(try control.test.client().send(ActivityPushes.start(control.test)).status == 200)
            let device = try await control.call("GET", all).json?["devices"]?[0]
            #expect(device?["activities"]?.arrayValue?.map { $0["id"]?.stringValue } == ["1", "ride-1"])
            #expect(device?["activity_count"]?.integerValue == 2)
            // An activity stands alone, so no group of notifications has it.
            #expect(device?["groups"]?.arrayValue?.count == 0)
            try await control.call("DELETE", Self.path + "/1")
            #expect(try await control.call("GET", all).json?["devices"]?[0]?["activities"]?.arrayValue?.count == 1)
        }
    }

    @Test("The terminal prints what happens to activities, with and without a push")
    func watch() async throws {
        try await withControl { control in
            try ActivityPushes.install(control.test)
            try await control.call("POST", Self.path, #"{"id":"1","attributes_type":"Ride"}"#)
            let client = try control.test.client()
            _ = try client.send(ActivityPushes.start(control.test, ["alert": nil]))
            let token = try ActivityPushes.begin(control.test, client)
            _ = try client.send(ActivityPushes.change(control.test, token, timestamp: 1, eta: 1))
            try await control.call("DELETE", Self.path + "/1")
            let lines = Mutex<[String]>([])
            try await ArrivalWatch(url: "http://127.0.0.1:\(control.port)/", patience: 5).follow(fromStart: true) { line in
                lines.withLock { all in
                    all.append(line.text)
                    return all.count < 5
                }
            }
            let ends = [
                "1: started locally", "no alert", "ride-1: started", #"[update {"eta":1}] ride-1: outdated"#, "1: dismissed",
            ]
            for (text, end) in zip(lines.withLock { $0 }, ends) { #expect(text.hasSuffix(end), "\(text)") }
        }
    }
}
