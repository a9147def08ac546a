import HTTP2
import PushModel
import SystemIO
import TestSupport
import Testing

@testable import APNs

/// Payloads of 4 KiB behind a window or a socket that takes few of them.
@Suite("Requests that APNs' window or the socket does not take", .timeLimit(.minutes(5)))
struct WindowTests {
    /// Runs a test with one proven connection that goes through a proxy.
    private func withLink(
        window: Int = 65_535, streamWindow: Int = 65_535, _ change: (inout APNsPoolConfiguration) -> Void = { _ in },
        onRequest: @escaping ScriptedServer.Handler = { $1.accept($0) },
        _ body: (PoolBench, ScriptedServer, FaultProxy) async throws -> Void
    ) async throws {
        var behaviour = ScriptedServer.Behaviour()
        (behaviour.connectionWindow, behaviour.streamWindow) = (window, streamWindow)
        let server = try ScriptedServer(behaviour, onRequest: onRequest)
        let proxy = try FaultProxy(port: server.port)
        let bench = try PoolBench(port: proxy.port, change)
        bench.submit(.make(1, tag: 1))
        _ = try await bench.next()
        _ = try await server.requests.next()
        let result: Result<Void, any Error>
        do { result = .success(try await body(bench, server, proxy)) } catch { result = .failure(error) }
        await bench.pool.shutdown(deadline: .zero)
        server.stop()
        proxy.stop()
        try result.get()
    }

    /// Returns when the pool has handed that many requests to HTTP/2.
    private func submitted(_ count: Int, by bench: PoolBench) async {
        while bench.pool.snapshot().totals.submitted < count { await Task.yield() }
    }

    /// Promises 3 and 6 (docs/promises.md). The window of 65,535 bytes holds fifteen payloads; with a large one, the sockets hold some
    /// hundred kilobytes.
    @Test(
        "A fence, a cancellation and a hold stop what neither the window nor the socket has taken",
        arguments: [StopReason.fenced, .cancelled, .held], [(window: 65_535, most: 20), (window: 1 << 24, most: 250)])
    func stoppedUnsent(reason: StopReason, link: (window: Int, most: Int)) async throws {
        try await withLink(window: link.window) { bench, server, proxy in
            proxy.set(.paused)
            bench.submit(.make(1_000, tag: 2, bytes: 4096))
            await submitted(10, by: bench)
            bench.gate.stop(2, reason)
            proxy.set(.forwarding)
            let batch = try #require(try await bench.next()[2])
            let arrived = server.requests.waiting.count
            #expect(arrived <= link.most)
            #expect(batch.acceptedCount == arrived)
            #expect(batch.answers.count { $0.result == .stopped(reason) && $0.sentAt == nil } == 1_000 - arrived)
        }
    }

    /// A stream's window is smaller than a payload, so a part of each request leaves. The rest asks the gate before it follows.
    @Test("A fence takes back requests of which a part has left") func takenBack() async throws {
        try await withLink(streamWindow: 1000) { bench, server, proxy in
            proxy.set(.paused)
            bench.submit(.make(100, tag: 2, bytes: 4096))
            await submitted(10, by: bench)
            bench.gate.stop(2, .fenced)
            proxy.set(.forwarding)
            let batch = try #require(try await bench.next()[2])
            #expect(batch.answers.allSatisfy { $0.result == .stopped(.fenced) })
            bench.submit(.make(3, tag: 3, bytes: 4096))
            let next = try await bench.next()[3]
            #expect(next?.acceptedCount == 3, "their streams are free again")
            #expect(server.requests.waiting.allSatisfy { $0.tag == 3 })
        }
    }

    @Test(
        "Windows smaller than a payload hold no request up for ever",
        arguments: [(window: 65_535, stream: 1000, bytes: 4096), (window: 65_535, stream: 65_535, bytes: 100_000)])
    func smallWindow(link: (window: Int, stream: Int, bytes: Int)) async throws {
        try await withLink(window: link.window, streamWindow: link.stream) { bench, _, _ in
            bench.submit(.make(50, tag: 2, lane: .bulk, bytes: link.bytes), .make(5, tag: 3, bytes: link.bytes))
            let finished = try await bench.next(2)
            #expect(finished[2]?.acceptedCount == 50 && finished[3]?.acceptedCount == 5)
        }
    }

    /// Promise 9 (docs/promises.md): a part of the window is kept for `now`.
    @Test("A request of `now` waits for no window beside a backlog of `bulk`") func reservedWindow() async throws {
        try await withLink { bench, server, proxy in
            // No WINDOW_UPDATE arrives.
            proxy.set(LinkConditions(toClient: .stalled))
            bench.submit(.make(1_000, tag: 2, lane: .bulk, bytes: 4096))
            await submitted(1 + 13, by: bench)
            bench.submit(.make(1, tag: 3, lane: .now, bytes: 4096))
            await submitted(1 + 14, by: bench)
            proxy.set(.forwarding)
            let finished = try await bench.next(2)
            #expect(finished[2]?.acceptedCount == 1_000 && finished[3]?.acceptedCount == 1)
            let place = try #require(server.requests.waiting.firstIndex { $0.tag == 3 })
            #expect(place <= 15, "within the first window")
        }
    }

    /// Promise 9 (docs/promises.md). Counts requests instead of time: the window lets fifteen payloads of `bulk` through in each round
    /// trip.
    @Test("Far from APNs, `now` waits for no backlog of `bulk`") func distance() async throws {
        try await withLink { bench, server, proxy in
            proxy.set(LinkConditions(bothWays: .delayed(by: .milliseconds(50))))
            bench.submit(.make(400, tag: 2, lane: .bulk, bytes: 4096))
            _ = try await server.requests.next(30)
            bench.submit(.make(1, tag: 3, lane: .now, bytes: 4096))
            // A busy machine may submit it late, when more of bulk has arrived.
            let before = server.requests.waiting.count
            let finished = try await bench.next(2)
            #expect(finished[2]?.acceptedCount == 400 && finished[3]?.acceptedCount == 1)
            let place = try #require(server.requests.waiting.firstIndex { $0.tag == 3 })
            #expect(place <= before + 32, "at most what two windows hold")
        }
    }

    /// One connection stalls, by its window or by its socket, and has few requests in flight. The other one has many and works.
    @Test("No request of `now` goes to a stalled connection while another one works", arguments: [65_535, 1 << 24])
    func stalledConnection(window: Int) async throws {
        var behaviour = ScriptedServer.Behaviour()
        behaviour.connectionWindow = window
        let stalled = try ScriptedServer(behaviour)
        behaviour.connectionWindow = 1 << 24
        let working = try ScriptedServer(behaviour) { request, hand in if request.tag != 2 { hand.accept(request) } }
        let proxy = try FaultProxy(port: stalled.port)
        let ports = [proxy.port, working.port]
        let bench = try PoolBench(port: proxy.port) {
            $0.connections = 2
            $0.resolve = { (_, _) throws(ResolveError) in
                try SocketAddress.resolve(host: "127.0.0.1", port: ports[0]) + SocketAddress.resolve(host: "127.0.0.1", port: ports[1])
            }
        }
        try await bench.connectTwo()
        _ = try await working.requests.next()
        proxy.set(.paused)
        bench.submit(.make(2_000, tag: 2, lane: .bulk, bytes: 4096))
        _ = try await working.requests.next(900)
        for tag in 10..<40 as Range<UInt64> {
            bench.submit(.make(1, tag: tag, lane: .now, bytes: 4096))
            let batch = try await bench.next()[tag]
            #expect(batch?[0] == .accepted)
        }
        #expect(working.requests.waiting.count { $0.tag >= 10 } == 30)
        await bench.pool.shutdown(deadline: .zero)
        stalled.stop()
        working.stop()
        proxy.stop()
    }

    /// Both connections are full for `bulk` all the time. The one that works has far more requests in flight.
    @Test("Beside a backlog, no request of `now` goes to a stalled connection") func stalledBesideBacklog() async throws {
        let servers = [try ScriptedServer(), try ScriptedServer()]
        let (stalled, working) = (try FaultProxy(port: servers[0].port), try FaultProxy(port: servers[1].port))
        // So that the working one has no event as a rule when a request comes.
        working.set(LinkConditions(bothWays: .delayed(by: .milliseconds(20))))
        let ports = [stalled.port, working.port]
        let bench = try PoolBench(port: ports[0]) {
            $0.connections = 2
            $0.resolve = { (_, _) throws(ResolveError) in
                try SocketAddress.resolve(host: "127.0.0.1", port: ports[0]) + SocketAddress.resolve(host: "127.0.0.1", port: ports[1])
            }
        }
        try await bench.connectTwo()
        stalled.set(.paused)
        // Fourteen fill a window, but for the part of `now`.
        bench.submit(.make(28, tag: 2, lane: .bulk, bytes: 4096), .make(19_000, tag: 3, lane: .bulk, bytes: 300))
        _ = try await servers[1].requests.next(500)
        for tag in 10..<40 as Range<UInt64> {
            bench.submit(.make(1, tag: tag, lane: .now, bytes: 300))
            let batch = try await bench.finished.first { $0.batch.tag == tag }
            #expect(batch[0] == .accepted)
        }
        await bench.pool.shutdown(deadline: .zero)
        for server in servers { server.stop() }
        for proxy in [stalled, working] { proxy.stop() }
    }

    @Test("A pool opens another connection when the window or the socket is full", arguments: [65_535, 1 << 24])
    func growth(window: Int) async throws {
        try await withLink(
            window: window,
            {
                $0.maximumConnections = 2
                $0.growAfter = .milliseconds(300)
            }
        ) { bench, server, proxy in
            proxy.set(.paused)
            proxy.set(.forwarding, for: .new)
            bench.submit(.make(800, tag: 2, lane: .bulk, bytes: 4096))
            let arrived = try await server.requests.next(500)
            #expect(arrived.allSatisfy { $0.connection == 2 })
        }
    }

    /// Promise 11 (docs/promises.md). Windows open all the time, so the end meets some for which nothing was written yet.
    @Test("A stop gives nothing back that leaves all the same", arguments: 0..<24) func cleanCutOff(round: Int) async throws {
        // Bytes that nobody reads would turn the client's end into a reset, which drops what the sockets hold.
        try await withLink(window: 1 << 24, streamWindow: 1000, onRequest: { if $0.tag == 1 { $1.accept($0) } }) { bench, server, _ in
            bench.submit(.make(3_000, tag: 2, bytes: 4096))
            await submitted(10, by: bench)
            await bench.pool.shutdown(deadline: .milliseconds(round * 4))
            let batch = try #require(try await bench.next()[2])
            let unsent = Set(batch.answers.filter { $0.result == .notSent(.shuttingDown) }.map(\.index))
            _ = try await server.ended.next()
            let arrived = Set(server.requests.waiting.map(\.index))
            #expect(!unsent.isEmpty)
            #expect(arrived.intersection(unsent).count == 0)
        }
    }
}
