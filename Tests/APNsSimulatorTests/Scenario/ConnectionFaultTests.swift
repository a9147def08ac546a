import APNsSimulator
import HTTP2
import OpenSSL
import SystemIO
import Testing

@Suite("A scenario's rules apply to new connections, and its events to live ones", .timeLimit(.minutes(5)))
struct ConnectionFaultTests {
    private func with(_ members: String, _ body: (TestSimulator) async throws -> Void) async throws {
        try await withSimulator {
            $0.scenario = try Scenario(text: #"{"v":1,"name":"test",\#(members)}"#)
            $0.streamGate = false
        } _: { test in
            try await body(test)
        }
    }

    private func expectService(_ test: TestSimulator) throws {
        let client = try test.client()
        #expect(try client.send(test.push()).status == 200)
    }

    /// The reason why TLS failed.
    private func failure(_ connect: () throws -> PushClient) -> TLSError? {
        do {
            _ = try connect()
            return nil
        } catch {
            return error as? TLSError
        }
    }

    private func first(_ action: String) -> String {
        #""connections":[{"positions":[1],"do":[{"action":"\#(action)"}]}]"#
    }

    @Test("The simulator refuses a connection before TLS and accepts the second")
    func refuse() async throws {
        try await with(first("refuse")) { test in
            #expect(throws: (any Error).self) { try test.client() }
            try expectService(test)
            #expect(test.simulator.counters.handshakesFailed == 1)
        }
    }

    @Test("The simulator refuses a connection in TLS with an alert")
    func refuseTLS() async throws {
        try await with(first("refuse_tls")) { test in
            let error = failure { try test.client() }
            #expect(error?.code == .alert)
            try expectService(test)
        }
    }

    @Test("A client refuses a certificate for another name")
    func wrongCertificate() async throws {
        try await with(first("wrong_certificate")) { test in
            let error = failure { try test.client() }
            guard case .certificate = error?.code else {
                Issue.record("not refused for its certificate")
                return
            }
            try expectService(test)
        }
    }

    @Test("TLS without h2 ends the connection")
    func noALPN() async throws {
        try await with(first("no_alpn")) { test in
            let client = try test.client()
            try client.run { $0.isOver }
            #expect(client.limits.isEmpty)
            try expectService(test)
        }
    }

    @Test("A stalled handshake goes on when its time is up")
    func stallTLS() async throws {
        try await with(#""connections":[{"do":[{"action":"stall_tls","for_ms":50}]}]"#) { test in
            let begin = ContinuousClock.now
            try expectService(test)
            #expect(ContinuousClock.now - begin >= .milliseconds(50))
        }
    }

    @Test("A handshake that stalls for ever stays open until a command ends it")
    func stallTLSForever() async throws {
        try await with(first("stall_tls")) { test in
            let context = try TLSContext.client(alpn: ["h2"])
            let tls = try TLSSession(client: context, serverName: "localhost")
            let address = try SocketAddress.resolve(host: "127.0.0.1", port: test.simulator.productionPort)[0]
            let socket = try TCPSocket.connect(to: address, timeout: .seconds(5))
            defer { socket.close() }
            _ = try tls.handshake()
            let hello = tls.takeOutput()
            _ = try socket.write(hello.span)
            try expectService(test)
            #expect(test.simulator.counters.connectionsOpened == 2)
            var buffer = [UInt8](repeating: 0, count: 1000)
            let answer = try socket.read(into: &buffer)
            #expect(answer == .wouldBlock)
            test.simulator.closeConnections(.connection(1))
            let poller = try Poller()
            try poller.add(socket.descriptor, key: 1, interest: .read)
            _ = try poller.wait(timeout: .seconds(20))
            let end = try socket.read(into: &buffer)
            #expect(end == .endOfStream)
        }
    }

    @Test("A connection that is dead from the start says nothing")
    func freeze() async throws {
        try await with(first("freeze")) { test in
            let client = try test.client()
            let stream = try client.submit(test.push())
            client.http2.ping(7)
            try client.poll()
            _ = await test.simulator.journal(reaching: 1)
            test.simulator.closeConnections()
            try client.run { $0.isOver }
            #expect(client.responses[stream] == nil)
            #expect(client.pongs.isEmpty)
            #expect(client.limits.isEmpty)
        }
    }

    @Test("Fewer streams and no window from the start")
    func narrow() async throws {
        let rules = #""connections":[{"positions":[1],"do":[{"action":"streams","streams":4}]},{"do":[{"action":"window","bytes":0}]}]"#
        try await with(rules) { test in
            let few = try test.client()
            #expect(try few.send(test.push()).status == 200)
            #expect(few.limits == [4])
            let shut = try test.client()
            try shut.roundTrip(1)
            let stalled = try shut.submit(test.push())
            try shut.roundTrip(2)
            #expect(shut.closed[stalled] == nil)
            try test.simulator.playNothing()
            try shut.run { $0.closed[stalled] != nil }
        }
    }

    @Test("Events strike at their moment, again and again, and only their environment")
    func events() async throws {
        try await withSimulator {
            $0.streamGate = false
        } _: { test in
            let (production, sandbox) = (try test.client(), try test.client(.sandbox))
            #expect(try production.send(test.push()).status == 200)
            try test.simulator.play(
                Scenario(
                    text: #"""
                        {"v":1,"name":"test","events":[
                          {"at_ms":10,"every_ms":40,"environment":"production","action":"streams","streams":5},
                          {"at_ms":30,"every_ms":40,"environment":"production","action":"streams","streams":6}]}
                        """#))
            try production.run { $0.limits.count >= 6 }
            #expect(Set(production.limits.dropFirst()) == [5, 6])
            #expect((test.simulator.performance?.strikes.first?.count ?? 0) >= 2)
            try test.simulator.play(
                Scenario(
                    text: #"""
                        {"v":1,"name":"test","events":[
                          {"at_ms":10,"environment":"production","action":"goaway","reason":"Shutdown","close":true}]}
                        """#))
            try production.run { $0.isOver }
            #expect(production.goAways.map(\.debug) == [#"{"reason":"Shutdown"}"#])
            #expect(try sandbox.send(test.push()).status == 200)
            #expect(sandbox.limits == [1000])
        }
    }

    @Test("A GOAWAY that is only a notice leaves even an idle connection open; the one that follows ends it")
    func notice() async throws {
        try await withSimulator {
            $0.streamGate = false
        } _: { test in
            let (noticed, late, other) = (try test.client(), try test.client(), try test.client(.sandbox))
            for client in [noticed, late] { #expect(try client.send(test.push()).status == 200) }
            func goAway(_ fields: String) throws {
                let event = #"{"at_ms":0,"environment":"production","action":"goaway"\#(fields)}"#
                try test.simulator.play(Scenario(text: #"{"v":1,"name":"test","events":[\#(event)]}"#))
            }
            try goAway(#","last_stream":"all""#)
            try noticed.run { $0.goAways.count == 1 }
            // The same loop answers this request after the first.
            #expect(try other.send(test.push()).status == 200)
            #expect(test.simulator.counters.connectionsOpen == 3)
            // The simulator serves the request in flight, because the notice allows it.
            #expect(try late.send(test.push()).status == 200)
            try goAway("")
            try noticed.run { $0.isOver }
        }
    }

    @Test("Another scenario ends the silence of the one before, and not a silence by command", arguments: [false, true])
    func silence(_ isCommanded: Bool) async throws {
        try await withSimulator {
            $0.streamGate = false
        } _: { test in
            let client = try test.client()
            try client.roundTrip(1)
            try test.simulator.play(
                Scenario(
                    text: #"{"v":1,"name":"test","events":[{"at_ms":0,"action":"silence"},{"at_ms":1,"action":"streams","streams":9}]}"#))
            try client.run { $0.limits.last == 9 }
            let swallowed = try client.submit(test.push())
            try client.roundTrip(2)
            if isCommanded { test.simulator.setSilent(true) }
            try test.simulator.playNothing()
            try client.run { $0.limits.last == 1000 }
            let next = try client.submit(test.push())
            try client.roundTrip(3)
            #expect((client.closed[next] == nil) == isCommanded)
            #expect(client.closed[swallowed] == nil)
            #expect(test.simulator.journal().map(\.action) == [.silence, isCommanded ? .silence : .answer])
        }
    }

    @Test("If several scenarios are set at once, the simulator shows the one that it plays")
    func race() async throws {
        try await withSimulator {
            $0.streamGate = false
            $0.streamPenalty = false
        } _: { test in
            let client = try test.client()
            try client.roundTrip(1)
            let scenarios = try [500, 503].map {
                try Scenario(text: #"{"v":1,"name":"\#($0)","requests":[{"do":[{"action":"answer","status":\#($0)}]}]}"#)
            }
            for round in 0..<300 {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for number in 0..<8 {
                        group.addTask { @concurrent in try test.simulator.play(scenarios[number % 2]) }
                    }
                    try await group.waitForAll()
                }
                // Commands and requests take different paths. A stream limit that the test sends last proves that the loop has taken every
                // scenario.
                test.simulator.setStreams(100 + round)
                try client.run { $0.limits.last == 100 + round }
                #expect(try String(client.send(test.push()).status) == test.simulator.performance?.scenario.name)
            }
        }
    }

    @Test("Another scenario ends the events of the one before")
    func replaced() async throws {
        try await withSimulator {
            $0.streamGate = false
            $0.scenario = try Scenario(text: #"{"v":1,"name":"test","events":[{"at_ms":50,"action":"close"}]}"#)
        } _: { test in
            let client = try test.client()
            try test.simulator.play(
                Scenario(text: #"{"v":1,"name":"test","events":[{"at_ms":80,"action":"streams","streams":9}]}"#))
            try client.run { $0.limits.last == 9 }
            #expect(try client.send(test.push()).status == 200)
        }
    }
}
