import Logging
import OpenSSL
import PushModel
import Synchronization

/// What a pool is made of: given once, and never changed. One object, because it goes with every message to the pool.
final class PoolContext: Sendable {
    let id: PoolID
    let configuration: APNsPoolConfiguration
    /// Nil where a certificate says who we are.
    let signer: ProviderTokenSigner?
    let endpoint: APNsEndpoint
    let environment: APNsEnvironment
    let tls: TLSContext
    /// Whether we show a certificate, and so may be refused for it.
    let showsCertificate: Bool
    let resolver: Resolver
    /// Where answers about names go.
    let loop: EventLoopHandle
    let board: PoolBoard
    let gate: @Sendable (APNsBatch, APNsRequest) -> StopReason?
    /// With what became finished together, never with nothing.
    let onFinished: @Sendable ([APNsFinishedBatch]) -> Void
    let onEvent: @Sendable (APNsPoolEvent) -> Void
    let logger: Logger

    var clock: APNsClock { configuration.clock }

    init(
        id: PoolID, configuration: APNsPoolConfiguration, signer: ProviderTokenSigner?, endpoint: APNsEndpoint,
        environment: APNsEnvironment, tls: TLSContext,
        showsCertificate: Bool, resolver: Resolver, loop: EventLoopHandle, board: PoolBoard,
        gate: @escaping @Sendable (APNsBatch, APNsRequest) -> StopReason?, onFinished: @escaping @Sendable ([APNsFinishedBatch]) -> Void,
        onEvent: @escaping @Sendable (APNsPoolEvent) -> Void, logger: Logger
    ) {
        self.id = id
        self.configuration = configuration
        self.signer = signer
        self.endpoint = endpoint
        self.environment = environment
        self.tls = tls
        self.showsCertificate = showsCertificate
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

    /// The pool is closed: nothing of these was sent.
    func giveBack(_ batches: [APNsBatch]) {
        let finished = batches.map { batch in
            APNsFinishedBatch(
                batch: batch, answers: batch.requests.map { APNsAnswer(index: $0.index, sentAt: nil, result: .notSent(.shuttingDown)) })
        }
        if !finished.isEmpty { onFinished(finished) }
    }
}

/// Where a pool's thread shows how the pool is, for those who ask from other threads.
final class PoolBoard: Sendable {
    private let shown = Mutex(APNsPoolSnapshot())

    var snapshot: APNsPoolSnapshot { shown.withLock { $0 } }
    var state: APNsPoolState { shown.withLock { $0.state } }

    func show(_ change: (inout APNsPoolSnapshot) -> Void) { shown.withLock { change(&$0) } }
}
