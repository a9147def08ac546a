import APNsSimulator
import HTTP2
import Testing

@Suite("The simulator stops reading from a client that does not read, until it reads again", .timeLimit(.minutes(5)))
struct BacklogTests {
    private static let endStream = RawFrame.endStream

    /// A client that grants every window and reads only when the test asks for it.
    private func client(_ test: TestSimulator) throws -> RawClient {
        let client = try RawClient(port: test.simulator.productionPort)
        try client.send([RawFrame.setting(4, .max >> 1), RawFrame.windowUpdate(0, .max >> 1 - 65_535)])
        return client
    }

    static func push(_ test: TestSimulator, _ stream: Int, _ token: String) -> [UInt8] {
        let fields = [
            (":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", "/3/device/\(token)"),
            ("apns-topic", TestPush.topic), ("authorization", test.token),
        ]
        return RawFrame.headers(UInt32(2 * stream + 1), fields).bytes + RawFrame.data(UInt32(2 * stream + 1), TestPush.alert).bytes
    }

    @Test("Answers beyond the backlog's bound arrive when the client reads, and the simulator serves others meanwhile")
    func backlog() async throws {
        try await withSimulator {
            $0.streamGate = false
            $0.streamPenalty = false
        } _: { test in
            // More than the kernel's buffers hold.
            let large = String(repeating: "x", count: 400_000)
            try test.simulator.script("aa", [.answer(status: 400, reason: large)], then: .repeat)
            let client = try client(test)
            var sent = 0
            for _ in 0..<120 {
                try client.send(Self.push(test, sent, "aa"))
                sent += 1
            }
            _ = await test.simulator.journal(reaching: sent)
            // Each push that the simulator reads adds to the backlog, until the simulator stops reading.
            while sent < 300 {
                try client.send(Self.push(test, sent, "bb"))
                sent += 1
                _ = await test.simulator.journal(reaching: sent, timeout: .seconds(1))
                if test.simulator.counters.requests < Int64(sent) { break }
            }
            #expect(sent < 300, "the simulator reads everything from a client that reads nothing")
            #expect(try test.client().send(test.push()).status == 200)
            for stream in 0..<sent {
                let number = UInt32(2 * stream + 1)
                let last = try client.wait { $0.stream == number && $0.flags & Self.endStream != 0 }
                #expect(last != nil)
            }
            #expect(try client.isAlive())
        }
    }
}
