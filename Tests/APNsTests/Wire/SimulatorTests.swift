import APNsSimulator
import Logging
import OpenSSL
import PushModel
import SystemIO
import TestIdentity
import TestSupport
import Testing

@testable import APNs

/// Against the whole simulator. Its rules are Apple's, and it shares none of them with the client: only the modules HTTP2, OpenSSL,
/// StrictJSON and SystemIO.
@Suite("Against the simulator", .timeLimit(.minutes(5)))
struct SimulatorTests {
    private func with(
        _ changeSimulator: (inout APNsSimulatorConfiguration) -> Void = { _ in },
        _ changePool: (inout APNsPoolConfiguration) -> Void = { _ in },
        _ body: (APNsSimulator, PoolBench) async throws -> Void
    ) async throws {
        let identity = try TestIdentity.shared.get()
        var configuration = APNsSimulatorConfiguration(
            certificateFile: identity.certificateFile, keyFile: identity.keyFile,
            keys: [ProviderKey(teamID: TestIdentity.teamID, keyID: TestIdentity.keyID, publicKey: identity.key.publicKey)])
        changeSimulator(&configuration)
        let simulator = try APNsSimulator(configuration, logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        try simulator.start()
        let bench = try PoolBench(port: simulator.productionPort, changePool)
        let result: Result<Void, any Error>
        do { result = .success(try await body(simulator, bench)) } catch { result = .failure(error) }
        await bench.pool.shutdown(deadline: .zero)
        simulator.stop()
        try result.get()
    }

    @Test("Thousands of deliveries arrive once each under their own ids") func thousands() async throws {
        try await with({ _ in }, { $0.connections = 2 }) { simulator, bench in
            for tag in 0..<200 { bench.submit(.make(50, tag: UInt64(tag), lane: Lane.allCases[tag % 3])) }
            let finished = try await bench.next(200)
            #expect(finished.values.allSatisfy { $0.acceptedCount == 50 })
            let journal = simulator.journal()
            #expect(journal.count == 10_000)
            #expect(Set(journal.map(\.apnsID)).count == 10_000)
            #expect(journal.allSatisfy { $0.status == 200 })
        }
    }

    @Test("Many bad tokens slow the pool down and never change an outcome") func manyBadTokensMakeItSlowAndNeverWrong() async throws {
        // After each rejection one stream is allowed until a push is accepted (docs/apns.md, Streams).
        try await with { simulator, bench in
            // All of them leave in one turn: a stream that is on its way when the limit falls is refused.
            let batch = APNsBatch.make(200)
            for request in batch.requests where request.index % 3 == 0 {
                try simulator.script(request.token.hex, [.reject(.badDeviceToken)])
            }
            bench.submit(batch)
            let finished = try await bench.next()[1]
            #expect(finished?.acceptedCount == 133)
            for request in batch.requests where request.index % 3 == 0 {
                #expect(finished?[request.index] == .response(status: 400, reason: "BadDeviceToken", timestamp: nil, retryAfter: nil))
            }
            #expect(Set(simulator.journal().map(\.apnsID)).count == 200)
        }
    }

    @Test("A revoked key pauses the pool") func revokedKey() async throws {
        try await with { simulator, bench in
            bench.submit(.make(10, tag: 1))
            _ = try await bench.next()
            simulator.revoke(keyID: TestIdentity.keyID)
            bench.submit(.make(10, tag: 2))
            try await bench.state(.paused(reason: "InvalidProviderToken"))
            let batch = try await bench.next()[2]
            #expect(batch?.acceptedCount == 0)
        }
    }

    @Test("Every delivery has an outcome when connections close under load") func closesUnderLoad() async throws {
        // A batch waits for a connection as long as the test runs: how fast a busy machine connects decides nothing here.
        try await with({ _ in }, { ($0.connections, $0.patience) = (2, .seconds(3600)) }) { simulator, bench in
            var unknown = 0
            var accepted = 0
            for round in 0..<10 {
                for tag in 0..<20 { bench.submit(.make(50, tag: UInt64(round * 20 + tag))) }
                if round % 2 == 0 { simulator.closeConnections() } else { simulator.goAway() }
                for finished in try await bench.finished.next(20) {
                    #expect(finished.answers.count == 50)
                    for answer in finished.answers {
                        switch answer.result {
                        case .response(200, _, _, _): accepted += 1
                        case .unknown(.connectionLost): unknown += 1
                        default: Issue.record("\(answer.result)")
                        }
                    }
                }
            }
            let seen = Dictionary(grouping: simulator.journal(), by: \.apnsID)
            #expect(accepted + unknown == 10_000)
            #expect(seen.values.allSatisfy { $0.count == 1 }, "no delivery was sent twice")
            #expect(seen.count >= accepted)
        }
    }

    @Test("The client reports what the simulator answers for a device") func deviceAnswers() async throws {
        try await with { simulator, bench in
            let batch = APNsBatch.make(3)
            try simulator.install(batch.requests[0].token.hex)
            try simulator.install(batch.requests[1].token.hex)
            try simulator.uninstall(batch.requests[1].token.hex, since: 1_700_000_000_000)
            bench.submit(batch)
            let finished = try await bench.next()[1]
            #expect(finished?[0] == .accepted)
            #expect(finished?[1] == .response(status: 410, reason: "Unregistered", timestamp: 1_700_000_000_000, retryAfter: nil))
            let inbox = try await simulator.inbox(batch.requests[0].token.hex, reaching: 1)
            #expect(inbox.first?.apnsID == batch.requests[0].id.description)
        }
    }
}
