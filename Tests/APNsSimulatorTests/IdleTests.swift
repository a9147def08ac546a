import APNsSimulator
import HTTP2
import Testing

@Suite("The simulator ends a silent connection in every state", .timeLimit(.minutes(5)))
struct IdleTests {
    private func with(_ scenario: String = "", _ body: (TestSimulator) async throws -> Void) async throws {
        try await withSimulator {
            $0.streamGate = false
            $0.idleTimeout = .seconds(5)
            if !scenario.isEmpty { $0.scenario = try Scenario(text: #"{"v":1,"name":"test",\#(scenario)}"#) }
        } _: { test in
            try await body(test)
        }
    }

    @Test("A stream that is never answered keeps the connection past the GOAWAY, but not for ever")
    func silentStream() async throws {
        try await with { test in
            try test.simulator.script("aa", [.silence])
            let client = try test.client()
            try client.submit(test.push().to("aa"))
            try client.run { $0.isOver }
            #expect(client.goAways.map(\.debug) == [#"{"reason":"IdleTimeout"}"#])
        }
    }

    @Test("A connection that is frozen or stalled in its handshake ends too", arguments: ["freeze", "stall_tls"])
    func mute(_ action: String) async throws {
        try await with(#""connections":[{"positions":[1],"do":[{"action":"\#(action)"}]}]"#) { test in
            if action == "freeze" {
                try test.client().run { $0.isOver }
            } else {
                #expect(throws: PushClient.Failure.self) { try test.client() }
            }
            #expect(test.simulator.counters.connectionsOpened == 1)
            #expect(test.simulator.counters.connectionsClosed == 1)
            #expect(try test.client().send(test.push()).status == 200)
        }
    }
}
