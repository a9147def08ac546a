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

    /// Promise 11 (docs/promises.md). The uplink is so slow that the sockets still hold requests when the deadline has come.
    @Test("A stop gives nothing back that leaves all the same", arguments: 0..<8) func cleanCutOff(round: Int) async throws {
        // Bytes that nobody reads would turn the client's end into a reset, which drops what the sockets hold.
        try await withLink(window: 1 << 24, onRequest: { if $0.tag == 1 { $1.accept($0) } }) { bench, server, proxy in
            proxy.set(LinkConditions(toServer: .limited(to: 200_000)))
            bench.submit(.make(1_000, tag: 2, bytes: 4096))
            await submitted(10, by: bench)
            await bench.pool.shutdown(deadline: .milliseconds(1_000 + 37 * round))
            let batch = try #require(try await bench.next()[2])
            let unsent = Set(batch.answers.filter { $0.result == .notSent(.shuttingDown) }.map(\.index))
            #expect(!unsent.isEmpty)
            _ = try await server.ended.next()
            let arrived = Set(server.requests.waiting.map(\.index))
            #expect(arrived.intersection(unsent).count == 0)
        }
    }
}
