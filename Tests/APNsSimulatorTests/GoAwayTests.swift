import APNsSimulator
import HTTP2
import Testing

@Suite("The simulator does not process requests that a GOAWAY declares unprocessed", .timeLimit(.minutes(5)))
struct GoAwayTests {
    private func with(_ body: (TestSimulator, PushClient) async throws -> Void) async throws {
        try await withSimulator {
            $0.streamGate = false
        } _: { test in
            for token in ["aa", "bb", "cc"] { try test.simulator.install(token) }
            try await body(test, try test.client())
        }
    }

    /// All requests in one TLS record.
    private func send(_ test: TestSimulator, _ client: PushClient) throws -> [Int32] {
        try ["aa", "bb", "cc"].map { try client.submit(test.push().to($0)) }
    }

    @Test("Requests that came together with one that a GOAWAY refused leave no trace and show once when sent again", arguments: [0, 50])
    func batch(_ delay: Int) async throws {
        try await with { test, client in
            try test.simulator.script("aa", [.goAway(.shutdown).delayed(by: .milliseconds(delay))])
            let streams = try send(test, client)
            try client.run { client in streams.allSatisfy { client.closed[$0] != nil } }
            #expect(streams.map { client.closed[$0] } == Array(repeating: .refusedStream, count: 3))
            #expect(test.simulator.journal().map(\.token) == ["aa"])
            #expect(test.simulator.journal().map(\.action) == [.goAway])
            for token in ["aa", "bb", "cc"] { #expect(try test.simulator.inbox(token).isEmpty) }
        }
    }

    @Test("Requests that came with the one that closed the connection leave no trace")
    func close() async throws {
        try await with { test, client in
            try test.simulator.script("aa", [.close])
            _ = try send(test, client)
            try client.run { $0.isOver }
            #expect(test.simulator.journal().map(\.action) == [.close])
            #expect(try test.simulator.inbox("cc").isEmpty)
        }
    }
}
