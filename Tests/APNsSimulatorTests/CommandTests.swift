import APNsSimulator
import HTTP2
import Testing

@Suite("Live connections follow commands", .timeLimit(.minutes(5)))
struct CommandTests {
    /// A client whose connection is open and authenticated.
    private func authenticated(_ test: TestSimulator, _ environment: SimulatorEnvironment = .production) throws -> PushClient {
        let client = try test.client(environment)
        #expect(try client.send(test.push()).status == 200)
        try client.run { $0.limits.last == 1000 }
        return client
    }

    @Test("GOAWAY says why, takes no new streams, and lets open ones finish")
    func goAway() async throws {
        try await withSimulator { test in
            try test.simulator.script("aa", [.accept.delayed(by: .milliseconds(60))])
            let client = try authenticated(test)
            let open = try client.submit(test.push().to("aa"))
            try client.roundTrip(1)
            test.simulator.goAway(reason: .shutdown)
            try client.run { !$0.goAways.isEmpty }
            #expect(client.goAways[0].lastStream == open)
            #expect(client.goAways[0].code == .noError)
            #expect(client.goAways[0].debug == #"{"reason":"Shutdown"}"#)
            #expect(throws: HTTP2Error.self) { try client.submit(test.push()) }
            try client.run { $0.closed[open] != nil }
            #expect(client.responses[open]?.status == 200)
        }
    }

    @Test("GOAWAY with a last stream in the middle loses the streams above it, and only those")
    func goAwayInTheMiddle() async throws {
        try await withSimulator { test in
            try test.simulator.script("aa", [.silence], then: .repeat)
            let client = try authenticated(test)
            let streams = try (0..<4).map { _ in try client.submit(test.push().to("aa")) }
            try client.roundTrip(1)
            test.simulator.goAway(reason: nil, text: "Maximum active streams violated for this endpoint.", lastStream: streams[1], code: 7)
            try client.run { $0.closed.count == 3 }
            #expect(client.goAways[0].debug == "Maximum active streams violated for this endpoint.")
            #expect(client.goAways[0].code.rawValue == 7)
            #expect([streams[2], streams[3]].allSatisfy { client.closed[$0] == .refusedStream })
            #expect([streams[0], streams[1]].allSatisfy { client.closed[$0] == nil })
        }
    }

    @Test("The stream limit of live connections follows")
    func streams() async throws {
        try await withSimulator { test in
            let client = try authenticated(test)
            test.simulator.setStreams(3)
            try client.run { $0.limits.last == 3 }
            #expect(try client.send(test.push()).status == 200)
            #expect(try client.send(test.push().with("apns-priority", "2")).status == 400)
            #expect(try client.send(test.push()).status == 200)
            try client.roundTrip(1)
            #expect(client.limits == [1, 1000, 3, 1, 3])
        }
    }

    @Test("A silent connection swallows its pushes until it may speak again")
    func silent() async throws {
        try await withSimulator { test in
            let client = try authenticated(test)
            test.simulator.setSilent(true)
            // Commands and requests take different paths. A stream limit that the test sends after the command proves that the command has
            // arrived.
            test.simulator.setStreams(50)
            try client.run { $0.limits.last == 50 }
            let swallowed = try client.submit(test.push())
            try client.roundTrip(1)
            test.simulator.setSilent(false)
            test.simulator.setStreams(51)
            try client.run { $0.limits.last == 51 }
            #expect(try client.send(test.push()).status == 200)
            #expect(client.closed[swallowed] == nil)
            #expect(test.simulator.journal().map(\.action) == [.answer, .silence, .answer])
        }
    }

    @Test("Commands reach the connections they are for")
    func selection() async throws {
        try await withSimulator {
            $0.threads = 3
        } _: { test in
            let production = try (0..<4).map { _ in try authenticated(test) }
            let sandbox = try authenticated(test, .sandbox)
            #expect(test.simulator.counters.connectionsOpen == 5)
            let second = try #require(test.simulator.journal().dropFirst().first?.connection)
            test.simulator.closeConnections(.connection(second))
            try production[1].run { $0.isOver }
            #expect(try production[0].send(test.push()).status == 200)
            test.simulator.closeConnections(.environment(.production))
            for client in [production[0], production[2], production[3]] { try client.run { $0.isOver } }
            #expect(try sandbox.send(test.push()).status == 200)
        }
    }

    @Test("Stopping closes every connection and both ports, and may be repeated")
    func stop() async throws {
        try await withSimulator { test in
            let client = try authenticated(test)
            let port = test.simulator.productionPort
            test.simulator.stop()
            test.simulator.stop()
            try client.run { $0.isOver }
            #expect(throws: (any Error).self) { try PushClient(port: port) }
            #expect(test.simulator.productionPort == 0)
        }
    }
}
