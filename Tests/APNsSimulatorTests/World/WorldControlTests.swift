import APNsSimulator
import StrictJSON
import Synchronization
import Testing

@Suite("The world of devices over HTTP, and followed from a terminal", .timeLimit(.minutes(5)))
struct WorldControlTests {
    private static let device = "/v1/devices/" + TestPush.token

    @Test("A device's whole life by actions")
    func actions() async throws {
        try await withControl { control in
            #expect(try await control.call("POST", Self.device + "/actions", #"{"action":"offline"}"#).status == 404)
            let made = try await control.call(
                "PUT", Self.device, #"{"environment":"production","online":false,"throttle":{"pushes":3,"per_ms":1000}}"#)
            #expect(made.json?["online"]?.boolValue == false)
            #expect(made.json?["throttle"]?["pushes"]?.integerValue == 3)
            let client = try control.test.client()
            #expect(try client.send(control.test.push()).status == 200)
            #expect(try await control.call("GET", Self.device).json?["stored"]?.integerValue == 1)
            let on = try await control.call("POST", Self.device + "/actions", #"{"action":"online"}"#)
            #expect(on.json?["inbox"]?.integerValue == 1)
            let rotated = try await control.call("POST", Self.device + "/actions", #"{"action":"rotate"}"#)
            let new = try #require(rotated.json?["token"]?.stringValue)
            #expect(new.count == 64 && new != TestPush.token)
            #expect(rotated.json?["inbox"]?.integerValue == 1)
            #expect(try client.send(control.test.push()).status == 410)
            let taken = try await control.call(
                "POST", "/v1/devices/\(new)/actions", #"{"action":"reinstall","new_token":"\#(TestPush.token)"}"#)
            #expect(taken.status == 409)
            let expired = try await control.call("POST", "/v1/devices/\(new)/actions", #"{"action":"expire","at_ms":77}"#)
            #expect(expired.json?["state"]?.stringValue == "expired")
            #expect(try client.send(control.test.push().to(new)).body == #"{"reason":"ExpiredToken","timestamp":77}"#)
            try await control.call("PUT", Self.device, #"{"environment":"production"}"#)
            try await control.call("POST", Self.device + "/actions", #"{"action":"uninstall","at_ms":5,"pushes_until_gone":2}"#)
            let statuses = try (0..<3).map { _ in try client.send(control.test.push()).status }
            #expect(statuses == [200, 200, 410])
            for (body, pointer) in [(#"{"action":"dance"}"#, "/action"), (#"{"action":"rotate","new_token":"x"}"#, "/new_token")] {
                let answer = try await control.call("POST", Self.device + "/actions", body)
                #expect(answer.status == 400)
                #expect(answer.json?["errors"]?[0]?["pointer"]?.stringValue == pointer)
            }
        }
    }

    @Test("Notifications are grouped as a lock screen groups them")
    func groups() async throws {
        try await withControl { control in
            try await control.call("PUT", Self.device, #"{"environment":"production"}"#)
            let client = try control.test.client()
            for (title, thread) in [("1", "a"), ("2", "b"), ("3", "a")] {
                let body = #"{"aps":{"alert":{"title":"\#(title)"},"thread-id":"\#(thread)","badge":\#(title)}}"#
                #expect(try client.send(control.test.push().body(body).with("apns-expiration", "0")).status == 200)
            }
            let inbox = try await control.call("GET", Self.device + "/inbox").json
            let groups = try #require(inbox?["groups"]?.arrayValue)
            #expect(groups.map { $0["thread_id"]?.stringValue } == ["b", "a"])
            #expect(groups.map { $0["count"]?.integerValue } == [1, 2])
            #expect(groups[1]["newest_apns_id"]?.stringValue == inbox?["notifications"]?[2]?["apns_id"]?.stringValue)
            #expect(inbox?["badge"]?.integerValue == 3)
            #expect(inbox?["notifications"]?[0]?["expires_at"] == nil)
        }
    }

    @Test("Arrivals are a feed that can be waited for")
    func arrivals() async throws {
        try await withControl { control in
            try await control.call("PUT", Self.device, #"{"environment":"production","name":"phone"}"#)
            let before = try await control.call("GET", "/v1/arrivals").json?["last_sequence"]?.integerValue ?? 0
            let client = try control.test.client()
            async let waited = control.call("GET", "/v1/arrivals?after=\(before)&wait_count=2&timeout_seconds=30")
            #expect(try client.send(control.test.push()).status == 200)
            let background = control.test.push().with("apns-push-type", "background").with("apns-priority", "5")
            #expect(try client.send(background.body(#"{"aps":{"content-available":1}}"#)).status == 200)
            let arrivals = try #require(await waited.json?["arrivals"]?.arrayValue)
            #expect(arrivals.map { $0["kind"]?.stringValue } == ["shown", "silent"])
            #expect(arrivals[0]["title"]?.stringValue == "Hello")
            #expect(arrivals[0]["name"]?.stringValue == "phone")
            #expect(arrivals[0]["token"]?.stringValue == TestPush.token)
            let device = try await control.call("GET", Self.device + "?wait_accepted=2&timeout_seconds=30")
            #expect(device.json?["accepted"]?.integerValue == 2)
        }
    }

    @Test("A terminal follows arrivals, and a notification cannot steer it")
    func watch() async throws {
        try await withControl { control in
            try await control.call("PUT", Self.device, #"{"environment":"production","name":"phone"}"#)
            let client = try control.test.client()
            _ = try client.send(control.test.push())
            _ = try client.send(control.test.push().body(#"{"aps":{"alert":{"title":"\u001b[2Jx","body":"y"},"badge":4}}"#))
            let lines = Mutex<[String]>([])
            try await ArrivalWatch(url: "http://127.0.0.1:\(control.port)/", patience: 5).follow(fromStart: true) { line in
                lines.withLock { all in
                    all.append(line.text)
                    return all.count < 2
                }
            }
            let texts = lines.withLock { $0 }
            #expect(texts[0].hasSuffix("  shown     phone  com.example.shop  Hello: World"))
            #expect(texts[1].hasSuffix("·[2Jx: y (badge 4)"))
        }
    }

    @Test("If no simulator listens at the address, a terminal gets one sentence")
    func watchNothing() async throws {
        let failure = await #expect(throws: ArrivalWatch.Failure.self) {
            try await ArrivalWatch(url: "http://127.0.0.1:1").follow { _ in false }
        }
        #expect(failure?.description.hasPrefix("No simulator answers at http://127.0.0.1:1: ") == true)
    }
}
