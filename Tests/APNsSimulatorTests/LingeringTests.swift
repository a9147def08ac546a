import HTTP2
import SystemIO
import Testing

@testable import APNsSimulator

/// A client notices a TCP reset at its next write and then does not read the bytes from before. These clients write twice before they read.
@Suite("Bytes that were sent before a connection's end reach the client", .timeLimit(.minutes(5)))
struct LingeringTests {
    /// Returns when the simulator has ended so many connections.
    private func waitForEnds(_ count: Int64, _ test: TestSimulator) async throws {
        let observer = try test.client(.sandbox)
        var trips: UInt64 = 0
        while test.simulator.counters.connectionsClosed < count {
            trips += 1
            try observer.roundTrip(trips)
        }
    }

    @Test("A client with a certificate for the other environment sees the GOAWAY even if it goes on sending")
    func wrongEnvironment() async throws {
        let certificates = try ProviderCertificates()
        try await withSimulator {
            $0.clientCAFile = certificates.authority
            $0.lingering.time = .seconds(60)
        } _: { test in
            let certificate = try certificates.make("sandbox", marks: ProviderCertificates.sandbox)
            let client = try PushClient(port: test.simulator.productionPort, certificate: certificate, firstFlight: TestPush())
            try await waitForEnds(1, test)
            for _ in 0..<2 { try client.write(RawFrame.data(1, "late").bytes); try client.poll() }
            try client.runToTheEnd()
            #expect(client.goAways.map(\.debug) == [#"{"reason":"BadCertificateEnvironment"}"#])
        }
    }

    @Test("Answers from before the close arrive even if the client goes on sending", arguments: [1, 200])
    func answers(_ count: Int) async throws {
        try await withSimulator {
            $0.streamGate = false
            $0.lingering.time = .seconds(60)
        } _: { test in
            try test.simulator.script("cc", [.close])
            let client = try test.client()
            let streams = try (0..<count).map { _ in try client.submit(test.push()) }
            _ = try client.submit(test.push().to("cc"))
            for _ in 0..<100 { _ = try client.submit(test.push().to("dd")) }
            try client.poll()
            try await waitForEnds(1, test)
            for _ in 0..<2 { try client.write(RawFrame.data(1, "late").bytes); try client.poll() }
            try client.runToTheEnd()
            #expect(streams.count { client.responses[$0]?.status == 200 } == count)
            #expect(test.simulator.counters.accepted == Int64(count))
        }
    }

    @Test("The simulator drops a client that never ends its side when the time is up or after too many bytes", arguments: [true, false])
    func bounded(_ isByTime: Bool) async throws {
        try await withSimulator {
            $0.streamGate = false
            $0.lingering = isByTime ? Lingering(time: .milliseconds(50)) : Lingering(time: .seconds(600), bytes: 100_000)
        } _: { test in
            let client = try test.client()
            #expect(try client.send(test.push()).status == 200)
            test.simulator.closeConnections()
            try await waitForEnds(1, test)
            // Writes fail as soon as the simulator's socket is gone.
            let deadline = ContinuousClock.now + .seconds(60)
            let bytes = [UInt8](repeating: 0, count: isByTime ? 1 : 10_000)
            #expect(throws: SystemError.self) {
                while ContinuousClock.now < deadline { _ = try client.socket.write(bytes.span) }
            }
        }
    }

    @Test("If too many connections linger, the simulator closes the oldest")
    func number() async throws {
        try await withSimulator {
            $0.streamGate = false
            $0.lingering = Lingering(time: .seconds(600), sockets: 2)
        } _: { test in
            let clients = try (0..<3).map { _ in try test.client() }
            for client in clients { #expect(try client.send(test.push()).status == 200) }
            for (index, client) in clients.enumerated() {
                test.simulator.closeConnections(.connection(index + 1))
                // The oldest connection ends, and then the others one after another.
                try client.runToTheEnd()
            }
            let byte: [UInt8] = [0]
            let deadline = ContinuousClock.now + .seconds(60)
            #expect(throws: SystemError.self) {
                while ContinuousClock.now < deadline { _ = try clients[0].socket.write(byte.span) }
            }
            for client in clients[1...] {
                for _ in 0..<2 { _ = try client.socket.write(byte.span) }
            }
        }
    }

    @Test("A requested reset is a reset, and unread bytes are gone", arguments: [true, false])
    func abruptly(_ isAbrupt: Bool) async throws {
        try await withControl { control in
            let client = try control.test.client()
            #expect(try client.send(control.test.push()).status == 200)
            let command = #"{"command":"close","abruptly":\#(isAbrupt)}"#
            #expect(try await control.call("POST", "/v1/commands", command).status == 202)
            var buffer = [UInt8](repeating: 0, count: 4096)
            let poller = try Poller()
            try poller.add(client.socket.descriptor, key: 1, interest: .read)
            var end: SystemError?
            do throws(SystemError) {
                while true {
                    _ = try poller.wait(timeout: .seconds(20))
                    if case .endOfStream = try client.socket.read(into: &buffer) { break }
                }
            } catch {
                end = error
            }
            #expect((end != nil) == isAbrupt)
        }
    }
}

extension PushClient {
    /// Reads until the server has closed the connection.
    func runToTheEnd() throws {
        do { try run { _ in false } } catch  where isOver {}
    }
}
