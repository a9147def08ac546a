import HTTP2
import PushModel
import Synchronization
import SystemIO
import TestSupport
import Testing

@testable import APNs

@Suite("Waiting and stopping", .timeLimit(.minutes(5)))
struct WaitingTests {
    /// Allows one stream and answers nothing until the test says so.
    private func narrowServer() throws -> ScriptedServer {
        try ScriptedServer(ScriptedServer.Behaviour(streams: 1)) { _, _ in }
    }

    @Test("The gate stops waiting requests at the last moment", arguments: [StopReason.fenced, .cancelled, .held])
    func stoppedLate(reason: StopReason) async throws {
        let server = try narrowServer()
        try await withPool(server) { bench in
            bench.submit(.make(1, tag: 1), .make(5, tag: 2), .make(1, tag: 3))
            let first = try await server.requests.next()
            let connection = try await server.connections.next()
            // Both wait for the only stream; the logout comes now.
            bench.gate.stop(2, reason)
            connection.perform { $0.accept(first) }
            let next = try await server.requests.next()
            #expect(next.tag == 3)
            connection.perform { $0.accept(next) }
            let finished = try await bench.next(3)
            #expect(finished[2]?.answers.map(\.result) == Array(repeating: .stopped(reason), count: 5))
            #expect(finished[2]?.answers.allSatisfy { $0.sentAt == nil } == true)
            #expect(server.requests.waiting.isEmpty)
        }
    }

    @Test("The pool never sends a request that expires while it waits") func whatExpiresWhileItWaitsIsNeverSent() async throws {
        let server = try narrowServer()
        try await withPool(server) { bench in
            bench.submit(.make(1, tag: 1), .make(3, tag: 2, expiresIn: 200))
            let first = try await server.requests.next()
            // Nothing frees the stream, so the pool itself must notice the expiry.
            let secondBatch = try await bench.next()[2]
            #expect(secondBatch?.answers.map(\.result) == Array(repeating: .stopped(.expired), count: 3))
            let connection = try await server.connections.next()
            connection.perform { $0.accept(first) }
            _ = try await bench.next()
            #expect(server.requests.waiting.isEmpty)
        }
    }

    @Test("The pool does not send a batch that is expired on arrival") func expiredOnArrival() async throws {
        let server = try ScriptedServer()
        try await withPool(server) { bench in
            bench.submit(.make(3, expiresIn: -1))
            let firstBatch = try await bench.next()[1]
            #expect(firstBatch?.answers.map(\.result) == Array(repeating: .stopped(.expired), count: 3))
            #expect(server.requests.waiting.isEmpty)
        }
    }

    /// Promise 6 (docs/promises.md). The time of day goes on by a second whenever the pool looks at its other clock. The gate is asked
    /// right after the expiry, so a batch that it sees too late was measured by an old clock.
    @Test("The pool measures expiry by the time at which it takes a request") func freshClock() async throws {
        let wall = Atomic(WallClock.milliseconds())
        let late = Atomic(0)
        let clock = APNsClock(
            now: {
                wall.add(1_000, ordering: .relaxed)
                return .now
            }, wall: { wall.load(ordering: .relaxed) })
        let server = try ScriptedServer()
        try await withPool(
            server,
            {
                $0.clock = clock
                $0.maximumAge = .seconds(1 << 30)
            }
        ) { bench in
            bench.gate.watch { batch in if wall.load(ordering: .relaxed) >= batch.expiresAt { late.add(1, ordering: .relaxed) } }
            bench.submit(.make(1))
            _ = try await bench.next()
            for tag in 10..<60 as Range<UInt64> {
                let now = wall.load(ordering: .relaxed)
                bench.pool.submit((0..<40).map { .make(1, tag: tag << 8 | $0, expiresAt: now + Int64($0) * 250) })
                _ = try await bench.next(40)
            }
            #expect(late.load(ordering: .relaxed) == 0)
        }
    }

    @Test("The queue is bounded, and batches beyond its limit come back at once")
    func theQueueIsBoundedAndTheRestComesBackAtOnce() async throws {
        let server = try narrowServer()
        try await withPool(server, { $0.maximumQueued = 100 }) { bench in
            bench.submit(.make(1, tag: 1))
            _ = try await server.requests.next()
            bench.submit(.make(60, tag: 2, lane: .bulk), .make(41, tag: 3, lane: .bulk), .make(100, tag: 4, lane: .now))
            let thirdBatch = try await bench.next()[3]
            #expect(thirdBatch?.answers.map(\.result) == Array(repeating: .notSent(.queueFull), count: 41))
            let snapshot = bench.pool.snapshot()
            #expect(snapshot.queuedBulk == 60)
            #expect(snapshot.queuedNow == 100)
        }
    }

    @Test("A batch that waits too long for a stream comes back") func whatWaitsTooLongForAStreamComesBack() async throws {
        let server = try narrowServer()
        try await withPool(server, { $0.maximumWait = .seconds(2) }) { bench in
            // Connecting takes none of its time.
            try await bench.connect()
            bench.submit(.make(1, tag: 1))
            _ = try await server.requests.next()
            bench.submit(.make(4, tag: 2))
            let secondBatch = try await bench.next()[2]
            #expect(secondBatch?.answers.map(\.result) == Array(repeating: .notSent(.congested), count: 4))
        }
    }

    @Test("Without a connection batches come back after the pool's patience, and then at once")
    func withoutAConnectionBatchesComeBackAfterThePatienceAndThenAtOnce() async throws {
        let bench = try PoolBench(port: FreePorts.closed) { $0.patience = .milliseconds(100) }
        bench.submit(.make(3, tag: 1))
        let firstBatch = try await bench.next()[1]
        #expect(firstBatch?.answers.map(\.result) == Array(repeating: .notSent(.notConnected), count: 3))
        bench.submit(.make(3, tag: 2))
        let secondBatch = try await bench.next()[2]
        #expect(secondBatch?.answers.map(\.result) == Array(repeating: .notSent(.notConnected), count: 3))
        #expect(bench.pool.state == .connecting)
        await bench.pool.shutdown(deadline: .zero)
    }

    @Test("A pool recovers by itself") func aPoolRecoversByItself() async throws {
        let server = try ScriptedServer()
        let proxy = try FaultProxy(port: server.port)
        proxy.set(.refusing)
        let bench = try PoolBench(port: proxy.port) { $0.patience = .milliseconds(50) }
        bench.submit(.make(1, tag: 1))
        let firstBatch = try await bench.next()[1]
        #expect(firstBatch?[0] == .notSent(.notConnected))
        proxy.set(.forwarding)
        try await bench.state(.ready)
        bench.submit(.make(1, tag: 2))
        let secondBatch = try await bench.next()[2]
        #expect(secondBatch?[0] == .accepted)
        await bench.pool.shutdown(deadline: .zero)
        server.stop()
        proxy.stop()
    }

    @Test("An idle pool closes its connection and opens one for the next batch")
    func anIdlePoolLetsGoAndComesBackForTheNextBatch() async throws {
        let server = try ScriptedServer()
        try await withPool(server, { $0.idleLimit = .milliseconds(150) }) { bench in
            bench.submit(.make(1, tag: 1))
            _ = try await bench.next()
            try await bench.state(.idle)
            bench.submit(.make(1, tag: 2))
            let secondBatch = try await bench.next()[2]
            #expect(secondBatch?[0] == .accepted)
        }
    }

    @Test("An empty batch is finished at once") func emptyBatch() async throws {
        let server = try ScriptedServer()
        try await withPool(server) { bench in
            bench.submit(.make(0, tag: 9))
            let ninthBatch = try await bench.next()[9]
            #expect(ninthBatch?.answers.isEmpty == true)
        }
    }

    // MARK: Shutdown

    @Test("Shutdown finishes requests in flight and returns waiting ones") func gracefulShutdown() async throws {
        let server = try ScriptedServer(ScriptedServer.Behaviour(streams: 3)) { request, hand in
            if request.index == 0 { hand.accept(request) }
        }
        try await withPool(server) { bench in
            bench.submit(.make(10))
            let sent = try await server.requests.next(4)
            let connection = try await server.connections.next()
            async let isDown: Void = bench.pool.shutdown(deadline: .seconds(30))
            try await bench.state(.closed)
            bench.submit(.make(1, tag: 2))
            let secondBatch = try await bench.next()[2]
            #expect(secondBatch?[0] == .notSent(.shuttingDown))
            connection.perform { hand in for request in sent.dropFirst() { hand.accept(request) } }
            let batch = try await bench.next()[1]
            #expect(batch?.acceptedCount == 4)
            #expect(batch?.answers.count { $0.result == .notSent(.shuttingDown) } == 6)
            await isDown
            bench.submit(.make(1, tag: 3))
            let thirdBatch = try await bench.next()[3]
            #expect(thirdBatch?[0] == .notSent(.shuttingDown))
            #expect(server.requests.waiting.isEmpty)
        }
    }

    @Test("Every batch comes back by the shutdown deadline") func shutdownDeadline() async throws {
        let server = try ScriptedServer { request, hand in if request.index == 0 { hand.accept(request) } }
        try await withPool(server) { bench in
            bench.submit(.make(20))
            _ = try await server.requests.next(20)
            await bench.pool.shutdown(deadline: .milliseconds(50))
            #expect(bench.finished.waiting.count == 1, "everything has come back before shutdown returns")
            let batch = try await bench.next()[1]
            #expect(batch?.acceptedCount == 1)
            #expect(batch?.answers.count { $0.result == .unknown(.shutdown) } == 19)
        }
    }

    @Test("A connection that hangs in its handshake does not delay shutdown") func hangingHandshake() async throws {
        let server = try ScriptedServer(ScriptedServer.Behaviour(isDumb: true))
        try await withPool(server, { $0.handshakeTimeout = .seconds(3600) }) { bench in
            bench.submit(.make(2))
            await bench.pool.shutdown(deadline: .seconds(3600))
            let firstBatch = try await bench.next()[1]
            #expect(firstBatch?.answers.map(\.result) == Array(repeating: .notSent(.shuttingDown), count: 2))
        }
    }

    @Test("A pool that never started can shut down") func neverStarted() async throws {
        let bench = try PoolBench(port: 1)
        bench.submit(.make(2))
        await bench.pool.shutdown(deadline: .zero)
        let firstBatch = try await bench.next()[1]
        #expect(firstBatch?.answers.map(\.result) == Array(repeating: .notSent(.shuttingDown), count: 2))
        await bench.pool.shutdown(deadline: .zero)
    }
}
