import APNsSimulator
import HTTP2
import StrictJSON
import Testing

@Suite("The last stream of a GOAWAY", .timeLimit(.minutes(5)))
struct LastStreamTests {
    /// The first GOAWAY of a server that stops (RFC 9113 section 6.8). It refuses nothing yet.
    private static let notice = #"{"v":1,"name":"test","events":[{"at_ms":0,"action":"goaway","last_stream":2147483647}]}"#

    private func push(_ test: TestSimulator) -> [RawFrame] {
        let fields = [
            (":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", "/3/device/aa"),
            ("apns-topic", TestPush.topic), ("authorization", test.token),
        ]
        return [RawFrame.headers(1, fields), RawFrame.data(1, TestPush.alert)]
    }

    @Test("A notice, as a word or as its number, refuses nothing, and requests in flight get their answers")
    func notice() async throws {
        try await withSimulator {
            $0.streamGate = false
        } _: { test in
            let client = try RawClient(port: test.simulator.productionPort)
            #expect(try client.isAlive())
            try test.simulator.play(Scenario(text: Self.notice))
            let goAway = try client.wait { $0.kind == RawFrame.Kind.goAway.rawValue }
            #expect(goAway?.payload.prefix(4) == [0x7f, 0xff, 0xff, 0xff])
            try client.send(push(test))
            #expect(try client.wait { $0.kind == RawFrame.Kind.headers.rawValue && $0.stream == 1 } != nil)
            #expect(test.simulator.counters.accepted == 1)
        }
    }

    @Test("After a notice every other GOAWAY ends the connection", arguments: ["command", "script", "idle"])
    func afterNotice(_ other: String) async throws {
        try await withSimulator {
            $0.streamGate = false
            if other == "idle" { $0.idleTimeout = .seconds(5) }
        } _: { test in
            let client = try RawClient(port: test.simulator.productionPort)
            #expect(try client.isAlive())
            test.simulator.goAway(reason: nil, text: "soon", lastStream: .max)
            try client.wait { $0.kind == RawFrame.Kind.goAway.rawValue }
            switch other {
            case "command": test.simulator.goAway()
            case "script":
                try test.simulator.script("aa", [.goAway()])
                try client.send(push(test))
            default: break
            }
            try client.wait { _ in false }
            #expect(client.isOver)
            let lastStreams = client.frames.filter { $0.kind == RawFrame.Kind.goAway.rawValue }.map { Array($0.payload.prefix(4)) }
            #expect(lastStreams == [[0x7f, 0xff, 0xff, 0xff], [0, 0, 0, 0]])
        }
    }

    @Test("A number that no client stream has means the one below it")
    func even() async throws {
        try await withSimulator {
            $0.streamGate = false
        } _: { test in
            let client = try test.client()
            try test.simulator.script("aa", [.silence], then: .repeat)
            let streams = try (0..<3).map { _ in try client.submit(test.push().to("aa")) }
            try client.roundTrip(1)
            test.simulator.goAway(lastStream: streams[1] + 1)
            try client.run { !$0.goAways.isEmpty }
            #expect(client.goAways.map(\.lastStream) == [streams[1]])
            #expect(client.closed == [streams[2]: .refusedStream])
        }
    }

    @Test("Files and commands that name such a number get an error")
    func refused() async throws {
        for field in ["2", "2147483646"] {
            let error = #expect(throws: SimulatorError.self) {
                try Scenario(text: #"{"v":1,"name":"x","requests":[{"do":[{"action":"goaway","last_stream":\#(field)}]}]}"#)
            }
            #expect(error?.description.contains("/requests/0/do/0/last_stream") == true)
            #expect(error?.description.contains("0 or odd") == true)
        }
        try await withControl { control in
            let answer = try await control.call("POST", "/v1/commands", #"{"command":"goaway","last_stream":4}"#)
            #expect(answer.status == 400)
            #expect(answer.json?["errors"]?[0]?["pointer"]?.stringValue == "/last_stream")
        }
    }
}
