import Logging
import OpenSSL
import PushModel
import Synchronization

/// The parts of a pool that never change. One object, because each message to the pool carries it.
final class PoolContext: Sendable {
    let id: PoolID
    let configuration: APNsPoolConfiguration
    /// Nil with a certificate.
    let signer: ProviderTokenSigner?
    let endpoint: APNsEndpoint
    let environment: APNsEnvironment
    let service: APNsService
    let tls: TLSContext
    let resolver: Resolver
    /// The destination of resolved names.
    let loop: EventLoopHandle
    let board: PoolBoard
    let gate: @Sendable (APNsBatch, APNsRequest) -> StopReason?
    /// Gets the batches that were finished together, never none.
    let onFinished: @Sendable ([APNsFinishedBatch]) -> Void
    let onEvent: @Sendable (APNsPoolEvent) -> Void
    let logger: Logger

    var clock: APNsClock { configuration.clock }

    init(
        id: PoolID, configuration: APNsPoolConfiguration, signer: ProviderTokenSigner?, endpoint: APNsEndpoint,
        environment: APNsEnvironment, service: APNsService, tls: TLSContext,
        resolver: Resolver, loop: EventLoopHandle, board: PoolBoard,
        gate: @escaping @Sendable (APNsBatch, APNsRequest) -> StopReason?, onFinished: @escaping @Sendable ([APNsFinishedBatch]) -> Void,
        onEvent: @escaping @Sendable (APNsPoolEvent) -> Void, logger: Logger
    ) {
        self.id = id
        self.configuration = configuration
        self.signer = signer
        self.endpoint = endpoint
        self.environment = environment
        self.service = service
        self.tls = tls
        self.resolver = resolver
        self.loop = loop
        self.board = board
        self.gate = gate
        self.onFinished = onFinished
        self.onEvent = onEvent
        self.logger = logger
    }

    func emit(_ event: APNsPoolEvent) {
        logger.debug("\(event)")
        onEvent(event)
    }

    /// The pool is closed: no request of these was sent.
    func giveBack(_ batches: [APNsBatch]) {
        if !batches.isEmpty { onFinished(batches.map { APNsFinishedBatch(batch: $0, notSent: .shuttingDown) }) }
    }
}

/// A pool's snapshot: its thread writes it, other threads read it.
final class PoolBoard: Sendable {
    private let shown = Mutex(APNsPoolSnapshot())

    var snapshot: APNsPoolSnapshot { shown.withLock { $0 } }
    var state: APNsPoolState { shown.withLock { $0.state } }

    func show<Result: Sendable>(_ change: (inout APNsPoolSnapshot) -> Result) -> Result { shown.withLock { change(&$0) } }
}
