import Dispatch
import Glibc
import PushModel
import Synchronization
import SystemIO
import TestSupport
import Testing

@testable import APNs

/// A clock at which the pool's thread stands still, as in a process that is stopped between two system calls.
private final class StoppingClock: Sendable {
    private let ahead = Mutex(Duration.zero)
    private let isArmed = Atomic(false)
    private let stopped = Signal<Bool>()
    private let goesOn = DispatchSemaphore(value: 0)

    func set(_ duration: Duration) { ahead.withLock { $0 = duration } }

    /// Runs `body` while the thread stands still. It stops when the pool works next, for which `wakeUp` gives it a reason.
    func whileStopped(_ wakeUp: () -> Void, _ body: () async throws -> Void) async throws {
        isArmed.store(true, ordering: .releasing)
        wakeUp()
        _ = try await stopped.next()
        defer { goesOn.signal() }
        try await body()
    }

    var clock: APNsClock {
        APNsClock(
            now: { [self] in
                if isArmed.exchange(false, ordering: .acquiring) {
                    stopped.send(true)
                    goesOn.wait()
                }
                return ContinuousClock.now + ahead.withLock { $0 }
            },
            wall: { [self] in APNsClock.system.wall() + Int64(ahead.withLock { $0 } / .milliseconds(1)) })
    }
}

extension ScriptedConnection {
    /// Runs an order. Returns when the client's kernel has acknowledged everything that was sent, also by the order.
    fileprivate func deliver(_ order: @escaping @Sendable (ServerHand) -> Void) async throws {
        let done = Signal<Bool>()
        perform(order)
        // The second order runs after the first one's bytes were written.
        for _ in 0..<2 {
            perform { _ in done.send(true) }
            _ = try await done.next()
        }
        var unacknowledged: Int32 = 1
        while ioctl(socket.descriptor, UInt(TIOCOUTQ), &unacknowledged) == 0, unacknowledged > 0 { await Task.yield() }
    }
}

/// The pool's thread stands still after it has asked which sockets are readable, and has not read yet.
@Suite("A pool that stood still", .timeLimit(.minutes(5)))
struct StandstillTests {
    /// - Parameter holds: whether the server answers no request of a batch but the first.
    private func withPool(
        holds: Bool = true, _ body: (PoolBench, StoppingClock, ScriptedServer) async throws -> Void
    ) async throws {
        let server = try ScriptedServer { request, hand in
            if !holds || request.index == 0 || request.connection > 1 { hand.accept(request) }
        }
        let clock = StoppingClock()
        let bench = try PoolBench(port: server.port) { $0.clock = clock.clock }
        let result: Result<Void, any Error>
        do { result = .success(try await body(bench, clock, server)) } catch { result = .failure(error) }
        await bench.pool.shutdown(deadline: .zero)
        server.stop()
        try result.get()
    }

    @Test("Answers that have arrived count after the deadline") func deadline() async throws {
        try await withPool { bench, clock, server in
            bench.submit(.make(11))
            let sent = try await server.requests.next(11)
            let connection = try await server.connections.next()
            try await clock.whileStopped({ bench.submit(.make(1, tag: 2)) }) {
                try await connection.deliver { hand in for request in sent.dropFirst() { hand.accept(request) } }
                clock.set(.seconds(20))
            }
            let finished = try await bench.next(2)
            #expect(finished[1]?.acceptedCount == 11)
            #expect(finished[2]?.acceptedCount == 1)
            await bench.pool.shutdown(deadline: .zero)
            #expect(bench.pool.snapshot().totals.timedOut == 0)
            #expect(server.connections.waiting.isEmpty)
        }
    }

    @Test("An answer to a PING that has arrived counts after its deadline") func ping() async throws {
        try await withPool(holds: false) { bench, clock, server in
            bench.submit(.make(1))
            _ = try await bench.next()
            let connection = try await server.connections.next()
            let reads = DispatchSemaphore(value: 0)
            connection.perform { _ in reads.wait() }
            // The connection looks at its clock before it sends the request.
            clock.set(.seconds(31))
            bench.submit(.make(1, tag: 2))
            while bench.pool.snapshot().totals.submitted < 2 { await Task.yield() }
            try await clock.whileStopped({ bench.submit(.make(1, tag: 3)) }) {
                reads.signal()
                _ = try await server.requests.first { $0.tag == 2 }
                try await connection.deliver { _ in }
                clock.set(.seconds(31 + 11))
            }
            let finished = try await bench.next(2)
            #expect(finished[2]?[0] == .accepted && finished[3]?[0] == .accepted)
            await bench.pool.shutdown(deadline: .zero)
            #expect(bench.pool.snapshot().totals.connectionsOpened == 1)
        }
    }

    @Test("Answers and a GOAWAY that have arrived count when a write finds the connection reset") func failedWrite() async throws {
        try await withPool { bench, clock, server in
            bench.submit(.make(11))
            let sent = try await server.requests.next(11)
            let connection = try await server.connections.next()
            try await clock.whileStopped({ bench.submit(.make(1, tag: 2)) }) {
                try await connection.deliver { hand in
                    for request in sent[1...5] { hand.accept(request) }
                    hand.goAway(last: sent[8].stream)
                }
                connection.perform { $0.kill() }
                _ = try await server.ended.next()
            }
            let finished = try await bench.next(2)
            let batch = try #require(finished[1])
            for index in 1...5 { #expect(batch[index] == .accepted, "answered") }
            for index in 6...8 { #expect(batch[index] == .unknown(.connectionLost)) }
            for index in 9...10 { #expect(batch[index] == .accepted, "certainly not processed, so sent again") }
            #expect(finished[2]?[0] == .accepted)
        }
    }

    @Test("Answers that have arrived count at the end of a shutdown") func shutdown() async throws {
        try await withPool { bench, clock, server in
            bench.submit(.make(11))
            let sent = try await server.requests.next(11)
            let connection = try await server.connections.next()
            let pool = bench.pool
            async let over: Void = pool.shutdown(deadline: .seconds(5))
            try await bench.state(.closed)
            try await clock.whileStopped({ bench.submit(.make(1, tag: 2)) }) {
                try await connection.deliver { hand in for request in sent.dropFirst() { hand.accept(request) } }
                clock.set(.seconds(10))
            }
            await over
            #expect(try await bench.next(2)[1]?.acceptedCount == 11)
        }
    }
}
