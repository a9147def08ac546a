import APNs
import ArgumentParser
import BenchmarkSupport
import Foundation
import OpenSSL
import PushModel
import Synchronization
import TestSupport

/// One request of `now` every 20 ms, over one connection, 100 ms away, without and beside 1,000 waiting requests of `bulk` with 4 KiB each:
/// the window of 65,535 bytes takes fourteen of them in each round trip, for `bulk` leaves an eighth to `now`.
extension DispatcherBenchmark.Compare {
    func measureWindow() async throws -> [Measure] {
        let proxy = try FaultProxy(toHost: "127.0.0.1", port: port)
        defer { proxy.stop() }
        proxy.set(LinkConditions(bothWays: .delayed(by: .milliseconds(50))))
        var (alone, beside): ([Double], [Double]) = ([], [])
        for round in 0...rounds {
            let values = (try await p99OfCalls(beside: 0, through: proxy.port), try await p99OfCalls(beside: 1_000, through: proxy.port))
            let text = String(format: "p99 of now %.1f ms alone, %.1f ms beside bulk", values.0, values.1)
            progress("window, \(round == 0 ? "warm-up" : "round \(round)"): \(text)")
            guard round > 0 else { continue }
            alone.append(values.0)
            beside.append(values.1)
        }
        return [
            Measure(
                name: "client: p99 of now beside 1,000 payloads of 4 KiB, 100 ms away", value: median(beside), unit: "ms",
                baseline: "without them", baselineValue: median(alone), bar: .ratioAtMost(1.5))
        ]
    }

    /// - Parameter bulk: how many requests of `bulk` wait or are under way at any time.
    /// - Returns: milliseconds from the hand-over to the answer.
    private func p99OfCalls(beside bulk: Int, through port: Int) async throws -> Double {
        let calls = WindowCalls()
        var configuration = APNsPoolConfiguration()
        configuration.connections = 1
        configuration.maximumConnections = 1
        let pool = try APNsPool(
            on: APNsEventLoops(threads: 1), configuration: configuration,
            credential: APNsCredential(
                name: "benchmark", kind: .token(teamID: "TEAM123456", keyID: "DEMO123456", key: try ES256PrivateKey(pemFile: keyFile))),
            endpoint: APNsEndpoint(host: "localhost", port: port, trust: .file(caFile)), environment: .production,
            gate: { _, _ in nil }, onFinished: { calls.finished($0) })
        calls.begin(pool)
        // The connection comes about, and shows its token.
        for number in 0..<50 { try await calls.call(UInt64(number), isCounted: false) }
        for number in 0..<UInt64(bulk / 100) { pool.submit([try calls.batch(.bulk, tag: 1_000_000 + number, count: 100, bytes: 4096)]) }
        for number in 0..<500 { try await calls.call(UInt64(1_000 + number), isCounted: true) }
        let took = try await calls.all(500)
        let accepted = calls.end()
        // Some 1,400 leave in ten seconds. Without them nothing would be measured.
        guard bulk == 0 || accepted >= bulk else { throw ValidationError("only \(accepted) requests of bulk were accepted meanwhile") }
        await pool.shutdown(deadline: .zero)
        return took.sorted()[494]
    }
}

/// The calls that are under way, and what they took.
private final class WindowCalls: Sendable {
    private struct State {
        var began: [UInt64: ContinuousClock.Instant] = [:]
        var took: [Double] = []
        var refused = 0
        var acceptedBulk = 0
        var pool: APNsPool?
    }

    private let state = Mutex(State())

    func begin(_ pool: APNsPool) { state.withLock { $0.pool = pool } }
    /// - Returns: how many requests of `bulk` were accepted.
    func end() -> Int {
        state.withLock { state in
            state.pool = nil
            return state.acceptedBulk
        }
    }

    /// Hands one request over, and returns 20 ms later.
    func call(_ tag: UInt64, isCounted: Bool) async throws {
        let call = try batch(.now, tag: tag, count: 1, bytes: 200)
        let pool = state.withLock { state in
            if isCounted { state.began[tag] = .now }
            return state.pool
        }
        pool?.submit([call])
        try await Task.sleep(for: .milliseconds(20))
    }

    /// Called on the connection's thread.
    func finished(_ batches: [APNsFinishedBatch]) {
        let (pool, again) = state.withLock { state in
            var again: [APNsBatch] = []
            for finished in batches {
                if finished.batch.lane == .bulk {
                    again.append(finished.batch)
                    for answer in finished.answers { if case .response(200, _, _, _) = answer.result { state.acceptedBulk += 1 } }
                } else if case .response(200, _, _, _) = finished.answers[0].result {
                    if let began = state.began.removeValue(forKey: finished.batch.tag) {
                        state.took.append(began.duration(to: .now).seconds * 1000)
                    }
                } else {
                    state.refused += 1
                }
            }
            return (state.pool, again)
        }
        if !again.isEmpty { pool?.submit(again) }
    }

    /// Waits for so many calls.
    func all(_ count: Int) async throws -> [Double] {
        let deadline = ContinuousClock.now + .seconds(60)
        while true {
            let (took, refused) = state.withLock { ($0.took, $0.refused) }
            if took.count == count { return took }
            guard refused == 0, .now < deadline else {
                throw ValidationError("\(took.count) of \(count) calls were accepted, \(refused) refused")
            }
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    func batch(_ lane: Lane, tag: UInt64, count: Int, bytes: Int) throws -> APNsBatch {
        let expiration = Int64(Date().timeIntervalSince1970) + 3600
        guard let token = DeviceToken(bytes: BenchTokens.bytes(0, answerMilliseconds: 0)) else {
            throw ValidationError("thirty-two bytes are a token")
        }
        return APNsBatch(
            tag: tag, lane: lane, pushType: .alert, topic: "com.example.shop", priority: 10, expiration: expiration,
            expiresAt: expiration * 1000, payload: Array(alertPayload(bytes: bytes).utf8),
            requests: (0..<count).map {
                APNsRequest(id: .random(), token: token, installation: PushID(high: 1, low: tag), ownerEpoch: 1, index: $0)
            })
    }
}
