import APNs
import Broker
import Observability
import PushModel

/// The dispatcher's state and decisions, as a state machine: events in, actions out, time given. It never waits, does no I/O and holds
/// locks only briefly; one thread owns it (``CoreLoop``).
///
/// It connects parts that each own their state: ``Scheduler`` (the next job), ``ControlFollower`` (fences, cancels, holds), ``Planner``
/// (the next step of a delivery), ``SettlementBook`` (each job's unconfirmed messages). A job's path is in `DispatcherCore+Path.swift`,
/// from its arrival to its acknowledgement.
struct DispatcherCore {
    let rules: CoreRules
    let gate: ControlGate
    var directory: CredentialDirectory
    var scheduler: Scheduler
    var control: ControlFollower
    var planner: Planner
    var book: SettlementBook

    /// Jobs of which some delivery is undecided.
    var jobs: [UInt64: JobInProgress] = [:]
    var decoder = PushJobDecoder()
    var holdPace = HoldPace()
    var careful = CarefulDeliveries()
    var throttled = ThrottledDevices()
    /// When old throttled devices were last searched for.
    private var forgottenAt: Int64 = 0
    private var hasStartedTaking = false
    private(set) var isStopping = false
    /// The time of the event that is being handled, in UNIX milliseconds. It may be set: only for expiries, and for times that others read.
    var now: Int64 = 0
    /// Milliseconds of a clock that is never set, and goes on while the machine sleeps: for every wait. Set before each call
    /// (docs/clocks.md).
    var steady: Int64 = 0
    var effects = CoreEffects()

    init(rules: CoreRules, directory: CredentialDirectory, gate: ControlGate, seed: UInt64) {
        self.rules = rules
        self.directory = directory
        self.gate = gate
        scheduler = Scheduler(rules: rules)
        control = ControlFollower(rules: rules, gate: gate)
        planner = Planner(retries: rules.retries, secondCopyAge: rules.secondCopyAge, seed: seed)
        book = SettlementBook(rules: rules)
    }

    /// - Parameter now: UNIX milliseconds.
    mutating func handle(_ event: CoreEvent, at now: Int64) {
        self.now = now
        switch event {
        case .jobsReceived(let messages): receive(messages)
        case .batchFinished(let finished): takeAnswers(finished)
        case .published(let number, let answers): confirm(number, answers)
        case .markerPublished(let marker, let outcome): control.markerPublished(marker, outcome, at: steady)
        case .controlReceived(let messages): follow(messages)
        case .jobsConnection(_, isUp: true): break
        case .jobsConnection(let lane, isUp: false): forgetReceipts(of: lane)
        case .controlConnection(let isUp): control.connection(isUp: isUp, at: steady, &effects)
        case .credentialsChanged(let plan): adopt(plan)
        case .resumed: control.resumed(at: steady, &effects)
        case .stop: stop()
        }
        if book.isFull { flush() }
    }

    /// Called at a regular interval, and whenever the thread woke without an event.
    mutating func tick(at now: Int64) {
        self.now = now
        book.tick(at: steady, isStopping: isStopping)
        if control.position == .current, !isStopping || !jobs.isEmpty { book.sendHeartbeat(at: steady, wall: now) }
        if control.tick(at: steady, wall: now, isConfirming: book.isConfirming(at: steady), &effects) { holdsChanged() }
        moveWaiting()
        careful.forget(at: steady) { book.ledger.contains($0) }
        if now - forgottenAt >= 60_000 || now < forgottenAt {
            forgottenAt = now
            throttled.forget(now: now)
        }
        scheduler.findSlow(jobs.values, book.ledger.work, at: steady)
        flush()
    }

    /// When nothing else waits.
    mutating func flushIfDue(at now: Int64) { book.flushIfDue(at: steady, wall: now, serving: directory, &effects) }

    mutating func flush() { book.flush(at: steady, wall: now, serving: directory, &effects) }

    mutating func takeActions() -> [CoreAction] {
        var taken: [CoreAction] = []
        if !effects.actions.isEmpty { swap(&taken, &effects.actions) }
        return taken
    }

    mutating func takeSpans() -> [Span] {
        defer { effects.spans = [] }
        return effects.spans
    }

    mutating func takeTally() -> CoreTally {
        defer { effects.tally = CoreTally() }
        return effects.tally
    }

    /// Whether every job is decided, confirmed and acknowledged: after a stop, the end.
    var isDrained: Bool { jobs.isEmpty && book.isEmpty }

    /// While the control stream is uncertain, or the broker refuses outcomes, no request is sent.
    var maySend: Bool { control.position == .current && book.refusal == nil }

    // MARK: The control stream

    private mutating func follow(_ messages: [ReceivedMessage]) {
        let change = control.read(messages, &directory, at: steady, wall: now, &effects)
        for cancelled in change.cancelled {
            for job in jobs.values where job.app == cancelled.app && job.job.notification == cancelled.notification {
                gate.stop(job.number, because: .cancelled)
            }
        }
        if change.holdsChanged { holdsChanged() }
        guard change.isCaughtUp else { return }
        if !hasStartedTaking && !isStopping {
            hasStartedTaking = true
            effects.actions.append(.startTaking)
        }
        goOn()
    }

    /// Pools give back unsent requests of jobs that are held now, and send those of jobs that are held no longer.
    private func holdsChanged() {
        guard !control.holds.isEmpty else { return gate.hold([]) }
        gate.hold(Set(jobs.values.filter { !$0.isStale && hold(on: $0) != nil }.map(\.number)))
    }

    func hold(on job: borrowing JobInProgress) -> HoldBook.Hold? {
        control.holds.hold(app: job.app, lane: job.job.lane, notification: job.job.notification, original: job.job.original)
    }

    /// Sends the jobs that wait here, unless another reason still keeps them.
    mutating func goOn() {
        guard maySend else { return }
        gate.open()
        sendWaiting()
    }

    // MARK: Credentials

    /// New batches go to the new pools. The old pools finish the requests in flight and give back the others, which are tried again after
    /// the shortest wait.
    private mutating func adopt(_ plan: CredentialPlan) {
        // A stop closes every pool, and no more requests are sent.
        guard !isStopping else { return }
        let retired = directory.adopt(plan)
        if !retired.isEmpty { effects.actions.append(.retirePools(retired)) }
    }

    // MARK: Ends: of this process, and of the connection that brought the jobs

    /// Promise 11: takes no new jobs, gives back jobs that are not begun, finishes requests in flight, and publishes unsent deliveries as
    /// retries.
    private mutating func stop() {
        guard !isStopping else { return }
        isStopping = true
        effects.actions.append(.stopTaking)
        effects.actions.append(.shutDownPools)
        for lane in Lane.allCases { giveBack(scheduler.removeAll(of: lane), lane) }
        moveWaiting()
    }

    /// These jobs were not begun: the broker delivers them to another dispatcher.
    mutating func giveBack(_ messages: [ReceivedMessage], _ lane: Lane) {
        guard !messages.isEmpty else { return }
        effects.tally.givenBack += messages.count
        effects.actions.append(.giveBack(lane, messages.map(\.deliveryTag)))
    }

    /// The broker delivers every unacknowledged job of the lane's queue again. That copy decides about deliveries that have not left.
    private mutating func forgetReceipts(of lane: Lane) {
        _ = scheduler.removeAll(of: lane)
        let forgotten = jobs.values.filter { $0.appLane.lane == lane && !$0.isStale }.map(\.number).sorted()
        careful.keep(at: steady) { book.ledger.isOf(lane, $0) }
        book.forgetReceipts(of: lane)
        if !forgotten.isEmpty { effects.actions.append(.note(.jobsForgotten(count: forgotten.count))) }
        for number in forgotten {
            guard var job = jobs.removeValue(forKey: number) else { continue }
            job.isStale = true
            job.pending.subtract(job.waiting)
            job.waiting = DeliverySet()
            guard !job.pending.isEmpty else {
                gate.forget(number)
                continue
            }
            gate.stop(number, because: .held)
            jobs[number] = job
        }
    }
}

/// Actions and counts that events caused, until the thread takes them.
struct CoreEffects {
    var actions: [CoreAction] = []
    var tally = CoreTally()
    var spans: [Span] = []
}

/// The constants of the core. Times are in milliseconds.
struct CoreRules: Sendable {
    /// The longest time for which outcomes are gathered while the broker is busy.
    static let gatheringPause: Int64 = 4
    /// The wait for a confirmation. With the heartbeat's interval and a tick it is less than the second in which a fence has to be in
    /// force.
    static let standardConfirmPatience: Int64 = 650
    /// Far below RabbitMQ's `consumer_timeout`: half an hour, and five minutes at least.
    static let standardWaitingPatience: Int64 = 60_000

    var topology: Topology
    /// CloudEvents `source` of our outcomes.
    var source: String
    var retries = RetryPlan(maximumAttempts: 10)
    /// The traces whose spans are recorded.
    var traces = Traces.off
    /// How many deliveries of a lane may be in progress; a single app gets at most half of them.
    var deliveries: [Lane: Int] = [.now: 8_000, .soon: 8_000, .bulk: 800]
    /// How many messages of a lane may be here unsettled. Of a single app, half of them may be in progress.
    var prefetch: [Lane: Int] = [.now: 1_000, .soon: 1_000, .bulk: 1_000]
    /// An app's pool is slow if at least half of the app's jobs in a lane have been in progress for this long.
    var slowAfter: Int64 = 2_000
    /// A call that was accepted longer ago is not tried again (`on_unknown: resend_once`): the caller has given up, or the call arrived.
    var secondCopyAge: Int64 = 5_000
    /// A confirmation that takes longer means that the control stream may be late as well.
    var confirmPatience = CoreRules.standardConfirmPatience
    /// How long there is no publication, or no confirmation that is due, before a heartbeat tests whether the broker confirms.
    var heartbeatInterval: Int64 = 200
    /// The longest time between the broker's confirmation of a marker and its arrival, while no other message of the stream arrives.
    var markerPatience: Int64 = 1_000
    /// Jobs that wait longer than this for the control stream, or for room for outcomes, go to a delayed queue: the broker bounds the time
    /// that a job may stay unacknowledged.
    var waitingPatience = CoreRules.standardWaitingPatience
    /// Pause before messages that the broker refused are published again.
    var refusalPause: Int64 = 250
    /// While the broker refuses outcomes, how often one of them is published again to find out whether there is room.
    var probePause: Int64 = 1_000
    /// No job lives longer than 72 hours, so older fences and cancels can stop no job, and a hold that was not repeated since is over. One
    /// hour for clocks.
    var controlMemory: Int64 = 73 * 3_600_000
}
