import APNsSimulator
import HTTP2
import Testing

@Suite("Devices answer for their state and show what arrives", .timeLimit(.minutes(5)))
struct DeviceTests {
    @Test("An uninstalled device is 410 with its moment in milliseconds; installed again it is well")
    func uninstalled() async throws {
        try await withSimulator { test in
            try test.simulator.install(TestPush.token)
            let client = try test.client()
            #expect(try client.send(test.push()).status == 200)
            try test.simulator.uninstall(TestPush.token, since: 1_700_000_000_123)
            let gone = try client.send(test.push())
            #expect(gone.status == 410)
            #expect(gone.body == #"{"reason":"Unregistered","timestamp":1700000000123}"#)
            #expect(try test.simulator.inbox(TestPush.token).isEmpty)
            try test.simulator.install(TestPush.token)
            #expect(try client.send(test.push()).status == 200)
        }
    }

    @Test("A device of the other environment, or of another topic, is refused")
    func wrongPlace() async throws {
        try await withSimulator { test in
            try test.simulator.install(TestPush.token, environment: .sandbox, topics: ["com.example.other"])
            #expect(try test.client().send(test.push()).body == #"{"reason":"BadDeviceToken"}"#)
            let sandbox = try test.client(.sandbox)
            #expect(try sandbox.send(test.push()).body == #"{"reason":"DeviceTokenNotForTopic"}"#)
            #expect(try sandbox.send(test.push().with("apns-topic", "com.example.other")).status == 200)
        }
    }

    @Test("The simulator accepts unknown tokens unless it is configured to reject them", arguments: UnknownDevices.allCases)
    func unknown(_ policy: UnknownDevices) async throws {
        try await withSimulator {
            $0.unknownDevices = policy
        } _: { test in
            let response = try test.client().send(test.push())
            #expect(response.body == (policy == .accept ? "" : #"{"reason":"BadDeviceToken"}"#))
            #expect(test.simulator.devices().isEmpty)
        }
    }

    @Test("A request that may not be sent does not learn the state of the device")
    func credentialsFirst() async throws {
        try await withSimulator { test in
            try test.simulator.install(TestPush.token)
            try test.simulator.uninstall(TestPush.token)
            #expect(try test.client().send(TestPush()).status == 403)
        }
    }

    @Test("apns-id is echoed, or made in upper case; the sandbox adds a unique id")
    func ids() async throws {
        try await withSimulator { test in
            let id = "03ff9497-8a6b-4f2c-9c86-0a1b2c3d4e5f"
            let production = try test.client()
            let echoed = try production.send(test.push().with("apns-id", id))
            #expect(echoed.apnsID == id)
            #expect(echoed.uniqueID == nil)
            let made = try #require(try production.send(test.push()).apnsID)
            #expect(made.utf8.count == 36)
            #expect(made == made.uppercased())
            let another = try production.send(test.push()).apnsID
            #expect(made != another)
            let sandbox = try test.client(.sandbox)
            let unique = try #require(try sandbox.send(test.push()).uniqueID)
            #expect(unique.utf8.count == 36)
            #expect(try sandbox.send(test.push().with("authorization", nil)).uniqueID != nil)
            #expect(test.simulator.journal().map(\.apnsID).prefix(2) == [id, made])
        }
    }

    @Test("The lock screen shows title, body, badge, category and thread")
    func content() async throws {
        try await withSimulator { test in
            try test.simulator.install(TestPush.token, name: "Ada's phone")
            let body = #"{"aps":{"alert":{"title":"T","subtitle":"S","body":"B"},"badge":3,"sound":"ping","category":"C","thread-id":"X"}}"#
            #expect(try test.client().send(test.push().body(body).with("apns-collapse-id", "one")).status == 200)
            let shown = try #require(try test.simulator.inbox(TestPush.token).first)
            #expect(shown.content.title == "T")
            #expect(shown.content.subtitle == "S")
            #expect(shown.content.body == "B")
            #expect(shown.content.badge == 3)
            #expect(shown.content.sound == "ping")
            #expect(shown.content.category == "C")
            #expect(shown.content.threadID == "X")
            #expect(shown.topic == TestPush.topic)
            #expect(shown.pushType == "alert")
            #expect(shown.collapseID == "one")
            #expect(shown.receivedAt == test.clock.now)
            #expect(try test.simulator.device(TestPush.token)?.badge == 3)
        }
    }

    @Test("A later push with the same collapse id takes the earlier one's place; other ids and topics do not")
    func collapse() async throws {
        try await withSimulator { test in
            try test.simulator.install(TestPush.token)
            let client = try test.client()
            func send(_ text: String, _ collapseID: String?, topic: String = TestPush.topic) throws {
                let body = #"{"aps":{"alert":"\#(text)"}}"#
                let push = test.push().body(body).with("apns-collapse-id", collapseID).with("apns-topic", topic)
                #expect(try client.send(push).status == 200)
            }
            try send("goal 1", "score")
            try send("news", nil)
            try send("other app", "score", topic: "com.example.other")
            try send("goal 2", "score")
            try send("more news", nil)
            #expect(try test.simulator.inbox(TestPush.token).map(\.content.body) == ["news", "other app", "goal 2", "more news"])
        }
    }

    @Test(
        "Background pushes, and alerts with nothing to show, are accepted and show nothing",
        arguments: [
            (#"{"aps":{"content-available":1}}"#, "background", 0), (#"{"aps":{"alert":"sneaky"}}"#, "background", 0),
            (#"{"aps":{}}"#, "alert", 0), (#"{"custom":1}"#, "alert", 0), (#"{"aps":{"badge":0}}"#, "alert", 1),
        ])
    func silent(_ body: String, _ type: String, _ shown: Int) async throws {
        try await withSimulator { test in
            try test.simulator.install(TestPush.token)
            let push = test.push().body(body).with("apns-push-type", type).with("apns-priority", "5")
            #expect(try test.client().send(push).status == 200)
            #expect(try test.simulator.inbox(TestPush.token).count == shown)
            #expect(test.simulator.journal().map(\.isShown) == [shown == 1])
            #expect(try test.simulator.device(TestPush.token)?.acceptedCount == 1)
        }
    }

    @Test("A push that fills an inbox wakes the caller that waits for it")
    func waits() async throws {
        try await withSimulator { test in
            try test.simulator.install(TestPush.token)
            async let inbox = test.simulator.inbox(TestPush.token, reaching: 2)
            async let journal = test.simulator.journal(reaching: 3)
            let client = try test.client()
            for token in [TestPush.token, "ff", TestPush.token] { #expect(try client.send(test.push().to(token)).status == 200) }
            let (shown, noted) = (try await inbox.count, await journal.count)
            #expect(shown == 2)
            #expect(noted == 3)
        }
    }

    @Test("A wait that is not satisfied ends at its limit, at cancellation, and when the simulator stops")
    func waitsEnd() async throws {
        try await withSimulator { test in
            try test.simulator.install(TestPush.token)
            #expect(try await test.simulator.inbox(TestPush.token, reaching: 1, timeout: .milliseconds(20)).isEmpty)
            let cancelled = Task { try await test.simulator.inbox(TestPush.token, reaching: 1, timeout: .seconds(600)) }
            cancelled.cancel()
            #expect(try await cancelled.value.isEmpty)
            async let stopped = test.simulator.journal(reaching: 1, timeout: .seconds(600))
            test.simulator.stop()
            #expect(await stopped.isEmpty)
        }
    }

    @Test("A device's inbox keeps the last thousand")
    func bounded() async throws {
        try await withSimulator { test in
            try test.simulator.install(TestPush.token)
            let client = try test.client()
            #expect(try client.send(test.push()).status == 200)
            var streams: [Int32] = []
            for number in 1...2100 {
                try client.run { $0.hasFreeStream }
                streams.append(try client.submit(test.push().body(#"{"aps":{"alert":"\#(number)"}}"#)))
            }
            try client.run { client in streams.allSatisfy { client.closed[$0] != nil } }
            let inbox = try test.simulator.inbox(TestPush.token)
            #expect(inbox.count == 1000)
            #expect(inbox.first?.content.body == "1101")
            #expect(inbox.last?.content.body == "2100")
        }
    }

    @Test("The API refuses a text that is not a token at once")
    func badTokens() async throws {
        try await withSimulator { test in
            #expect(throws: SimulatorError.self) { try test.simulator.install("xyz") }
            #expect(throws: SimulatorError.self) { try test.simulator.install("") }
            #expect(throws: SimulatorError.self) { try test.simulator.script("abc", []) }
            let isKnown = try test.simulator.uninstall("ab")
            #expect(!isKnown)
        }
    }
}
