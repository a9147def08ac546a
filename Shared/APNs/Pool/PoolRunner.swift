import Logging
import PushModel
import SystemIO

/// A pool on its event loop: its queue, its connections, and the lifecycle that decides about them. No other thread touches them.
///
/// The loop reports events, and then calls ``work()`` once, which handles all of them.
final class PoolRunner {
    /// An open connection, and the readiness of its socket.
    private final class Open {
        let id: ConnectionID
        var connection: APNsConnection
        /// SETTINGS may have come with the handshake's last bytes, which no poller reports.
        var isReadable = true
        var isWritable = false

        init(_ connection: consuming APNsConnection) {
            id = connection.id
            self.connection = connection
        }

        /// The smallest gets the next request. One that is full comes later, and one that has faults last: few requests in flight are no
        /// merit then. Among full ones it is the one that was heard last: the others may stall.
        func rank(at now: ContinuousClock.Instant) -> (Int, Duration, Int, Int) {
            let (state, isFull) = (connection.state, connection.isFull)
            return (state.isFaulty(at: now) ? 2 : isFull ? 1 : 0, isFull ? now - state.lastRead : .zero, state.inFlight, state.requests)
        }

        func isDue(at now: ContinuousClock.Instant) -> Bool {
            isReadable || isWritable || connection.due.map { now >= $0 } ?? false
        }
    }

    private let context: PoolContext
    private let poller: Poller
    private let buffers: LoopBuffers
    private var lifecycle: PoolLifecycle
    private var queue: LaneQueue
    private var addresses: AddressBook
    private var dials: [ConnectionID: Dial] = [:]
    private var open: [Open] = []
    private var arrivals: [APNsBatch] = []
    private var finished: [APNsFinishedBatch] = []
    private var totals = APNsPoolSnapshot.Totals()

    private var now: ContinuousClock.Instant
    private var wall: Int64
    /// When a request last waited or was in flight.
    private var lastWork: ContinuousClock.Instant
    private var nextSweep: ContinuousClock.Instant?
    private var nextTick: ContinuousClock.Instant?
    /// When the totals were last published, and whether there are newer ones.
    private var lastShown: ContinuousClock.Instant?
    private var hasNews = false
    private var cutOff: ContinuousClock.Instant?
    private var isStopping = false
    private var waiting: [CheckedContinuation<Void, Never>] = []

    /// Interval of the search for expired requests, and the greatest age of the snapshot.
    private static let interval: Duration = .milliseconds(250)

    init(_ context: PoolContext, poller: Poller, buffers: LoopBuffers) {
        self.context = context
        self.poller = poller
        self.buffers = buffers
        let configuration = context.configuration
        (now, wall) = (context.clock.now(), context.clock.wall())
        lastWork = now
        lifecycle = PoolLifecycle(configuration, now: now)
        addresses = AddressBook(avoidance: configuration.addressAvoidance)
        queue = LaneQueue(maximumRequests: configuration.maximumQueued)
    }

    /// Shut down, all its requests are answered, and no connection or dial is left.
    var isOver: Bool { isStopping && open.isEmpty && dials.isEmpty }

    // MARK: What happens

    func note(_ event: Poller.Event, on id: ConnectionID) {
        guard let open = open.first(where: { $0.id == id }) else {
            return proceed(id) { $0.proceed(&addresses, buffers, now) }
        }
        if event.isReadable { open.isReadable = true }
        if event.isWritable { open.isWritable = true }
    }

    func resolved(_ result: Result<[SocketAddress], ResolveError>, for id: ConnectionID) {
        proceed(id) { $0.resolved(result, &addresses, now) }
    }

    func submit(_ batches: [APNsBatch]) { arrivals += batches }

    func shutDown(cutOff: ContinuousClock.Instant, _ continuation: CheckedContinuation<Void, Never>) {
        isStopping = true
        self.cutOff = min(self.cutOff ?? cutOff, cutOff)
        waiting.append(continuation)
        now = context.clock.now()
        perform(lifecycle.shutDown())
    }

    /// The loop ends: every request gets an answer.
    func giveUp() {
        isStopping = true
        cutOff = now
        perform(lifecycle.shutDown())
        _ = work()
    }

    // MARK: What follows

    /// Does all work that is due.
    /// - Returns: when to call it again, if no event comes before.
    func work() -> ContinuousClock.Instant? {
        (now, wall) = (context.clock.now(), context.clock.wall())
        if let nextTick, now >= nextTick {
            perform(lifecycle.tick(now: now, lastWork: lastWork))
            observeLoad()
        }
        // Before answers free streams: a batch that has arrived competes for them.
        admitArrivals()
        // A faulty one takes what the others leave, below.
        for open in open where open.isDue(at: now) { run(open, takes: !open.connection.state.isFaulty(at: now)) }
        for id in dials.keys { proceed(id) { $0.tick(&addresses, now) } }
        shareOut()
        lookAfterQueue()
        cutOffIfDue()
        announce()
        handOver()
        if isOver { for continuation in waiting { continuation.resume() } }
        return due
    }

    private func run(_ open: Open, takes: Bool) {
        open.connection.work(isReadable: open.isReadable, isWritable: open.isWritable, now: now, wall: wall, &queue, takes: takes)
        (open.isReadable, open.isWritable) = (false, false)
        collect(from: open)
    }

    /// Takes the results of a connection for the pool.
    private func collect(from open: Open) {
        hasNews = true
        let (id, address) = (open.id, open.connection.link.address)
        if !open.connection.finishedBatches.isEmpty {
            for batch in open.connection.finishedBatches { totals.countAnswers(of: batch) }
            finished += open.connection.finishedBatches
            open.connection.finishedBatches.removeAll(keepingCapacity: true)
        }
        let (news, ending) = (open.connection.news, open.connection.ending)
        if !news.isEmpty { open.connection.news.removeAll() }
        for one in news {
            switch one {
            case .opened:
                totals.connectionsOpened += 1
                context.emit(.connectionOpened(address: address.description))
                perform(lifecycle.opened(id))
            case .proven:
                totals.connectionsProven += 1
                context.emit(.connectionProven(address: address.description))
                lifecycle.proven(id)
            case .retiring(let cause):
                totals.retirements[cause.metricLabel, default: 0] += 1
                if cause.blamesAddress { addresses.failed(address, now: now) }
                context.emit(.connectionRetired(address: address.description, reason: cause.label))
                perform(lifecycle.retiring(id, cause, now: now))
            }
        }
        if let ending, let place = self.open.firstIndex(where: { $0 === open }) {
            self.open.remove(at: place)
            closed(open, ending)
        }
        putBack(from: open)
    }

    private func closed(_ open: Open, _ cause: CloseCause) {
        let address = open.connection.link.address
        totals.add(open.connection.totals)
        if cause.blamesAddress { addresses.failed(address, now: now) }
        addresses.closed(address)
        context.emit(.connectionClosed(address: address.description, reason: cause.label))
        perform(lifecycle.closed(open.id, now: now))
    }

    /// Puts requests that APNs certainly did not process first in the queue. If this connection refused them, another one gets them.
    private func putBack(from open: Open) {
        guard !open.connection.givenBack.isEmpty else { return }
        let shares = Share.joined(open.connection.givenBack)
        open.connection.givenBack.removeAll()
        let usable = Set(self.open.lazy.filter { $0.connection.state.isOpen }.map(\.id))
        for share in shares {
            guard share.mayBeResent(after: open.id, usable: usable) else {
                settle(share, .notSent(.refused))
                continue
            }
            totals.handedOver += share.requests.count
            queue.putBack(share)
        }
    }

    private func admitArrivals() {
        guard !arrivals.isEmpty else { return }
        let admission = lifecycle.admission(now: now)
        for batch in arrivals {
            guard !batch.requests.isEmpty else {
                finished.append(APNsFinishedBatch(batch: batch, answers: []))
                continue
            }
            let share = Share(ledger: BatchLedger(batch), requests: batch.requests.indices, queuedAt: now)
            if case .refusing(let reason) = admission {
                settle(share, .notSent(reason))
            } else if queue.append(share) {
                lifecycle.arrived(batch.requests.count, now: now)
            } else {
                settle(share, .notSent(.queueFull))
            }
        }
        arrivals.removeAll(keepingCapacity: true)
        perform(lifecycle.tick(now: now, lastWork: now))
    }

    /// Gives waiting requests to the connections that can take them: the least busy one first, and among equals the one that had the
    /// fewest, as a new one has. Each gets one turn.
    private func shareOut() {
        guard !queue.isEmpty else { return }
        var left = open.filter { $0.connection.isFree }
        while !queue.isEmpty, let next = left.min(by: { $0.rank(at: now) < $1.rank(at: now) }) {
            run(next, takes: true)
            left.removeAll { $0 === next }
        }
    }

    /// Lets no request wait beyond its time.
    private func lookAfterQueue() {
        if case .refusing(let reason) = lifecycle.admission(now: now) {
            for share in queue.remove(where: { _ in true }) { settle(share, .notSent(reason)) }
        }
        if !queue.isEmpty || open.contains(where: { $0.connection.state.inFlight > 0 }) { lastWork = now }
        if !queue.isEmpty, lifecycle.usableConnections == 0 { perform(lifecycle.workWaits(now: now)) }
        if let due = nextSweep, now >= due { sweep() }
        if !queue.isEmpty { nextSweep = nextSweep ?? now + Self.interval }
    }

    private func sweep() {
        nextSweep = nil
        let longest = context.configuration.maximumWait
        for share in queue.remove(where: { wall >= $0.batch.expiresAt || now >= $0.queuedAt + longest }) {
            settle(share, wall >= share.batch.expiresAt ? .stopped(.expired) : .notSent(.congested))
        }
        observeLoad()
        // Once more with an empty queue, so that the end of the wait is seen too.
        if !queue.isEmpty { nextSweep = now + Self.interval }
    }

    private func observeLoad() { perform(lifecycle.observe(load, now: now)) }

    private var load: PoolSize.Load {
        var load = PoolSize.Load(connections: 0, openStreams: 0, streamLimit: 0, requestsWait: !queue.isEmpty)
        for open in open where open.connection.state.isOpen {
            let limit = open.connection.state.streamLimit
            load.connections += 1
            load.openStreams += open.connection.isFull ? limit : open.connection.state.inFlight
            load.streamLimit += limit
        }
        return load
    }

    private func cutOffIfDue() {
        guard let cutOff, now >= cutOff else { return }
        for open in open {
            open.connection.cutOff()
            collect(from: open)
        }
        lookAfterQueue()
        self.cutOff = nil
    }

    private func settle(_ share: Share, _ result: APNsAnswer.Result) {
        if case .stopped = result { totals.stopped += share.requests.count }
        if let batch = share.settle(result) { finished.append(batch) }
    }

    // MARK: Connections

    private func perform(_ actions: [PoolLifecycle.Action]) {
        for action in actions {
            switch action {
            case .dial(let id): dials[id] = Dial(context, key: SocketKey(pool: context.id, connection: id), poller: poller)
            case .drain(let id):
                if var dial = dials.removeValue(forKey: id) {
                    dial.cancel(&addresses)
                    perform(lifecycle.closed(id, now: now))
                } else if let open = open.first(where: { $0.id == id }) {
                    open.connection.drain()
                    collect(from: open)
                }
            }
        }
    }

    /// Lets a dial take its next step.
    private func proceed(_ id: ConnectionID, _ step: (inout Dial) -> Dial.Progress) {
        guard var dial = dials[id] else { return }
        now = context.clock.now()
        let progress = step(&dial)
        dials[id] = dial
        switch progress {
        case .waits: break
        case .failed(let error): failed(id, error)
        case .done(let link):
            dials[id] = nil
            do {
                let connection = try APNsConnection.over(
                    link, context, key: SocketKey(pool: context.id, connection: id), poller: poller, buffers: buffers)
                open.append(Open(connection))
            } catch {
                link.close()
                addresses.closed(link.address)
                failed(id, DialError(address: link.address, step: "connect", message: "\(error)"))
            }
        }
    }

    private func failed(_ id: ConnectionID, _ error: DialError) {
        dials[id] = nil
        totals.connectionsFailed += 1
        hasNews = true
        context.emit(.connectionFailed(address: error.address?.description, reason: error.description))
        if error.isCertificateRefused {
            perform(lifecycle.retiring(id, .credential(reason: RetireCause.certificateRefused), now: now))
        }
        perform(lifecycle.closed(id, now: now))
    }

    // MARK: What others learn

    private func announce() {
        let state = lifecycle.state
        let isNew = context.board.show { board in
            defer { board.state = state }
            (board.queuedNow, board.queuedSoon, board.queuedBulk) = (queue.count(.now), queue.count(.soon), queue.count(.bulk))
            return board.state != state
        }
        if hasNews, isNew || isOver || lastShown.map({ now >= $0 + Self.interval }) ?? true {
            (hasNews, lastShown) = (false, now)
            for open in open {
                totals.add(open.connection.totals)
                open.connection.totals = APNsPoolSnapshot.Totals()
            }
            let connections = open.map { $0.connection.shown }
            context.board.show { board in
                board.connections = connections
                board.totals = totals
            }
        }
        if isNew { context.emit(.stateChanged(state)) }
    }

    /// Hands over the batches that this round finished in one call: each call costs the receiver a lock, and maybe a wake-up.
    private func handOver() {
        guard !finished.isEmpty else { return }
        context.onFinished(finished)
        finished.removeAll(keepingCapacity: true)
    }

    // MARK: Time

    /// When the runner has something to do, by the system's clock: the pool's own may be a test's.
    private var due: ContinuousClock.Instant? {
        nextTick = lifecycle.nextWake(now: now, lastWork: lastWork)
        var next = Earliest()
        next.note(nextTick)
        next.note(nextSweep)
        next.note(cutOff)
        for open in open { next.note(open.connection.due) }
        for dial in dials.values { next.note(dial.deadline) }
        if hasNews, let lastShown { next.note(lastShown + Self.interval) }
        return next.moment.map { ContinuousClock.now + max(.zero, $0 - now) }
    }
}

private struct Earliest {
    private(set) var moment: ContinuousClock.Instant?

    mutating func note(_ other: ContinuousClock.Instant?) {
        guard let other else { return }
        moment = min(moment ?? other, other)
    }
}
