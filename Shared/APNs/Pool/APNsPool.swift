import Dispatch
package import Logging
package import OpenSSL
package import PushModel
import Synchronization
import SystemIO

/// The connections to one environment of APNs under one credential, and what waits for them.
///
/// Batches go in with ``submit(_:)`` and come back, each once and whole, through `onFinished`; everything between is the pool's business.
/// A pool knows nothing of jobs and queues. Call ``shutdown(deadline:)`` before letting go of it: its threads keep it alive.
package final class APNsPool: Sendable {
    private enum Life {
        case new
        /// The supervisor's thread runs, or is being started.
        case running
        /// The system refused the supervisor's thread: what comes goes back, and the next attempt is due by ``Backoff``.
        case refused
        case finished
    }

    private struct Run {
        var life = Life.new
        var isStopping = false
        var waiting: [CheckedContinuation<Void, Never>] = []
        var backoff: Backoff
    }

    package let credential: String
    package let environment: APNsEnvironment
    private let context: PoolContext
    private let mailbox: Mailbox<PoolMessage>
    private let arrivals: DispatchSemaphore
    private let onEvent: @Sendable (APNsPoolEvent) -> Void
    private let logger: Logger
    private let runState: Mutex<Run>

    /// Opens nothing yet.
    /// - Parameters:
    ///   - gate: asked for every request at the last moment before it is handed to HTTP/2, on a connection's thread; must not block.
    ///   - onFinished: called on a thread of the pool, or by ``submit(_:)``, with what became finished together; must hand over and return.
    ///   - onEvent: likewise. For logs and alarms.
    /// - Throws: where the trusted authorities cannot be read, or the certificate cannot be used.
    package init(
        configuration: APNsPoolConfiguration = APNsPoolConfiguration(), credential: APNsCredential, endpoint: APNsEndpoint,
        environment: APNsEnvironment, gate: @escaping @Sendable (APNsBatch, APNsRequest) -> StopReason?,
        onFinished: @escaping @Sendable ([APNsFinishedBatch]) -> Void, onEvent: @escaping @Sendable (APNsPoolEvent) -> Void = { _ in },
        logger: Logger = Logger(label: "apns")
    ) throws(TLSError) {
        let arrivals = DispatchSemaphore(value: 0)
        let mailbox = Mailbox<PoolMessage>(onPost: { arrivals.signal() })
        self.credential = credential.name
        self.environment = environment
        self.mailbox = mailbox
        self.arrivals = arrivals
        self.onEvent = onEvent
        self.logger = logger
        runState = Mutex(Run(backoff: Backoff(base: configuration.backoffBase, cap: configuration.backoffCap)))
        context = PoolContext(
            configuration: configuration, signer: ProviderTokenSigner(credential),
            dialer: Dialer(
                endpoint: endpoint, context: try Self.tls(endpoint, credential), showsCertificate: credential.isCertificate,
                connectTimeout: configuration.connectTimeout, handshakeTimeout: configuration.handshakeTimeout,
                addresses: AddressDirectory(avoidance: configuration.addressAvoidance), clock: configuration.clock,
                resolve: configuration.resolve),
            authority: endpoint.authority,
            parking: Parking(
                weights: LaneQueue.Weights(now: configuration.weightNow, soon: configuration.weightSoon, bulk: configuration.weightBulk),
                maximumRequests: configuration.maximumParked, now: configuration.clock.now(),
                wakeSupervisor: { mailbox.post(.workWaits) }),
            ledger: PoolLedger(), gate: gate, onFinished: onFinished, report: { mailbox.post(.connection($0)) })
    }

    private static func tls(_ endpoint: APNsEndpoint, _ credential: APNsCredential) throws(TLSError) -> TLSContext {
        guard case .certificate(let certificate) = credential.kind else {
            return try TLSContext.client(trust: endpoint.trust, alpn: ["h2"])
        }
        return try TLSContext.client(trust: endpoint.trust, clientCertificate: certificate, alpn: ["h2"])
    }

    /// Begins to connect. Once.
    package func start() { startSupervisor(from: .new) }

    private func startSupervisor(from life: Life) {
        let isDue = runState.withLock { run in
            guard run.life == life else { return false }
            run.life = .running
            return true
        }
        guard isDue else { return }
        if life == .refused { context.parking.admit() }
        do throws(SystemError) {
            try context.configuration.startThread("apns-pool") { [self] in
                PoolSupervisor(context, mailbox: mailbox, arrivals: arrivals, onEvent: onEvent, logger: logger).run()
                finish()
            }
        } catch {
            refused(by: error)
        }
    }

    /// The system starts no thread: an error of this pool alone. What waits goes back, because no connection would take it.
    private func refused(by error: SystemError) {
        let (isStopping, delay) = runState.withLock { run in
            run.life = .refused
            return (run.isStopping, run.backoff.next(random: .random(in: 0.5..<1)))
        }
        context.ledger.count { $0.threadsRefused += 1 }
        onEvent(.threadRefused(reason: error.description))
        if isStopping { return finishWithoutThread() }
        giveBackAll(.notConnected, mailbox.takeAll())
        DispatchQueue.global().asyncAfter(deadline: .now() + .nanoseconds(Int(delay / .nanoseconds(1)))) { [self] in
            startSupervisor(from: .refused)
        }
    }

    private func giveBackAll(_ reason: NotSentReason, _ messages: [PoolMessage]) {
        var finished = context.parking.update(admission: .refusing(reason), looksAway: false).removed.compactMap {
            $0.settle(.notSent(reason))
        }
        for case .refused(let share, let reason) in messages {
            if let batch = share.settle(.notSent(reason)) { finished.append(batch) }
        }
        if !finished.isEmpty { context.onFinished(finished) }
    }

    private func finishWithoutThread() {
        giveBackAll(.shuttingDown, mailbox.close())
        if context.ledger.set(.closed) { onEvent(.stateChanged(.closed)) }
        finish()
    }

    private func finish() {
        let waiting = runState.withLock { run in
            run.life = .finished
            defer { run.waiting = [] }
            return run.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Hands batches over, those that there are at once: it costs one lock and one wake-up. Never blocks; from any thread. A batch that
    /// cannot be sent comes back as soon as that is known, at once while the pool is paused or has been without a connection for longer
    /// than its patience.
    package func submit(_ batches: [APNsBatch]) {
        let now = context.clock.now()
        var shares: [Share] = []
        shares.reserveCapacity(batches.count)
        var finished: [APNsFinishedBatch] = []
        for batch in batches {
            if batch.requests.isEmpty {
                finished.append(APNsFinishedBatch(batch: batch, answers: []))
            } else {
                shares.append(Share(ledger: BatchLedger(batch), requests: batch.requests.indices, parkedAt: now))
            }
        }
        let refused = context.parking.submit(shares)
        let hasSupervisor = refused.isEmpty || runState.withLock { $0.life != .refused }
        for (share, reason) in refused where !hasSupervisor || !mailbox.post(.refused(share, reason)) {
            if let batch = share.settle(.notSent(reason)) { finished.append(batch) }
        }
        if !finished.isEmpty { context.onFinished(finished) }
    }

    package var state: APNsPoolState { context.ledger.state }

    package func snapshot() -> APNsPoolSnapshot {
        context.ledger.snapshot(parked: context.parking.counts())
    }

    /// Returns what waits as `.notSent`, awaits the answers to what is in flight, and closes. New batches come back at once.
    /// Every batch has come back when this returns.
    /// - Parameter deadline: from now; what is in flight then is given up: `.unknown` where it may have reached APNs.
    package func shutdown(deadline: Duration) async {
        let hasThread = runState.withLock { run in
            run.isStopping = true
            return run.life == .running
        }
        guard hasThread else { return finishWithoutThread() }
        mailbox.post(.shutDown(cutOff: context.clock.now() + deadline))
        await withCheckedContinuation { continuation in
            let isFinished = runState.withLock { run in
                guard run.life != .finished else { return true }
                run.waiting.append(continuation)
                return false
            }
            if isFinished { continuation.resume() }
        }
    }
}
