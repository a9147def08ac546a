import PushModel
import TestSupport
import Testing

@testable import APNs

/// A connection may break at any byte, in either direction, before, in and after its handshake.
@Suite("A connection to APNs that breaks after any number of bytes", .timeLimit(.minutes(5)))
struct ByteSweepTests {
    private static let lanes = 4
    private static let requests = 5

    @Test("A broken connection gives every request one answer and sends none twice", arguments: [true, false], 0..<lanes)
    func brokenLater(isTowardsServer: Bool, lane: Int) async throws {
        try await withLink { bench, link, server in
            var sound = 0
            for bytes in stride(from: lane, through: 400, by: Self.lanes) {
                // The fault hits the open connection; the next one has no fault.
                link.set(Self.conditions(isTowardsServer, bytes))
                link.set(.forwarding, for: .new)
                let batch = try await Self.send(bytes, through: bench)
                let unknown = batch.answers.count { $0.result == .unknown(.connectionLost) || $0.result == .unknown(.streamReset) }
                #expect(batch.acceptedCount + unknown == Self.requests, "after \(bytes) bytes")
                if unknown == 0 { sound += 1 }
            }
            // If APNs did not get the whole request, its outcome is not in doubt.
            #expect(!isTowardsServer || sound > 0)
            try Self.checkThatNothingCameTwice(server)
        }
    }

    @Test("A connection that breaks in its handshake loses no request", arguments: [true, false], 0..<lanes)
    func brokenHandshake(isTowardsServer: Bool, lane: Int) async throws {
        try await withLink { bench, link, server in
            for bytes in stride(from: lane, through: 400, by: Self.lanes) {
                let made = link.accepted.waiting.count
                link.set(Self.conditions(isTowardsServer, bytes))
                link.cut()
                for _ in 0...made { _ = try await link.accepted.next() }
                link.set(.forwarding, for: .new)
                let batch = try await Self.send(bytes, through: bench)
                let unknown = batch.answers.count { $0.result == .unknown(.connectionLost) || $0.result == .unknown(.streamReset) }
                // Only a connection that finished its handshake may have carried a request.
                #expect(batch.acceptedCount + unknown == Self.requests, "after \(bytes) bytes")
            }
            try Self.checkThatNothingCameTwice(server)
        }
    }

    private static func send(_ bytes: Int, through bench: PoolBench) async throws -> APNsFinishedBatch {
        let tag = UInt64(bytes + 2)
        bench.submit(.make(requests, tag: tag))
        let batch = try #require(try await bench.next()[tag])
        #expect(batch.answers.map(\.index).sorted() == Array(0..<requests))
        return batch
    }

    private static func checkThatNothingCameTwice(_ server: ScriptedServer) throws {
        let twice = Dictionary(grouping: server.requests.waiting, by: { "\($0.tag) \($0.index)" }).filter { $0.value.count > 1 }
        #expect(twice.isEmpty)
    }

    private static func conditions(_ isTowardsServer: Bool, _ bytes: Int) -> LinkConditions {
        let way = LinkConditions.Way.ending(after: bytes, .reset)
        return isTowardsServer ? LinkConditions(toServer: way) : LinkConditions(toClient: way)
    }

    private func withLink(_ body: (PoolBench, FaultProxy, ScriptedServer) async throws -> Void) async throws {
        let server = try ScriptedServer()
        let link = try FaultProxy(port: server.port)
        defer { link.stop() }
        let bench = try PoolBench(port: link.port)
        bench.submit(.make(1, tag: 1))
        _ = try await bench.next()
        let result: Result<Void, any Error>
        do { result = .success(try await body(bench, link, server)) } catch { result = .failure(error) }
        await bench.pool.shutdown(deadline: .zero)
        server.stop()
        try result.get()
    }
}
