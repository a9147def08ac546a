import APNsSimulator
import StrictJSON
import Testing

@Suite("Devices go off and on, lose apps and change tokens", .timeLimit(.minutes(5)))
struct LivingDeviceTests {
    private let old = TestPush.token
    private let new = String(repeating: "ff00", count: 16)

    private func alert(_ test: TestSimulator, _ title: String, _ aps: String = "") -> TestPush {
        test.push().body(#"{"aps":{"alert":{"title":"\#(title)"}\#(aps)}}"#)
    }

    private func titles(_ test: TestSimulator, _ token: String = TestPush.token) throws -> [String?] {
        try test.simulator.inbox(token).map(\.content.title)
    }

    @Test("APNs accepts pushes for a device that is off; it shows the last one of each topic when it is on again")
    func oneStored() async throws {
        try await withSimulator { test in
            try test.simulator.install(old)
            try test.simulator.setOnline(false, old)
            let client = try test.client()
            for title in ["one", "two", "three"] { #expect(try client.send(alert(test, title)).status == 200) }
            let other = alert(test, "other").with("apns-topic", "com.example.other")
            #expect(try client.send(other).status == 200)
            #expect(try titles(test) == [])
            #expect(try test.simulator.device(old)?.storedCount == 2)
            #expect(test.simulator.counters.shown == 0)
            try test.simulator.setOnline(true, old)
            #expect(try titles(test) == ["three", "other"])
            #expect(try test.simulator.device(old)?.storedCount == 0)
        }
    }

    @Test("A push that may not wait, or has waited too long, never arrives", arguments: ["0", "past", "soon", "later", "absent"])
    func expiration(_ kind: String) async throws {
        try await withSimulator { test in
            try test.simulator.install(old)
            try test.simulator.setOnline(false, old)
            let now = test.clock.now / 1000
            let value: String? = ["0": "0", "past": "300", "soon": String(now + 60), "later": String(now + 600)][kind]
            let client = try test.client()
            #expect(try client.send(alert(test, "waits").with("apns-expiration", value)).status == 200)
            test.clock.advance(by: .seconds(300))
            try test.simulator.setOnline(true, old)
            #expect(try titles(test) == (["later", "absent"].contains(kind) ? ["waits"] : []))
        }
    }

    @Test("A push waits thirty days at most")
    func thirtyDays() async throws {
        try await withSimulator { test in
            try test.simulator.install(old)
            try test.simulator.setOnline(false, old)
            let client = try test.client()
            _ = try client.send(alert(test, "for ever").with("apns-expiration", "999999999999999999"))
            test.clock.advance(by: .seconds(30 * 86_400))
            try test.simulator.setOnline(true, old)
            #expect(try titles(test) == [])
        }
    }

    @Test("A reinstalled app has another token and an empty screen; the old token is 410 from that moment")
    func reinstall() async throws {
        try await withSimulator { test in
            try test.simulator.install(old, name: "Ada's phone")
            let client = try test.client()
            _ = try client.send(alert(test, "before", #","badge":3"#))
            #expect(try test.simulator.reinstall(old, as: new))
            #expect(try client.send(alert(test, "lost")).body == #"{"reason":"Unregistered","timestamp":\#(test.clock.now)}"#)
            #expect(try client.send(alert(test, "after").to(new)).status == 200)
            #expect(try titles(test, new) == ["after"])
            #expect(try titles(test) == [])
            #expect(try test.simulator.device(new)?.device.name == "Ada's phone")
            #expect(try test.simulator.device(new)?.badge == nil)
            #expect(try !test.simulator.reinstall(old, as: new))
        }
    }

    @Test("A rotated token takes the lock screen and the badge with it")
    func rotate() async throws {
        try await withSimulator { test in
            try test.simulator.install(old)
            let client = try test.client()
            _ = try client.send(alert(test, "before", #","badge":3"#))
            #expect(try test.simulator.rotate(old, to: new))
            #expect(try client.send(alert(test, "lost")).status == 410)
            #expect(try client.send(alert(test, "after").to(new)).status == 200)
            #expect(try titles(test, new) == ["before", "after"])
            #expect(try test.simulator.device(new)?.badge == 3)
            try test.simulator.open(new)
            #expect(try titles(test, new) == [])
            #expect(try test.simulator.device(new)?.badge == nil)
        }
    }

    @Test("A device takes a limited number of pushes in a time, and more are 429")
    func throttle() async throws {
        try await withSimulator { test in
            try test.simulator.install(old)
            try test.simulator.setThrottle(Throttle(pushes: 2, per: .seconds(10)), old)
            let client = try test.client()
            let first = try (0..<4).map { _ in try client.send(test.push()).status }
            #expect(first == [200, 200, 429, 429])
            test.clock.advance(by: .seconds(10))
            #expect(try client.send(test.push()).status == 200)
            #expect(try client.send(test.push().to("aa")).status == 200)
        }
    }

    @Test("A Live Activity is one entry, the newest state wins, and it leaves when it is dismissed")
    func liveActivity() async throws {
        try await withSimulator { test in
            try test.simulator.install(old)
            let client = try test.client()
            func update(_ event: String, _ timestamp: Int, _ score: Int, _ more: String = "") throws -> Int {
                try client.send(
                    test.push().with("apns-topic", TestPush.topic + ".push-type.liveactivity").with("apns-push-type", "liveactivity")
                        .body(#"{"aps":{"event":"\#(event)","timestamp":\#(timestamp),"content-state":{"score":\#(score)}\#(more)}}"#)
                ).status
            }
            #expect(try update("update", 10, 1) == 200)
            #expect(try update("update", 30, 3) == 200)
            #expect(try update("update", 20, 2) == 200)
            let shown = try test.simulator.inbox(old)
            #expect(shown.map(\.content.activity?.contentState) == [#"{"score":3}"#])
            let goodbye = test.clock.now / 1000 + 60
            #expect(try update("end", 40, 4, #","dismissal-date":\#(goodbye)"#) == 200)
            #expect(try test.simulator.inbox(old).map(\.content.activity?.contentState) == [#"{"score":4}"#])
            test.clock.advance(by: .seconds(61))
            #expect(try test.simulator.inbox(old).isEmpty)
        }
    }
}
