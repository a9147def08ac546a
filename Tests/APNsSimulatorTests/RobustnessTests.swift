import APNsSimulator
import HTTP2
import OpenSSL
import SystemIO
import Testing

@Suite("A broken client harms no other client", .timeLimit(.minutes(5)))
struct RobustnessTests {
    /// A bare TCP connection.
    private func connect(_ test: TestSimulator) throws -> TCPSocket {
        try TCPSocket.connect(to: SocketAddress.resolve(host: "127.0.0.1", port: test.simulator.productionPort)[0], timeout: .seconds(5))
    }

    /// Waits until the server has closed the connection.
    private func waitForEnd(of socket: TCPSocket) throws {
        let poller = try Poller()
        try poller.add(socket.descriptor, key: 1, interest: .read)
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            guard !(try poller.wait(timeout: .seconds(20)).isEmpty) else {
                throw PushClient.Failure(description: "the connection stays open")
            }
            do throws(SystemError) {
                if case .endOfStream = try socket.read(into: &buffer) { return }
            } catch {
                return
            }
        }
    }

    static let noise: [[UInt8]] = [
        Array("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8), [0x16, 0x03, 0x01, 0xff, 0xff] + [UInt8](repeating: 0xaa, count: 200),
        [UInt8](repeating: 0, count: 1000), [0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x28],
    ]

    @Test("Bytes that are not TLS end only their own connection", arguments: noise)
    func notTLS(_ bytes: [UInt8]) async throws {
        try await withSimulator { test in
            let good = try test.client()
            #expect(try good.send(test.push()).status == 200)
            let bad = try connect(test)
            _ = try bad.write(bytes.span)
            try waitForEnd(of: bad)
            #expect(try good.send(test.push()).status == 200)
            #expect(try test.client().send(test.push()).status == 200)
            #expect(test.simulator.counters.handshakesFailed == 1)
        }
    }

    @Test("The simulator serves a client that offers no ALPN, as Apple does")
    func withoutALPN() async throws {
        try await withSimulator { test in
            let response = try PushClient(port: test.simulator.productionPort, alpn: []).send(test.push())
            #expect(response.status == 200)
        }
    }

    @Test("The simulator drops a client that speaks TLS but not h2", arguments: [["http/1.1"]])
    func notHTTP2(_ alpn: [String]) async throws {
        try await withSimulator { test in
            #expect(throws: (any Error).self) {
                let client = try PushClient(port: test.simulator.productionPort, alpn: alpn)
                try client.run { _ in false }
            }
            let response = try test.client().send(test.push())
            #expect(response.status == 200)
            #expect(test.simulator.counters.handshakesFailed == 1)
        }
    }

    static let brokenFrames: [(String, [UInt8])] = [
        ("no preface", Array("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8)),
        ("a frame that is too long", [0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01]),
        ("headers that do not decompress", [0x00, 0x00, 0x04, 0x01, 0x05, 0x00, 0x00, 0x00, 0x01, 0xff, 0xff, 0xff, 0xff]),
        ("data on a stream that was never opened", [0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x09, 0x41]),
        ("an even stream", [0x00, 0x00, 0x01, 0x01, 0x05, 0x00, 0x00, 0x00, 0x02, 0x82]),
        ("a window that overflows", [0x00, 0x00, 0x04, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x7f, 0xff, 0xff, 0xff]),
    ]

    @Test("A client that breaks HTTP/2 loses its connection, and only that", arguments: brokenFrames)
    func brokenHTTP2(_ name: String, _ bytes: [UInt8]) async throws {
        try await withSimulator { test in
            let good = try test.client()
            #expect(try good.send(test.push()).status == 200)
            let bad = try test.client()
            if name != "no preface" { try bad.roundTrip(1) }
            try bad.write(bytes)
            try bad.run { $0.isOver }
            #expect(try good.send(test.push()).status == 200)
        }
    }

    @Test("A push that is cut off in the middle leaves no trace", arguments: [false, true])
    func cutOff(_ abruptly: Bool) async throws {
        try await withSimulator { test in
            try test.simulator.install(TestPush.token)
            let whole = BacklogTests.push(test, 0, TestPush.token)
            let good = try test.client()
            for (index, count) in [whole.count - 1, whole.count - TestPush.alert.utf8.count, 40].enumerated() {
                let client = try RawClient(port: test.simulator.productionPort)
                try client.send(Array(whole.prefix(count)))
                try client.close(abruptly: abruptly)
                var trips: UInt64 = 0
                while test.simulator.counters.connectionsClosed <= index {
                    trips += 1
                    try good.roundTrip(trips << 8 | UInt64(index))
                }
            }
            #expect(try good.send(test.push()).status == 200)
            #expect(test.simulator.journal().count == 1)
            #expect(try test.simulator.inbox(TestPush.token).count == 1)
        }
    }

    @Test("A client that vanishes before its answer harms no other client")
    func vanishing() async throws {
        try await withSimulator { test in
            try test.simulator.script(TestPush.token, [.accept.delayed(by: .milliseconds(30))], then: .repeat)
            for _ in 0..<20 {
                let client = try test.client()
                try client.submit(test.push())
                try client.roundTrip(1)
                try client.socket.resetOnClose()
                client.close()
            }
            // The connections of the twenty are gone when their late answers are due.
            #expect(try test.client().send(test.push()).status == 200)
            let entries = await test.simulator.journal(reaching: 21)
            #expect(entries.count == 21)
        }
    }

    @Test(
        "A huge body gets the same answer as any body that is too long, and the connection lives on",
        arguments: [65_536, 100_000, 3_000_000])
    func hugeBody(_ bytes: Int) async throws {
        try await withSimulator { test in
            let client = try test.client()
            let stream = try client.submit(test.push().body(RejectionTests.payload(bytes)))
            try client.run { $0.closed[stream] != nil }
            #expect(client.responses[stream]?.status == 413)
            #expect(client.responses[stream]?.body == #"{"reason":"PayloadTooLarge"}"#)
            #expect(client.closed[stream] == .noError)
            #expect(try client.send(test.push()).status == 200)
            #expect(test.simulator.journal().map(\.status) == [413, 200])
        }
    }

    @Test("The simulator resets a stream with huge headers, and the connection lives on")
    func hugeHeaders() async throws {
        try await withSimulator { test in
            let client = try test.client()
            let stream = try client.submit(test.push().with("x-junk", String(repeating: "j", count: 9000)))
            try client.run { $0.closed[stream] != nil }
            #expect(client.responses[stream] == nil)
            #expect(try client.send(test.push()).status == 200)
        }
    }

    @Test("Many connections at once, on several loops, are all served")
    func many() async throws {
        try await withSimulator {
            $0.threads = 3
        } _: { test in
            let clients = try (0..<60).map { _ in try test.client() }
            for client in clients { try client.submit(test.push()) }
            for client in clients { try client.run { $0.responses[1]?.status == 200 && $0.closed[1] != nil } }
            #expect(test.simulator.counters.accepted == 60)
            #expect(Set(test.simulator.journal().map(\.connection)).count == 60)
        }
    }
}
