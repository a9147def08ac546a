import HTTP2
import PushModel
import Synchronization
import SystemIO
import TestSupport
import Testing

@testable import APNs

@Suite("Connections come and go", .timeLimit(.minutes(5)))
struct PoolGrowthTests {
    @Test("A pool opens another connection when its streams are used up and closes it at rest") func growthAndRest() async throws {
        let held = Mutex<[ScriptedRequest]?>([])
        let server = try ScriptedServer(ScriptedServer.Behaviour(streams: 5)) { request, hand in
            let isHeld = held.withLock { held in
                if request.connection == 1, request.index > 0 { held?.append(request) }
                return request.connection == 1 && request.index > 0 && held != nil
            }
            if !isHeld { hand.accept(request) }
        }
        try await withPool(
            server,
            {
                $0.maximumConnections = 2
                $0.growAfter = .milliseconds(300)
                $0.shrinkAfter = .milliseconds(300)
            }
        ) { bench in
            bench.submit(.make(40))
            let first = try await server.connections.next()
            // The first connection is full and answers nothing. The pool sends the others on a second one, and nothing twice.
            let sent = try await server.requests.next(40)
            #expect(Set(sent.map(\.index)).count == 40)
            #expect(sent.filter { $0.connection == 1 }.count <= 7)
            #expect(Set(sent.map(\.connection)) == [1, 2])
            first.perform { hand in
                for request in held.withLock({ held in
                    defer { held = nil }; return held ?? []
                }) { hand.accept(request) }
            }
            let batch = try await bench.next()[1]
            #expect(batch?.acceptedCount == 40)
            try await bench.events.first { if case .connectionRetired(_, "pool_decided") = $0 { true } else { false } }
            try await bench.events.first { if case .connectionClosed(_, "drained") = $0 { true } else { false } }
            bench.submit(.make(3, tag: 2))
            let second = try await bench.next()[2]
            #expect(second?.acceptedCount == 3)
        }
    }

    @Test("The pool resolves the name again for each connection") func resolvesName() async throws {
        let server = try ScriptedServer { request, hand in
            if request.index == 1 { hand.answer(request.stream, 500, "InternalServerError") } else { hand.accept(request) }
        }
        let asked = Mutex<[String]>([])
        let port = server.port
        try await withPool(
            server,
            {
                $0.resolve = { (host, _) throws(ResolveError) in
                    asked.withLock { $0.append(host) }
                    return try SocketAddress.resolve(host: "127.0.0.1", port: port)
                }
            }
        ) { bench in
            for tag in 1...3 {
                bench.submit(.make(2, tag: UInt64(tag)))
                _ = try await bench.next()
                try await bench.events.first { if case .connectionRetired = $0 { true } else { false } }
            }
            bench.submit(.make(1, tag: 9))
            _ = try await bench.next()
            try await bench.events.first { if case .connectionOpened = $0 { true } else { false } }
            #expect(asked.withLock { $0.count } >= 4)
            #expect(asked.withLock { $0.allSatisfy { $0 == "127.0.0.1" } })
            #expect(bench.pool.snapshot().totals.connectionsOpened == asked.withLock { $0.count })
        }
    }

    /// Two servers with one host name.
    private func twins(_ change: (inout APNsPoolConfiguration) -> Void, _ first: ScriptedServer, _ second: ScriptedServer) throws
        -> PoolBench
    {
        let ports = [first.port, second.port]
        return try PoolBench(port: first.port) {
            change(&$0)
            $0.resolve = { (_, _) throws(ResolveError) in
                try SocketAddress.resolve(host: "127.0.0.1", port: ports[0]) + SocketAddress.resolve(host: "127.0.0.1", port: ports[1])
            }
        }
    }

    @Test("Connections go to different addresses") func differentAddresses() async throws {
        let (first, second) = (try ScriptedServer(), try ScriptedServer())
        let bench = try twins({ $0.connections = 4 }, first, second)
        try await bench.connect()
        _ = try await first.connections.next(2)
        _ = try await second.connections.next(2)
        await bench.pool.shutdown(deadline: .zero)
        #expect(first.connections.waiting.isEmpty && second.connections.waiting.isEmpty)
        first.stop()
        second.stop()
    }

    @Test("The pool avoids an address that shuts down") func avoidedAddress() async throws {
        let (bad, good) = (try ScriptedServer { $1.answer($0.stream, 503, "Shutdown") }, try ScriptedServer())
        let bench = try twins({ _ in }, bad, good)
        var tag: UInt64 = 0
        // The first server is random. After the first refusal the pool stays with the good one.
        var results: [Bool] = []
        while results.count < 6 {
            tag += 1
            bench.submit(.make(1, tag: tag))
            let accepted = try await bench.next()[tag]?.acceptedCount == 1
            if !accepted { try await bench.events.first { if case .connectionRetired = $0 { true } else { false } } }
            results.append(accepted)
        }
        #expect(!results.dropFirst().contains(false))
        await bench.pool.shutdown(deadline: .zero)
        bad.stop()
        good.stop()
    }

    @Test("The pool replaces its connections one by one in the last tenth of a day") func dailyReplacement() async throws {
        let time = TestTime()
        let server = try ScriptedServer()
        try await withPool(
            server,
            {
                $0.connections = 3
                $0.clock = time.clock
                $0.idleLimit = .seconds(1 << 30)
            }
        ) { bench in
            try await bench.connect()
            let first = try await server.connections.next(3)
            // Their age and their timeout for SETTINGS run on a clock that is about to jump.
            for _ in 0..<3 { try await bench.events.first { if case .connectionOpened = $0 { true } else { false } } }
            time.set(.seconds(24 * 3600 * 9 / 10 - 3600))
            for connection in first { try await connection.roundTrip() }
            #expect(bench.pool.snapshot().totals.retirements.isEmpty)
            time.set(.seconds(24 * 3600))
            for connection in first { connection.perform { $0.session.ping(1) } }
            _ = try await server.connections.next(3)
            for _ in 0..<3 { try await bench.events.first { if case .connectionRetired(_, "age") = $0 { true } else { false } } }
            bench.submit(.make(5, expiresIn: 1_000_000_000))
            let batch = try await bench.next()[1]
            #expect(batch?.acceptedCount == 5)
        }
    }

    @Test("The maximum age of each connection is random") func randomAge() {
        let day: Duration = .seconds(86_400)
        let ages = (0..<100).map { _ in ConnectionState.Rules.age(upTo: day) }
        #expect(ages.allSatisfy { $0 >= day * 0.9 && $0 <= day })
        #expect(Set(ages).count > 90)
    }
}
