import APNsSimulator
import StrictJSON
import TestIdentity
import Testing

@Suite("The lock screen when activities end, apps are removed and tokens change", .timeLimit(.minutes(5)))
struct LeavingTests {
    private let old = TestPush.token
    private let new = String(repeating: "ff00", count: 16)

    private func activity(_ test: TestSimulator, _ event: String, _ timestamp: Int, _ more: String = "") -> TestPush {
        test.push().with("apns-topic", TestPush.topic + ".push-type.liveactivity").with("apns-push-type", "liveactivity")
            .body(#"{"aps":{"event":"\#(event)","timestamp":\#(timestamp),"content-state":{"at":\#(timestamp)}\#(more)}}"#)
    }

    private func states(_ test: TestSimulator) throws -> [String?] {
        try test.simulator.inbox(old).map(\.content.activity?.contentState)
    }

    @Test("After its end nothing changes a Live Activity, also once it has left; a start begins another")
    func end() async throws {
        try await withSimulator { test in
            try test.simulator.install(old)
            let client = try test.client()
            _ = try client.send(activity(test, "update", 10))
            let goodbye = test.clock.now / 1000 + 60
            _ = try client.send(activity(test, "end", 20, #","dismissal-date":\#(goodbye)"#))
            #expect(try client.send(activity(test, "update", 30)).status == 200)
            #expect(try states(test) == [#"{"at":20}"#])
            test.clock.advance(by: .seconds(61))
            _ = try client.send(activity(test, "update", 40))
            #expect(try states(test) == [])
            #expect(try test.simulator.device(old)?.inboxCount == 0)
            #expect(try await test.simulator.inbox(old, reaching: 1, timeout: .zero).isEmpty)
            _ = try client.send(activity(test, "start", 50))
            #expect(try states(test) == [#"{"at":50}"#])
            #expect(try await test.simulator.inbox(old, reaching: 1).count == 1)
        }
    }

    @Test("An activity that was opened does not forget how far it was")
    func open() async throws {
        try await withSimulator { test in
            try test.simulator.install(old)
            let client = try test.client()
            _ = try client.send(activity(test, "update", 20))
            try test.simulator.open(old)
            _ = try client.send(activity(test, "update", 10))
            #expect(try states(test) == [])
        }
    }

    @Test("Pushes for the app itself never show", arguments: ["voip", "location", "pushtotalk", "complication"])
    func silent(_ type: String) async throws {
        let suffix = ["voip": "voip", "location": "location-query", "pushtotalk": "voip-ptt", "complication": "complication"][type] ?? ""
        try await withSimulator { test in
            try test.simulator.install(old)
            let push = test.push().with("apns-topic", "\(TestPush.topic).\(suffix)").with("apns-push-type", type)
            #expect(try test.client().send(push).status == 200)
            #expect(try test.simulator.inbox(old).isEmpty)
            #expect(try test.simulator.device(old)?.acceptedCount == 1)
        }
    }

    @Test("A token that expired leaves the app and its lock screen")
    func expire() async throws {
        try await withSimulator { test in
            try test.simulator.install(old)
            let client = try test.client()
            #expect(try client.send(test.push()).status == 200)
            #expect(try test.simulator.expire(old))
            #expect(try client.send(test.push()).body == #"{"reason":"ExpiredToken","timestamp":\#(test.clock.now)}"#)
            #expect(try test.simulator.inbox(old).count == 1)
        }
    }

    @Test("The old token of a reinstalled app is 410 at once, since the app was removed")
    func reinstall() async throws {
        try await withControl { control in
            let test = control.test
            let client = try test.client()
            try test.simulator.install(old)
            let removed = test.clock.now - 60_000
            let path = "/v1/devices/\(old)/actions"
            let body = #"{"action":"uninstall","at_ms":\#(removed),"pushes_until_gone":100}"#
            #expect(try await control.call("POST", path, body).status == 200)
            #expect(try client.send(test.push()).status == 200)
            #expect(try test.simulator.reinstall(old, as: new))
            #expect(try client.send(test.push()).body == #"{"reason":"Unregistered","timestamp":\#(removed)}"#)
        }
    }

    @Test("A key that is suspended, revoked and restored is so on live connections, until each changes")
    func keys() async throws {
        try await withControl { control in
            let client = try control.test.client()
            let path = "/v1/keys/\(TestIdentity.keyID)"
            let expected = [
                ("suspended", "Forbidden"), ("revoked", "InvalidProviderToken"), ("active", ""), ("revoked", "InvalidProviderToken"),
            ]
            #expect(try client.send(control.test.push()).status == 200)
            for (state, reason) in expected {
                let set = try await control.call("PUT", path, #"{"state":"\#(state)"}"#)
                #expect(set.status == 200 && set.json?["state"]?.stringValue == state)
                #expect(try await control.call("GET", "/v1/keys").json?["keys"]?[0]?["state"]?.stringValue == state)
                let body = try client.send(control.test.push()).body
                #expect(body == (reason.isEmpty ? "" : #"{"reason":"\#(reason)"}"#))
            }
            #expect(try await control.call("PUT", "/v1/keys/KEY9999999", #"{"state":"active"}"#).status == 404)
            #expect(try await control.call("PUT", path, #"{"state":"lost"}"#).status == 400)
        }
    }
}
