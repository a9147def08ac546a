import APNsSimulator
import HTTP2
import Testing

@Suite("A scenario's network delays every frame, in order", .timeLimit(.minutes(5)))
struct RoundTripTests {
    private func scenario(_ milliseconds: Int) throws -> Scenario {
        try Scenario(text: #"{"v":1,"name":"far","round_trip_ms":\#(milliseconds)}"#)
    }

    private func time(_ body: () throws -> Void) rethrows -> Duration {
        try ContinuousClock().measure(body)
    }

    @Test("The handshake, a PING and an answer take at least a round trip each; another scenario ends that")
    func delay() async throws {
        try await withSimulator {
            $0.streamGate = false
            $0.scenario = try scenario(80)
        } _: { test in
            var client: PushClient?
            #expect(try time { client = try test.client() } >= .milliseconds(80))
            let far = try #require(client)
            #expect(try time { try far.roundTrip(1) } >= .milliseconds(80))
            #expect(try time { _ = try far.send(test.push()) } >= .milliseconds(80))
            #expect(test.simulator.journal().count == 1)
            try test.simulator.playNothing()
            #expect(try far.send(test.push()).status == 200)
        }
    }

    @Test("Frames keep their order even if the network becomes quicker between them; other connections are not delayed")
    func order() async throws {
        try await withSimulator {
            $0.streamGate = false
            $0.scenario = try scenario(300)
        } _: { test in
            let client = try RawClient(port: test.simulator.productionPort)
            try client.roundTrip("setup...")
            for stream in 0..<40 {
                if stream == 20 { try test.simulator.play(scenario(1)) }
                try client.send(BacklogTests.push(test, stream, "aa"))
                _ = await test.simulator.journal(reaching: stream + 1)
            }
            let near = try test.client()
            #expect(try near.send(test.push()).status == 200)
            try client.roundTrip("allcame.")
            let answered = client.frames.filter { $0.kind == RawFrame.Kind.headers.rawValue }.map(\.stream)
            let expected: [UInt32] = (0..<40).map { 2 * $0 + 1 }
            #expect(answered == expected)
        }
    }

    @Test("Frames in flight arrive before the end of their connection")
    func end() async throws {
        try await withSimulator {
            $0.streamGate = false
            $0.scenario = try scenario(100)
        } _: { test in
            try test.simulator.script("bb", [.close])
            let client = try test.client()
            let streams = try (0..<3).map { _ in try client.submit(test.push()) }
            _ = try client.submit(test.push().to("bb"))
            try client.runToTheEnd()
            #expect(streams.map { client.responses[$0]?.status } == [200, 200, 200])
            #expect(test.simulator.counters.lost == 0)
        }
    }

    @Test("A network is no slower than four seconds, and no quicker than at once", arguments: [-1, 4001])
    func bounds(_ milliseconds: Int) {
        let error = #expect(throws: SimulatorError.self) { try scenario(milliseconds) }
        #expect(error?.description.contains("/round_trip_ms") == true)
    }
}
