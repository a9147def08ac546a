import APNs
import Broker
import Logging
import PushModel
import Synchronization
import SystemIO

/// The thread that owns the core: takes what is in the mailbox, lets the core decide, and does what it says.
///
/// Nothing here blocks but the wait for the next event: pools, publisher and consumers take over what they are handed.
final class CoreLoop: Sendable {
    /// Whom the core's wishes go to.
    struct Peers: Sendable {
        let pools: PoolTable
        let publisher: Publisher
        let markers: Publisher
        let jobs: Consumer
        let control: Consumer
        /// Called once when jobs may come.
        let startTaking: @Sendable () -> Void
    }

    /// How the stop's time is spent: pools first, then what the broker must confirm. A quarter is for that: what was sent and is not confirmed as
    /// settled when the time is up comes again as a job, and is sent a second time without a word about it.
    struct Deadlines: Sendable {
        let pools: Duration
        /// For pools whose credential was replaced: longer than any request may take.
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

    /// Not ready from the first word of a stop on, before anything is stopped.
    var status: CoreStatus {
        var status = shared.withLock { $0 }
        status.isStopping = status.isStopping || isStopRequested.load(ordering: .acquiring)
        return status
    }

    /// Takes nothing more, finishes what is in flight, gives back the rest. From any thread; more than once is once.
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
        while true {
            wakeUp.clear()
            let now = WallClock.milliseconds()
            inbox.takeAll(into: &events)
            for event in events {
                core.handle(event, at: now)
                perform(core.takeActions())
            }
            core.beginNext(at: now)
            perform(core.takeActions())
            if now >= nextTick || nextTick - now > Self.tick {
                core.control.readsWhereItPublishes = peers.control.peer == peers.publisher.peer
                core.tick(at: now)
                nextTick = now + Self.tick
            }
            // Everything else is handled at once: what the control stream says holds for all jobs that wait.
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
            _ = try poller.wait(timeout: .milliseconds(core.book.isHolding ? CoreRules.gatheringPause : max(1, nextTick - now)))
        }
    }

    /// In their order, except that each pool gets all batches that come one after another in one call.
    private func perform(_ actions: [CoreAction]) {
        // An answer leads to nothing at once, as a rule.
        guard !actions.isEmpty else { return }
        var open: [(pool: PoolNumber, batches: [APNsBatch])] = []
        for action in actions {
            if case .submit(let batch, let pool) = action {
                if let place = open.firstIndex(where: { $0.pool == pool }) {
                    open[place].batches.append(batch)
                } else {
                    open.append((pool, [batch]))
                }
            } else {
                submit(&open)
                perform(action)
            }
        }
        submit(&open)
    }

    private func submit(_ open: inout [(pool: PoolNumber, batches: [APNsBatch])]) {
        for (pool, batches) in open { peers.pools.submit(batches, to: pool) }
        open.removeAll()
    }

    private func perform(_ action: CoreAction) {
        switch action {
        case .submit(let batch, let pool): peers.pools.submit([batch], to: pool)
        case .publish(let number, let messages):
            let inbox = inbox
            peers.publisher.publish(messages) { outcomes in inbox.post(.published(number, outcomes)) }
        case .publishMarker(let marker, let message):
            let inbox = inbox
            peers.markers.publish([message]) { _ in inbox.post(.markerPublished(marker)) }
        case .reconnectControl(let reason):
            peers.markers.reconnect(because: reason)
            peers.control.readAnew(because: reason)
        case .acknowledge(let receipts): peers.jobs.acknowledge(receipts)
        case .giveBack(let receipts): peers.jobs.giveBack(receipts)
        case .acknowledgeControl(let receipts): peers.control.acknowledge(receipts)
        case .startTaking: peers.startTaking()
        case .stopTaking: peers.jobs.stopTaking()
        case .retirePools(let numbers): peers.pools.retire(numbers, deadline: deadlines.retiring)
        case .shutDownPools: peers.pools.shutDown(deadline: deadlines.pools)
        case .note(let note): notes.write(note)
        }
    }

    private func report(_ core: inout DispatcherCore) {
        let tally = core.takeTally()
        if !tally.isEmpty { metrics.add(tally) }
        let status = CoreStatus(
            jobsInProgress: core.jobs.count, work: core.book.ledger.work.lanes, unconfirmed: core.book.unconfirmed,
            holds: core.control.holds.count, control: core.control.position,
            isControlElsewhere: !core.control.readsWhereItPublishes, outcomesRefusedSince: core.book.refusal?.since,
            isStopping: core.isStopping)
        shared.withLock { $0 = status }
    }
}

/// How the core is, for readiness and metrics.
struct CoreStatus: Equatable, Sendable {
    var jobsInProgress = 0
    /// Begun and not settled.
    var work = Lanes(WorkLoad.Amount())
    var unconfirmed = 0
    var holds = 0
    var control = ControlPosition.disconnected
    /// The control stream is read at another broker node than the one that takes publishes.
    var isControlElsewhere = false
    /// UNIX milliseconds.
    var outcomesRefusedSince: Int64?
    var isStopping = false
}
