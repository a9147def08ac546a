package import Logging
package import OpenSSL
package import PushModel
import Synchronization

/// The connections to one service of APNs in one environment under one credential, and the requests that wait for them.
///
/// Batches go in with ``submit(_:)`` and come back, each once and whole, through `onFinished`. A pool knows nothing of jobs. It connects
/// when there is work. Call ``shutdown(deadline:)`` before the last reference goes: the pool's event loop keeps its open requests.
package final class APNsPool: Sendable {
    package let credential: String
    package let environment: APNsEnvironment
    /// Held: the threads end with the last reference.
    private let loops: APNsEventLoops
    private let loop: EventLoopHandle
    private let context: PoolContext

    private static let lastID = Atomic(0)

    /// Opens nothing yet.
    /// - Parameters:
    ///   - service: the target of every batch.
    ///   - gate: asked for every request right before it leaves, on the pool's thread; must not block.
    ///   - onFinished: called on the pool's thread, or by ``submit(_:)``, with the batches that were finished together; must hand over and
    ///     return.
    ///   - onEvent: likewise. For logs and alarms.
    /// - Throws: if the trusted authorities cannot be read, or the certificate or the key cannot be used.
    package init(
        on loops: APNsEventLoops, configuration: APNsPoolConfiguration = APNsPoolConfiguration(), credential: APNsCredential,
        endpoint: APNsEndpoint, environment: APNsEnvironment, service: APNsService = .device,
        gate: @escaping @Sendable (APNsBatch, APNsRequest) -> StopReason?,
        onFinished: @escaping @Sendable ([APNsFinishedBatch]) -> Void, onEvent: @escaping @Sendable (APNsPoolEvent) -> Void = { _ in },
        logger: Logger = Logger(label: "apns")
    ) throws(TLSError) {
        self.credential = credential.name
        self.environment = environment
        self.loops = loops
        loop = loops.pick()
        context = PoolContext(
            id: Self.lastID.wrappingAdd(1, ordering: .relaxed).newValue, configuration: configuration,
            signer: try loops.signer(of: credential), endpoint: endpoint, environment: environment, service: service,
            tls: try Self.tls(endpoint, credential, loops), resolver: loops.resolver, loop: loop, board: PoolBoard(), gate: gate,
            onFinished: onFinished, onEvent: onEvent, logger: logger)
    }

    private static func tls(
        _ endpoint: APNsEndpoint, _ credential: APNsCredential, _ loops: APNsEventLoops
    ) throws(TLSError) -> TLSContext {
        guard case .certificate(let certificate) = credential.kind else { return try loops.context(trusting: endpoint.trust) }
        return try TLSContext.client(trust: endpoint.trust, clientCertificate: certificate, alpn: ["h2"])
    }

    /// Hands over all given batches with one lock and one wake-up. Never blocks; from any thread. A batch that cannot be sent comes back as
    /// soon as that is known, at once while the pool is paused or has been without a connection for longer than its patience.
    package func submit(_ batches: [APNsBatch]) {
        if !loop.post(.submit(batches, context)) { context.giveBack(batches) }
    }

    package var state: APNsPoolState { context.board.state }

    package func snapshot() -> APNsPoolSnapshot { context.board.snapshot }

    /// Returns waiting requests as `.notSent`, awaits the answers to those in flight, and closes. New batches come back at once. Every
    /// batch has come back when this returns.
    /// - Parameter deadline: The time from now; requests in flight then are given up: `.unknown` if they may have reached APNs.
    package func shutdown(deadline: Duration) async {
        await withCheckedContinuation { continuation in
            if !loop.post(.shutDown(context, cutOff: context.clock.now() + deadline, continuation)) { continuation.resume() }
        }
    }
}
