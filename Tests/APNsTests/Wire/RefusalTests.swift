import HTTP2
import TestSupport
import Testing

@testable import APNs

@Suite("Refused streams", .timeLimit(.minutes(5)))
struct RefusalTests {
    /// Refuses the requests that `isRefusing` chooses, and accepts the others.
    private func refusingServer(_ isRefusing: @escaping @Sendable (ScriptedRequest) -> Bool) throws -> ScriptedServer {
        try ScriptedServer { request, hand in
            if isRefusing(request) { hand.reset(request.stream, .refusedStream) } else { hand.accept(request) }
        }
    }

    private func open(_ count: Int, _ bench: PoolBench) async throws {
        try await bench.connect()
        for _ in 0..<count { try await bench.events.first { if case .connectionOpened = $0 { true } else { false } } }
    }

    @Test("Another connection gets a refused request at once under the same id")
    func anotherConnectionGetsItAtOnceUnderTheSameID() async throws {
        let server = try refusingServer { $0.connection == 1 && $0.index > 0 }
        try await withPool(
            server,
            {
                $0.connections = 2
                $0.maximumConnections = 2
            }
        ) { bench in
            try await open(2, bench)
            bench.submit(.make(100))
            let batch = try await bench.next()[1]
            #expect(batch?.acceptedCount == 100)
            let byPath = Dictionary(grouping: server.requests.waiting, by: \.path).values
            #expect(byPath.allSatisfy { Set($0.map(\.apnsID)).count == 1 })
            #expect(byPath.allSatisfy { $0.count == Set($0.map(\.connection)).count && $0.count <= 2 })
        }
    }

    @Test("No connection gets a refused request twice, and at most three others get it")
    func noConnectionGetsItTwiceAndNoMoreThanThreeOthersAtAll() async throws {
        let server = try refusingServer { _ in true }
        try await withPool(
            server,
            {
                $0.connections = 6
                $0.maximumConnections = 6
            }
        ) { bench in
            try await open(6, bench)
            bench.submit(.make(20))
            let batch = try await bench.next()[1]
            #expect(batch?.answers.allSatisfy { $0.result == .notSent(.refused) && $0.sentAt == nil } == true)
            let byPath = Dictionary(grouping: server.requests.waiting, by: \.path).values
            #expect(byPath.map(\.count) == Array(repeating: 4, count: 20))
            #expect(byPath.allSatisfy { Set($0.map(\.connection)).count == 4 })
            await bench.pool.shutdown(deadline: .zero)
            #expect(bench.pool.snapshot().totals.refused == 80)
            #expect(bench.pool.snapshot().totals.handedOver == 60)
        }
    }

    @Test("The only connection does not get a refused request again") func theOnlyConnectionDoesNotGetItAgain() async throws {
        let server = try refusingServer { $0.index > 0 }
        try await withPool(server) { bench in
            bench.submit(.make(10))
            let batch = try await bench.next()[1]
            #expect(batch?[0] == .accepted)
            #expect(batch?.answers.count { $0.result == .notSent(.refused) } == 9)
            #expect(server.requests.waiting.count == 10, "each was sent once")
        }
    }
}
