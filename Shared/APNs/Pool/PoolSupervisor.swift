import Dispatch
import Logging
import SystemIO

/// What reaches a pool's supervisor.
enum PoolMessage: Sendable {
    case connection(ConnectionReport)
    /// Something is parked that no connection will take by itself.
    case workWaits
    /// Not parked: to be given back, from a thread of ours rather than from within the caller's call.
    case refused(Share, NotSentReason)
    /// - cutOff: when what is still in flight is given up.
    case shutDown(cutOff: ContinuousClock.Instant)
}

/// One thread per pool: performs what `PoolLifecycle` decides, and sees to it that nothing waits for ever. Never on the path of a request.
final class PoolSupervisor {
    private let context: PoolContext
    private let mailbox: Mailbox<PoolMessage>
    private let arrivals: DispatchSemaphore
    private let onEvent: @Sendable (APNsPoolEvent) -> Void
    private let logger: Logger
    private var lifecycle: PoolLifecycle
    private var connections: [ConnectionID: Mailbox<ConnectionCommand>] = [:]
    /// Opened and not yet closed: they may hold requests, which a connection being dialled cannot.
    private var opened: Set<ConnectionID> = []
    private var refused: [(share: Share, reason: NotSentReason)] = []
    private var now: ContinuousClock.Instant
    private var lastArrival: ContinuousClock.Instant
    private var nextSweep: ContinuousClock.Instant?
    private var cutOff: ContinuousClock.Instant?
    private var isStopping = false

    /// How often what waits is looked over for expiry.
    private static let sweepInterval: Duration = .milliseconds(250)

    init(
        _ context: PoolContext, mailbox: Mailbox<PoolMessage>, arrivals: DispatchSemaphore,
        onEvent: @escaping @Sendable (APNsPoolEvent) -> Void, logger: Logger
    ) {
        self.context = context
        self.mailbox = mailbox
        self.arrivals = arrivals
        self.onEvent = onEvent
        self.logger = logger
        now = context.clock.now()
        lastArrival = now
        lifecycle = PoolLifecycle(PoolLifecycle.Rules(context.configuration), now: now)
    }

    /// The thread's work, until the pool is shut down and no request is left with it.
    func run() {
        while true {
            let messages = mailbox.takeAll()
            // Not before: a pause that was over when a message was sent is over when it is handled.
            now = context.clock.now()
            for message in messages { handle(message) }
            perform(lifecycle.tick(now: now, lastArrival: lastArrival))
            lookAfterParking()
            settleRefused()
            announce()
            if isStopping, opened.isEmpty { break }
            cutOffIfDue()
            wait()
        }
        for message in mailbox.close() { handle(message) }
        lookAfterParking()
        settleRefused()
    }

    private func handle(_ message: PoolMessage) {
        switch message {
        case .connection(let report): handle(report)
        case .workWaits: nextSweep = nextSweep ?? now + Self.sweepInterval
        case .refused(let share, let reason): refused.append((share, reason))
        case .shutDown(let cutOff):
            isStopping = true
            self.cutOff = min(self.cutOff ?? cutOff, cutOff)
            perform(lifecycle.shutDown())
        }
    }

    private func handle(_ report: ConnectionReport) {
        switch report.news {
        case .opened:
            context.ledger.count { $0.connectionsOpened += 1 }
            opened.insert(report.id)
            tell(.connectionOpened(address: report.address ?? ""))
            perform(lifecycle.opened(report.id))
        case .proven:
            context.ledger.count { $0.connectionsProven += 1 }
            tell(.connectionProven(address: report.address ?? ""))
            lifecycle.proven(report.id)
        case .retiring(let cause):
            context.ledger.count { $0.retirements[cause.metricLabel, default: 0] += 1 }
            tell(.connectionRetired(address: report.address ?? "", reason: cause.label))
            perform(lifecycle.retiring(report.id, cause, now: now))
        case .failed(let error):
            connections[report.id] = nil
            count(error)
            if error.isCertificateRefused {
                perform(lifecycle.retiring(report.id, .credential(reason: RetireCause.certificateRefused), now: now))
            }
            perform(lifecycle.closed(report.id, now: now))
        case .closed(let cause):
            connections[report.id] = nil
            opened.remove(report.id)
            tell(.connectionClosed(address: report.address ?? "", reason: cause.label))
            perform(lifecycle.closed(report.id, now: now))
        }
    }

    private func count(_ error: DialError) {
        if error.step == DialError.thread {
            context.ledger.count { $0.threadsRefused += 1 }
            tell(.threadRefused(reason: error.message))
        } else {
            context.ledger.count { $0.connectionsFailed += 1 }
            tell(.connectionFailed(address: error.address?.description, reason: error.description))
        }
    }

    private func perform(_ actions: [PoolLifecycle.Action]) {
        for action in actions {
            switch action {
            case .dial(let id): dial(id)
            case .drain(let id): connections[id]?.post(.drain)
            }
        }
    }

    private func dial(_ id: ConnectionID) {
        do throws(DialError) {
            connections[id] = try connect(id)
        } catch {
            context.report(.init(id: id, address: nil, news: .failed(error)))
        }
    }

    private func connect(_ id: ConnectionID) throws(DialError) -> Mailbox<ConnectionCommand> {
        let wakeUp: WakeUp
        do { wakeUp = try WakeUp() } catch { throw DialError(address: nil, step: "connect", message: "\(error)") }
        let commands = Mailbox<ConnectionCommand>(wakeUp: wakeUp)
        let context = context
        do throws(SystemError) {
            // The thread ends by itself; nobody has to wait for one that hangs in the resolver.
            try context.configuration.startThread("apns-\(id)") { ConnectionThread.run(id, context, wakeUp, commands) }
        } catch {
            throw DialError(address: nil, step: DialError.thread, message: error.description)
        }
        return commands
    }

    /// Tells newcomers what they meet, and lets nothing wait beyond its time.
    private func lookAfterParking() {
        let admission = lifecycle.admission(now: now)
        let isSweepDue = nextSweep.map { now >= $0 } ?? false
        let room = context.parking.update(admission: admission, looksAway: isSweepDue || isStopping)
        lastArrival = room.lastArrival
        if case .refusing(let reason) = admission {
            for share in room.removed { settle(share, .notSent(reason)) }
        }
        if room.hasWork, lifecycle.usableConnections == 0 { perform(lifecycle.workWaits(now: now)) }
        if isSweepDue {
            sweep()
            nextSweep = nil
        }
        if room.hasWork, nextSweep == nil { nextSweep = now + Self.sweepInterval }
        let load = context.ledger.load(
            of: lifecycle.usableIDs, maximumStreams: context.configuration.maximumStreams, requestsWait: room.hasWork)
        perform(lifecycle.observe(load, now: now))
    }

    private func sweep() {
        let (now, wall) = (now, context.clock.wall())
        let longest = context.configuration.maximumWait
        for share in context.parking.remove(where: { wall >= $0.batch.expiresAt || now >= $0.parkedAt + longest }) {
            settle(share, wall >= share.batch.expiresAt ? .stopped(.expired) : .notSent(.congested))
        }
    }

    /// After newcomers meet what the refused themselves may have changed: who tries again at once is not refused for what is over.
    private func settleRefused() {
        for (share, reason) in refused { settle(share, .notSent(reason)) }
        refused.removeAll()
    }

    private func settle(_ share: Share, _ result: APNsAnswer.Result) {
        if case .stopped = result { context.ledger.count { $0.stopped += share.requests.count } }
        if let finished = share.settle(result) { context.onFinished([finished]) }
    }

    private func announce() {
        let state = lifecycle.state
        if context.ledger.set(state) { tell(.stateChanged(state)) }
    }

    private func tell(_ event: APNsPoolEvent) {
        logger.debug("\(event)")
        onEvent(event)
    }

    private func cutOffIfDue() {
        guard let cutOff, now >= cutOff else { return }
        for id in opened { connections[id]?.post(.cutOff) }
        self.cutOff = nil
    }

    private func wait() {
        var next = lifecycle.nextWake(now: now, lastArrival: lastArrival)
        for other in [nextSweep, cutOff].compactMap(\.self) { next = min(next ?? other, other) }
        guard let next else {
            arrivals.wait()
            return
        }
        let left = max(.zero, next - now) / .nanoseconds(1)
        _ = arrivals.wait(timeout: .now() + .nanoseconds(Int(min(left, 3.6e12))))
    }
}

extension PoolLifecycle.Rules {
    init(_ configuration: APNsPoolConfiguration) {
        self.init(
            size: PoolSize.Rules(
                minimum: max(1, configuration.connections), maximum: max(1, configuration.connections, configuration.maximumConnections),
                growAfter: configuration.growAfter, shrinkAfter: configuration.shrinkAfter), stagger: configuration.stagger,
            patience: configuration.patience,
            stableAge: configuration.stableAge, idleLimit: configuration.idleLimit, backoffBase: configuration.backoffBase,
            backoffCap: configuration.backoffCap, probeBase: configuration.probeBase, probeCap: configuration.probeCap,
            breakerBase: configuration.breakerBase)
    }
}
