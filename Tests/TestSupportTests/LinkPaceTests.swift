import SystemIO
import TestSupport
import Testing

/// A busy machine may take longer. The tests only check that the link never takes less time and changes no byte.
@Suite("The fault proxy slows a link down and changes no byte", .timeLimit(.minutes(5)))
struct LinkPaceTests {
    @Test("Latency and jitter delay every byte and keep the order") func latencyAndJitter() async throws {
        try await withLink(seed: 7) { link in
            let (client, server) = try link.connect()
            link.proxy.set(LinkConditions(toServer: .delayed(by: .milliseconds(60), jitter: .milliseconds(40))))
            // The proxy's thread sets the conditions. The first byte that arrives proves that they apply.
            try client.send([0])
            #expect(try server.receive(1) == [0])
            for round in 0..<3 {
                let start = ContinuousClock.now
                try client.send(numbered(100 + round))
                #expect(try server.receive(100 + round) == numbered(100 + round))
                #expect(start.duration(to: .now) >= .milliseconds(60))
            }
            // Without latency the waiting bytes are due at once, and stay before later bytes.
            try client.send(numbered(300))
            link.proxy.set(.forwarding)
            try client.send([1])
            #expect(try server.receive(301) == numbered(300) + [1])
        }
    }

    @Test("The link does not exceed its rate") func rateLimit() async throws {
        try await withLink { link in
            let (client, server) = try link.connect()
            link.proxy.set(LinkConditions(toClient: .limited(to: 1_000_000)))
            try client.send([0])
            #expect(try server.receive(1) == [0])
            let start = ContinuousClock.now
            try server.send(numbered(400_000))
            #expect(try client.receive(400_000) == numbered(400_000))
            // The bytes of a tenth of a second may come at once.
            #expect(start.duration(to: .now) >= .milliseconds(290))
        }
    }

    @Test("Slices come one after another") func slicesInTurn() async throws {
        try await withLink { link in
            let (client, server) = try link.connect()
            link.proxy.set(LinkConditions(toServer: .sliced(3, pause: .milliseconds(5))))
            let start = ContinuousClock.now
            try client.send(numbered(60))
            #expect(try server.receive(60) == numbered(60))
            #expect(start.duration(to: .now) >= .milliseconds(19 * 5))
        }
    }

    @Test("The end of a slow connection waits for its bytes") func endWaits() async throws {
        try await withLink { link in
            let (client, server) = try link.connect()
            link.proxy.set(LinkConditions(bothWays: .delayed(by: .milliseconds(30))))
            try client.send([0])
            #expect(try server.receive(1) == [0])
            try client.send(numbered(5_000))
            client.socket.close()
            #expect(try server.receiveAll() == (numbered(5_000), .endOfStream))
        }
    }

    @Test("Every byte arrives in its place under any sequence of conditions", arguments: 1...20 as ClosedRange<UInt64>)
    func anyConditions(_ seed: UInt64) async throws {
        try await withLink(seed: seed) { link in
            var generator = SeededGenerator(seed: seed)
            let (client, server) = try link.connect()
            let sent = (numbered(150_000), numbered(170_001).reversed() as [UInt8])
            // Both directions send at the same time, each on its own thread, while the conditions change.
            let clientWriter = try SystemThread.start(name: "writer") { try? client.send(sent.0) }
            let serverWriter = try SystemThread.start(name: "writer") { try? server.send(sent.1) }
            for _ in 0..<12 {
                link.proxy.set(
                    LinkConditions(toServer: Self.way(&generator), toClient: Self.way(&generator)),
                    for: Bool.random(using: &generator) ? .all : .new)
                try Self.rest(Int.random(in: 0...3, using: &generator))
            }
            link.proxy.set(LinkConditions(bothWays: .sliced(1_000)))
            #expect(try server.receive(sent.0.count) == sent.0, "seed \(seed)")
            #expect(try client.receive(sent.1.count) == sent.1, "seed \(seed)")
            clientWriter.join()
            serverWriter.join()
        }
    }

    private static func way(_ generator: inout SeededGenerator) -> LinkConditions.Way {
        LinkConditions.Way { way in
            if Bool.random(using: &generator) { way.flow = Int.random(in: 0..<4, using: &generator) == 0 ? .stalled : .flowing }
            if Bool.random(using: &generator) { way.latency = .milliseconds(Int.random(in: 0...4, using: &generator)) }
            if Bool.random(using: &generator) { way.jitter = .milliseconds(Int.random(in: 0...4, using: &generator)) }
            if Bool.random(using: &generator) { way.bytesPerSecond = Int.random(in: 50_000...20_000_000, using: &generator) }
            if Bool.random(using: &generator) { way.sliceBytes = Int.random(in: 1...5_000, using: &generator) }
            if Bool.random(using: &generator) { way.slicePause = .milliseconds(Int.random(in: 0...2, using: &generator)) }
        }
    }

    /// Waits a little under one set of conditions. The test does not depend on the length.
    private static func rest(_ milliseconds: Int) throws { _ = try Poller(capacity: 1).wait(timeout: .milliseconds(milliseconds)) }
}
