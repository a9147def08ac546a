import OpenSSL
import SystemIO
import TestIdentity
import Testing

@testable import APNsSimulator

@Suite("A simulator that runs out of descriptors serves again when it has some", .timeLimit(.minutes(5)))
struct DescriptorTests {
    private static func connect(_ port: Int) throws -> TCPSocket {
        try TCPSocket.connect(to: SocketAddress.resolve(host: "127.0.0.1", port: port)[0], timeout: .seconds(5))
    }

    /// The status of a push over a new connection; nil while no server answers.
    private static func status(_ port: Int, _ push: TestPush) -> Int? {
        do {
            return try PushClient(port: port).send(push).status
        } catch {
            return nil
        }
    }

    @Test("The simulator serves clients afterwards that waited on both ports without descriptors")
    func exhausted() async throws {
        let program = try RunningProgram(limits: "-n 64")
        let push = TestPush().with(
            "authorization", try TestIdentity.shared.get().key.bearer(issuedAt: WallClock.milliseconds() / 1000))
        let ports = [program.port("production"), program.port("sandbox")]
        let patience = ContinuousClock.now + .seconds(60)
        #expect(Self.status(ports[0], push) == 200)
        // More connections than the simulator may have. The kernel keeps the others in the queues of both listeners.
        let clients = try (0..<100).map { try Self.connect(ports[$0 % 2]) }
        for client in clients { client.close() }
        for port in ports {
            while Self.status(port, push) != 200 {
                try #require(ContinuousClock.now < patience, "no server answers at port \(port) any more")
            }
        }
        #expect(program.end().contains("Cannot accept connections"))
    }

    @Test("The simulator closes a connection beyond its limit and accepts a new one when another has ended")
    func most() async throws {
        try await withSimulator {
            $0.connections = 3
            $0.threads = 2
        } _: { test in
            let clients = try (0..<3).map { try test.client($0 == 0 ? .sandbox : .production) }
            for client in clients { #expect(try client.send(test.push()).status == 200) }
            for _ in 0..<5 { #expect(throws: (any Error).self) { try test.client() } }
            #expect(test.simulator.counters.connectionsOpen == 3)
            clients[1].close()
            let patience = ContinuousClock.now + .seconds(60)
            while Self.status(test.simulator.productionPort, test.push()) != 200 { try #require(ContinuousClock.now < patience) }
        }
    }

    @Test("The simulator is unhealthy if a loop ended by itself")
    func health() async throws {
        try await withControl { control in
            #expect(try await control.call("GET", "/healthz").status == 200)
            control.test.simulator.service.noteLoopFailed()
            let answer = try await control.call("GET", "/healthz")
            #expect(answer.status == 503)
            #expect(answer.text.contains(#""status":"event_loop_ended""#))
        }
    }
}
