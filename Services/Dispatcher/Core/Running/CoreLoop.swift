import APNs
import Broker
import Logging
import Observability
import PushModel
import Synchronization
import SystemIO

/// The thread that owns the core: takes events from the mailbox, passes them to the core, and performs its actions.
///
/// Only the wait for the next event blocks: pools, publisher and consumers take over their work.
final class CoreLoop: Sendable {
    /// The receivers of the core's actions.
    struct Peers: Sendable {
        let pools: PoolTable
        let publisher: Publisher
        let markers: Publisher
        /// The consumers of its lanes. Each has a connection of its own, so that a queue without a leader holds up its own lane only.
        let jobs: [Lane: Consumer]
        let commands: Consumer
        let control: Consumer
        /// Called once when jobs may come.
        let startTaking: @Sendable () -> Void
    }

    /// Splits the stop's time: pools first, then the broker's confirmations, which get a quarter. A delivery that was sent and is not
    /// settled when the time is up comes again as a job, and is sent a second time without a report.
    struct Deadlines: Sendable {
        let pools: Duration
        /// The deadline for pools whose credential was replaced: longer than any request may take.
        let retiring: Duration
        let all: Duration
    }

    private static let tick: Int64 = 100

    private let inbox: Mailbox<CoreEvent>
    private let wakeUp: WakeUp
    private let makeCore: @Sendable () -> DispatcherCore
    private let peers: Peers
    private let deadlines: Deadlines
    private let metrics: DispatcherMetrics
    private let notes: NoteLog
    private let shared = Mutex(CoreStatus())
    private let isStopRequested = Atomic(false)
    /// The core may take jobs, and the publisher has not been ready yet.
    private let isTakingDue = Atomic(false)

    init(
        inbox: Mailbox<CoreEvent>, wakeUp: WakeUp, peers: Peers, deadlines: Deadlines, metrics: DispatcherMetrics,
        notes: NoteLog,
        makeCore: @escaping @Sendable () -> DispatcherCore
    ) {
        self.inbox = inbox
        self.wakeUp = wakeUp
        self.peers = peers
        self.deadlines = deadlines
        self.metrics = metrics
        self.notes = notes
        self.makeCore = makeCore
    }

    /// The core's status: not ready from the first sign of a stop on, before any part is stopped.
    var status: CoreStatus {
        var status = shared.withLock { $0 }
        status.isStopping = status.isStopping || isStopRequested.load(ordering: .acquiring)
        return status
    }

    /// Takes no more jobs, finishes requests in flight, gives back the rest. From any thread; a repeated call has no effect.
    func stop() {
        isStopRequested.store(true, ordering: .releasing)
        inbox.post(.stop)
    }

    /// The whole life of the thread: until everything is settled after a stop, or the stop's time is up.
    /// - Returns: whether everything was settled.
    func run() throws(SystemError) -> Bool {
        let poller = try Poller()
        try poller.add(wakeUp.descriptor, key: 0, interest: .read)
        var core = makeCore()
        var events: [CoreEvent] = []
        var nextTick: Int64 = 0
        var end: ContinuousClock.Instant?
        let start = ContinuousClock.now
        while true {
            wakeUp.clear()
            let now = WallClock.milliseconds()
            let steady = Int64((ContinuousClock.now - start) / .milliseconds(1))
            let stoodStill = steady - core.steady > core.rules.confirmPatience
            core.steady = steady
            if stoodStill { core.handle(.resumed, at: now) }
            inbox.takeAll(into: &events)
            for event in events {
                core.handle(event, at: now)
                perform(core.takeActions())
            }
            core.beginNext(at: now)
            perform(core.takeActions())
            if steady >= nextTick {
                core.control.readsWhereItPublishes = peers.control.peer == peers.publisher.peer
                core.tick(at: now)
                nextTick = steady + Self.tick
                // Without it nothing of what is sent could be settled: objects of the broker may be missing that it alone needs.
                if isTakingDue.load(ordering: .relaxed), peers.publisher.state == .ready {
                    isTakingDue.store(false, ordering: .relaxed)
                    peers.startTaking()
                }
            }
            // All other events are handled at once: a control message concerns all waiting jobs.
            let isBusy = core.hasWork
            if !isBusy, inbox.count == 0 { core.flushIfDue(at: now) }
            perform(core.takeActions())
            report(&core)
            if core.isStopping {
                if core.isDrained { return true }
                let limit = end ?? ContinuousClock.now + deadlines.all
                end = limit
                if ContinuousClock.now >= limit { return false }
            }
            guard !isBusy else { continue }
            _ = try poller.wait(timeout: .milliseconds(core.book.isHolding ? CoreRules.gatheringPause : max(1, nextTick - steady)))
        }
    }

    /// Performs the actions in their order, except that each pool gets all batches that come one after another in one call.
    private func perform(_ actions: [CoreAction]) {
        // Most answers cause no action at once.
        guard !actions.isEmpty else { return }
        var open: [(pool: PoolNumber, service: APNsService, batches: [APNsBatch])] = []
        for action in actions {
            if case .submit(let batch, let pool) = action {
                let service = batch.target.service
                if let place = open.firstIndex(where: { $0.pool == pool && $0.service == service }) {
                    open[place].batches.append(batch)
                } else {
                    open.append((pool, service, [batch]))
                }
            } else {
                submit(&open)
                perform(action)
            }
        }
        submit(&open)
    }

    private func submit(_ open: inout [(pool: PoolNumber, service: APNsService, batches: [APNsBatch])]) {
        for (pool, _, batches) in open { peers.pools.submit(batches, to: pool) }
        open.removeAll()
    }

    private func perform(_ action: CoreAction) {
        switch action {
        case .submit(let batch, let pool): peers.pools.submit([batch], to: pool)
        case .publish(let number, let messages):
            let inbox = inbox
            peers.publisher.publish(messages) { answers in inbox.post(.published(number, answers)) }
        case .publishMarker(let marker, let message):
            let inbox = inbox
            peers.markers.publish([message]) { answers in
                for answer in answers { inbox.post(.markerPublished(marker, answer.outcome)) }
            }
        case .reconnectControl(let reason, let leavingNode):
            peers.markers.reconnect(because: reason)
            peers.control.readAnew(because: reason, leavingNode: leavingNode)
        case .reconnectPublisher(let reason): peers.publisher.reconnect(because: reason, at: peers.control.peer)
        case .acknowledge(let lane, let deliveryTags): peers.jobs[lane]?.acknowledge(deliveryTags)
        case .giveBack(let lane, let deliveryTags): peers.jobs[lane]?.giveBack(deliveryTags)
        case .discard(let lane, let deliveryTags): peers.jobs[lane]?.discard(deliveryTags)
        case .acknowledgeControl(let deliveryTags): peers.control.acknowledge(deliveryTags)
        case .startTaking: isTakingDue.store(true, ordering: .relaxed)
        case .stopTaking:
            for jobs in peers.jobs.values { jobs.stopTaking() }
            peers.commands.stopTaking()
        case .retirePools(let numbers): peers.pools.retire(numbers, deadline: deadlines.retiring)
        case .shutDownPools: peers.pools.shutDown(deadline: deadlines.pools)
        case .note(let note): notes.write(note)
        }
    }

    private func report(_ core: inout DispatcherCore) {
        let tally = core.takeTally()
        if !tally.isEmpty { metrics.add(tally) }
        if !core.effects.spans.isEmpty { core.rules.traces.record(core.takeSpans()) }
        let status = CoreStatus(
            jobsInProgress: core.jobs.count, work: core.book.ledger.work.lanes, unconfirmed: core.book.unconfirmed,
            holds: core.control.holds.count, control: core.control.position,
            isControlElsewhere: !core.control.readsWhereItPublishes,
            outcomesRefusedSince: core.book.refusal.map { core.now - (core.steady - $0.since) },
            isStopping: core.isStopping)
        shared.withLock { $0 = status }
    }
}

/// The state of the core, for readiness and metrics.
struct CoreStatus: Equatable, Sendable {
    var jobsInProgress = 0
    /// Begun and not settled.
    var work = Lanes(WorkLoad.Amount())
    var unconfirmed = 0
    var holds = 0
    var control = ControlPosition.disconnected
    /// The reader of the control stream is at another broker node than the publisher.
    var isControlElsewhere = false
    /// UNIX milliseconds.
    var outcomesRefusedSince: Int64?
    var isStopping = false
}
