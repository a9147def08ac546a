import Logging
import OpenSSL
import PushModel
import Synchronization
import TestIdentity
import TestSupport

@testable import APNs

/// A pool that dials one port of this machine, and its finished batches and events.
final class PoolBench: Sendable {
    let finished = Signal<APNsFinishedBatch>()
    let events = Signal<APNsPoolEvent>()
    /// The batches that the gate stops. The test may change them while the pool runs.
    let gate: StopList
    let pool: APNsPool

    init(
        port: Int, tlsName: String = "localhost", host: String = "127.0.0.1", kind: APNsCredential.Kind? = nil,
        environment: APNsEnvironment = .production, service: APNsService = .device, on loops: APNsEventLoops? = nil,
        _ change: (inout APNsPoolConfiguration) -> Void = { _ in }
    ) throws {
        let identity = try TestIdentity.shared.get()
        var configuration = APNsPoolConfiguration()
        configuration.connections = 1
        configuration.maximumConnections = 1
        configuration.stagger = .zero
        configuration.backoffBase = .milliseconds(20)
        configuration.backoffCap = .milliseconds(100)
        configuration.stableAge = .zero
        change(&configuration)
        let (finished, events, gate) = (finished, events, StopList())
        self.gate = gate
        pool = try APNsPool(
            on: loops ?? APNsEventLoops(threads: 1), configuration: configuration,
            credential: APNsCredential(
                name: "test", kind: kind ?? .token(teamID: TestIdentity.teamID, keyID: TestIdentity.keyID, key: identity.key)),
            endpoint: APNsEndpoint(host: host, port: port, tlsName: tlsName, trust: .file(identity.certificateFile)),
            environment: environment, service: service, gate: { batch, _ in gate.reason(for: batch) },
            onFinished: { for batch in $0 { finished.send(batch) } },
            onEvent: { events.send($0) }, logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
    }

    func submit(_ batches: APNsBatch...) {
        pool.submit(batches)
    }

    /// Makes the pool open its connections, with work that the gate stops.
    func connect() async throws {
        gate.stop(.max, .held)
        submit(.make(2, tag: .max))
        _ = try await next()
    }

    /// Makes a pool of two connections open both, and lets each have its first answer: before that it takes one request.
    func connectTwo() async throws {
        try await connect()
        for _ in 0..<2 { try await events.first { if case .connectionOpened = $0 { true } else { false } } }
        submit(.make(2, tag: 1))
        _ = try await next()
    }

    /// The next finished batches, by tag.
    func next(_ count: Int = 1) async throws -> [UInt64: APNsFinishedBatch] {
        let batches = try await finished.next(count)
        return Dictionary(uniqueKeysWithValues: batches.map { ($0.batch.tag, $0) })
    }

    func state(_ wanted: APNsPoolState) async throws {
        try await events.first { $0 == .stateChanged(wanted) }
    }
}

/// Which batches the gate stops.
final class StopList: Sendable {
    private let reasons = Mutex<[UInt64: StopReason]>([:])
    private let watcher = Mutex<@Sendable (APNsBatch) -> Void>({ _ in })

    func stop(_ tag: UInt64, _ reason: StopReason) { reasons.withLock { $0[tag] = reason } }
    /// - Parameter watcher: called, on the pool's thread, with the batch of each request that the gate is asked for.
    func watch(_ watcher: @escaping @Sendable (APNsBatch) -> Void) { self.watcher.withLock { $0 = watcher } }

    fileprivate func reason(for batch: APNsBatch) -> StopReason? {
        watcher.withLock { $0 }(batch)
        return reasons.withLock { $0[batch.tag] }
    }
}

/// Runs a test against a pool, and shuts the pool and the server down even if the test fails.
func withPool(
    _ server: ScriptedServer, tlsName: String = "localhost", _ change: (inout APNsPoolConfiguration) -> Void = { _ in },
    _ body: (PoolBench) async throws -> Void
) async throws {
    let bench = try PoolBench(port: server.port, tlsName: tlsName, change)
    let result: Result<Void, any Error>
    do { result = .success(try await body(bench)) } catch { result = .failure(error) }
    await bench.pool.shutdown(deadline: .zero)
    server.stop()
    try result.get()
}
