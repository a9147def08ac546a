import APNs
import ArgumentParser
import Dispatch
import Foundation
import Glibc
import OpenSSL
import PushModel
import Synchronization

extension DispatcherBenchmark {
    /// The APNs client alone: requests that lie in memory already go through a pool, as fast as it takes them.
    struct Client: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Send requests from memory through one pool of the APNs client.")
        @Option(help: "The simulator's host is localhost; this is its port.") var port: Int
        @Option(help: "The .p8 key that the simulator knows.") var keyFile: String
        @Option(help: "PEM authority of the simulator's certificate.") var caFile: String
        @Option var keyID = "DEMO123456"
        @Option var teamID = "TEAM123456"
        @Option var connections = 4
        @Option(help: "How many requests are measured.") var requests: Int
        @Option(help: "Requests in a batch.") var batch = 100
        @Option(help: "Which tokens: those that are answered after so many milliseconds.") var answerMilliseconds = 0
        @Option var payloadBytes = 110
        @Option(help: "now, soon or bulk.") var lane = "now"

        func run() async throws {
            let feeder = Feeder(batches: try batches())
            var configuration = APNsPoolConfiguration()
            configuration.connections = connections
            configuration.maximumConnections = connections
            configuration.stagger = .zero
            let pool = try APNsPool(
                on: APNsEventLoops(threads: 1), configuration: configuration,
                credential: APNsCredential(
                    name: "benchmark", kind: .token(teamID: teamID, keyID: keyID, key: try ES256PrivateKey(pemFile: keyFile))),
                endpoint: APNsEndpoint(host: "localhost", port: port, trust: .file(caFile)), environment: .production,
                gate: { _, _ in nil }, onFinished: { feeder.finished($0) })
            try await proveConnections(of: pool, feeder)
            let before = Self.cpu()
            let begin = ContinuousClock.now
            await feeder.run(pool)
            let seconds = begin.duration(to: .now).seconds
            let cpu = Self.cpu() - before
            await pool.shutdown(deadline: .zero)
            guard feeder.accepted >= requests else {
                throw ValidationError("only \(feeder.accepted) of \(requests) requests were accepted")
            }
            Report(
                name: "client", deliveries: requests, seconds: seconds, accepted: feeder.accepted,
                sent: pool.snapshot().totals.submitted, cpuSeconds: cpu
            ).print()
        }

        private func batches() throws -> [APNsBatch] {
            let expiration = Int64(Date().timeIntervalSince1970) + 3600
            guard let lane = Lane(rawValue: lane) else { throw ValidationError("--lane is now, soon or bulk") }
            let tokens = try (0..<BenchTokens.count).map { index in
                guard let token = DeviceToken(bytes: BenchTokens.bytes(index, answerMilliseconds: answerMilliseconds)) else {
                    throw ValidationError("thirty-two bytes are a token")
                }
                return token
            }
            let payload = Array(alertPayload(bytes: payloadBytes).utf8)
            return stride(from: 0, to: requests, by: batch).map { first in
                APNsBatch(
                    tag: UInt64(first), lane: lane, pushType: .alert, topic: "com.example.shop", priority: 10, expiration: expiration,
                    expiresAt: expiration * 1000, payload: payload,
                    requests: (first..<min(first + batch, requests)).map { index in
                        APNsRequest(
                            id: .random(), token: tokens[index % tokens.count], installation: PushID(high: 1, low: UInt64(index)),
                            ownerEpoch: 1, index: index - first)
                    })
            }
        }

        /// The pool opens connections one after another, and each must show its token before it may use more than one stream.
        private func proveConnections(of pool: APNsPool, _ feeder: Feeder) async throws {
            let deadline = ContinuousClock.now + .seconds(20)
            while pool.snapshot().connections.count(where: { $0.isAuthenticated }) < connections {
                guard ContinuousClock.now < deadline else { throw ValidationError("not all connections came about") }
                await feeder.probe(pool)
            }
        }

        private static func cpu() -> Double {
            var usage = rusage()
            unsafe getrusage(RUSAGE_SELF.rawValue, &usage)
            return processorSeconds(usage)
        }
    }
}
