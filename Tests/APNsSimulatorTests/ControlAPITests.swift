import NIOCore
import StrictJSON
import Synchronization
import Testing

@testable import APNsSimulator

@Suite("The control API does what the README says", .timeLimit(.minutes(5)))
struct ControlAPITests {
    static let device = "/v1/devices/" + TestPush.token

    @Test("A device is installed, listed, changed and forgotten")
    func devices() async throws {
        try await withControl { control in
            let made = try await control.call(
                "PUT", Self.device, #"{"environment":"sandbox","topics":["com.example.shop"],"name":"Ada's phone"}"#)
            #expect(made.status == 201)
            #expect(made.json?["state"]?.stringValue == "installed")
            let listed = try await control.call("GET", "/v1/devices").json?["devices"]?.arrayValue
            #expect(listed?.count == 1)
            #expect(listed?.first?["token"]?.stringValue == TestPush.token)
            #expect(listed?.first?["environment"]?.stringValue == "sandbox")
            #expect(listed?.first?["topics"]?[0]?.stringValue == "com.example.shop")
            #expect(listed?.first?["name"]?.stringValue == "Ada's phone")
            let gone = try await control.call(
                "PUT", Self.device.uppercased().replacing("/V1/DEVICES", with: "/v1/devices"),
                #"{"environment":"production","state":"uninstalled","uninstalled_at_ms":1700000000000}"#)
            #expect(gone.status == 200)
            #expect(gone.json?["uninstalled_at_ms"]?.integerValue == 1_700_000_000_000)
            #expect(try control.test.client().send(control.test.push()).status == 410)
            #expect(try await control.call("DELETE", Self.device).status == 204)
            #expect(try await control.call("GET", Self.device).status == 404)
            #expect(try await control.call("DELETE", Self.device).status == 204)
        }
    }

    @Test("An inbox shows what the lock screen shows")
    func inbox() async throws {
        try await withControl { control in
            #expect(try await control.call("GET", Self.device + "/inbox").status == 404)
            try await control.call("PUT", Self.device, #"{"environment":"production"}"#)
            let id = "03ff9497-8a6b-4f2c-9c86-0a1b2c3d4e5f"
            let push = control.test.push().with("apns-id", id).with("apns-collapse-id", "c")
            #expect(try control.test.client().send(push.body(#"{"aps":{"alert":{"title":"Hé\"llo","body":"B"},"badge":2}}"#)).status == 200)
            let answer = try await control.call("GET", Self.device + "/inbox")
            let shown = try #require(answer.json?["notifications"]?[0])
            #expect(shown["title"]?.stringValue == "Hé\"llo")
            #expect(shown["body"]?.stringValue == "B")
            #expect(shown["badge"]?.integerValue == 2)
            #expect(shown["apns_id"]?.stringValue == id)
            #expect(shown["push_type"]?.stringValue == "alert")
            #expect(shown["collapse_id"]?.stringValue == "c")
            #expect(shown["topic"]?.stringValue == TestPush.topic)
            #expect(shown["received_at"]?.stringValue?.hasSuffix("Z") == true)
        }
    }

    @Test("A push ends a wait, and at its limit the wait returns the entries so far")
    func longPoll() async throws {
        try await withControl { control in
            try await control.call("PUT", Self.device, #"{"environment":"production"}"#)
            async let inbox = control.call("GET", Self.device + "/inbox?wait_count=2&timeout_seconds=30")
            async let journal = control.call("GET", "/v1/journal?after=1&wait_count=1&timeout_seconds=30")
            let client = try control.test.client()
            for _ in 0..<2 { #expect(try client.send(control.test.push()).status == 200) }
            #expect(try await inbox.json?["count"]?.integerValue == 2)
            #expect(try await journal.json?["requests"]?.arrayValue?.count == 1)
            let late = try await control.call("GET", Self.device + "/inbox?wait_count=3&timeout_seconds=0")
            #expect(late.json?["count"]?.integerValue == 2)
        }
    }

    @Test("A wait does not delay the end of the simulator")
    func shutdownEndsWaits() async throws {
        try await withControl { control in
            try await control.call("PUT", Self.device, #"{"environment":"production"}"#)
            let path = Self.device + "/inbox?wait_count=1&timeout_seconds=600"
            let waiting = Task { try await control.call("GET", path, timeout: .minutes(10)) }
            while control.test.simulator.world.state.withLock(\.waiters.isEmpty) { await Task.yield() }
            await control.stop()
            #expect(try await waiting.value.json?["count"]?.integerValue == 0)
        }
    }

    @Test("A script comes as JSON")
    func script() async throws {
        try await withControl { control in
            let body = #"""
                {"answers":[{"status":429,"reason":"TooManyRequests"},{"status":410,"reason":"Unregistered","timestamp_ms":7,"delay_ms":5},
                 {"action":"reset","error_code":2},{"status":200}],"then":"repeat"}
                """#
            let set = try await control.call("PUT", Self.device + "/script", body)
            #expect(set.status == 200)
            #expect(set.json?["answers"]?.integerValue == 4)
            let client = try control.test.client()
            let answers = try (0..<5).map { _ in try client.send(control.test.push()) }
            #expect(answers.map(\.status) == [429, 410, 0, 200, 429])
            #expect(answers[1].body == #"{"reason":"Unregistered","timestamp":7}"#)
            #expect(try await control.call("DELETE", Self.device + "/script").status == 204)
            #expect(try client.send(control.test.push()).status == 200)
        }
    }

    @Test("The journal shows every request, and the counters show the sums")
    func journal() async throws {
        try await withControl { control in
            let client = try control.test.client()
            _ = try client.send(control.test.push())
            _ = try client.send(control.test.push().with("apns-priority", "4"))
            let requests = try #require(try await control.call("GET", "/v1/journal").json?["requests"]?.arrayValue)
            #expect(requests.count == 2)
            #expect(requests[0]["sequence"]?.integerValue == 1)
            #expect(requests[0]["token"]?.stringValue == TestPush.token)
            #expect(requests[0]["status"]?.integerValue == 200)
            #expect(requests[0]["topic"]?.stringValue == TestPush.topic)
            #expect(requests[0]["push_type"]?.stringValue == "alert")
            #expect(requests[0]["connection"]?.integerValue == 1)
            #expect(requests[0]["stream"]?.integerValue == 1)
            #expect(requests[1]["reason"]?.stringValue == "BadPriority")
            let later = try await control.call("GET", "/v1/journal?after=1&limit=5").json
            #expect(later?["requests"]?.arrayValue?.count == 1)
            #expect(later?["last_sequence"]?.integerValue == 2)
            #expect(try await control.call("DELETE", "/v1/journal").status == 204)
            #expect(try await control.call("GET", "/v1/journal").json?["requests"]?.arrayValue?.isEmpty == true)
            let counters = try await control.call("GET", "/v1/counters").json
            #expect(counters?["requests"]?.integerValue == 2)
            #expect(counters?["accepted"]?.integerValue == 1)
            #expect(counters?["rejections"]?[0]?["reason"]?.stringValue == "BadPriority")
            #expect(counters?["connections"]?["open"]?.integerValue == 1)
        }
    }

    @Test("Commands reach live connections")
    func commands() async throws {
        try await withControl { control in
            let client = try control.test.client()
            _ = try client.send(control.test.push())
            #expect(try await control.call("POST", "/v1/commands", #"{"command":"streams","streams":7}"#).status == 202)
            try client.run { $0.limits.last == 7 }
            let body = #"{"command":"goaway","reason":"Shutdown","last_stream":1,"environment":"production"}"#
            #expect(try await control.call("POST", "/v1/commands", body).status == 202)
            try client.run { !$0.goAways.isEmpty }
            #expect(client.goAways[0].debug == #"{"reason":"Shutdown"}"#)
            let other = try control.test.client()
            try await control.call("POST", "/v1/commands", #"{"command":"close"}"#)
            try other.run { $0.isOver }
        }
    }

    @Test(
        "The API reports a wrong request as a problem document",
        arguments: [
            ("PUT", device, "{", 400, "malformed_json", ""),
            ("PUT", device, "{}", 400, "invalid_request", "/environment"),
            ("PUT", device, #"{"environment":"moon"}"#, 400, "invalid_request", "/environment"),
            ("PUT", device, #"{"environment":"sandbox","colour":"red"}"#, 400, "invalid_request", "/colour"),
            ("PUT", device, #"{"environment":"sandbox","state":"lost"}"#, 400, "invalid_request", "/state"),
            ("PUT", "/v1/devices/xyz", #"{"environment":"sandbox"}"#, 400, "invalid_token", ""),
            ("PUT", device + "/script", "{}", 400, "invalid_request", "/answers"),
            ("PUT", device + "/script", #"{"answers":[{}]}"#, 400, "invalid_request", "/answers/0/status"),
            ("PUT", device + "/script", #"{"answers":[{"status":100}]}"#, 400, "invalid_request", "/answers/0/status"),
            ("PUT", device + "/script", #"{"answers":[{"status":400,"resaon":"x"}]}"#, 400, "invalid_request", "/answers/0/resaon"),
            ("PUT", device + "/script", #"{"answers":[],"then":"repeat"}"#, 400, "invalid_request", "/answers"),
            ("POST", "/v1/commands", #"{"command":"dance"}"#, 400, "invalid_request", "/command"),
            ("POST", "/v1/commands", #"{"command":"streams"}"#, 400, "invalid_request", "/streams"),
            ("GET", "/v1/journal?after=x", "", 400, "invalid_query", ""),
            ("GET", "/v1/journal?from=1", "", 400, "invalid_query", ""),
            ("GET", "/v1/counters?since=1", "", 400, "invalid_query", ""),
            ("DELETE", "/v1/journal?after=1", "", 400, "invalid_query", ""),
            ("GET", "/v1/journal?limit=200001", "", 400, "invalid_query", ""),
            ("GET", "/v1/nothing", "", 404, "not_found", ""),
        ])
    func problems(_ method: String, _ path: String, _ body: String, _ status: Int, _ code: String, _ pointer: String) async throws {
        try await withControl { control in
            let answer = try await control.call(method, path, body.isEmpty ? nil : body)
            #expect(answer.status == UInt(status))
            #expect(answer.contentType == "application/problem+json")
            #expect(answer.json?["code"]?.stringValue == code)
            #expect(answer.json?["errors"]?[0]?["pointer"]?.stringValue ?? "" == pointer)
        }
    }

    @Test("A machine asks for its health")
    func health() async throws {
        try await withControl { control in
            let health = try await control.call("GET", "/healthz")
            #expect(health.status == 200 && health.json?["status"]?.stringValue == "ok")
        }
    }
}
