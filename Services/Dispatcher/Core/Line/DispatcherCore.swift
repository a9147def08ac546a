import APNs
import Broker
import PushModel

/// What the dispatcher knows and decides, as a state machine: events in, actions out, time given. It never waits, locks for long, or talks to
/// anybody; one thread owns it (``CoreLoop``).
///
/// A job's path is in `DispatcherCore+Line.swift`, from its arrival to its acknowledgement.
struct DispatcherCore {
    let rules: CoreRules
    var directory: CredentialDirectory
    let gate: ControlGate
    var random: SplitMix64

    /// Jobs of which some delivery is undecided.
    var jobs: [UInt64: JobInProgress] = [:]
    var ledger = SettlementLedger<Receipt>()
    var gathered = OutcomeGatherer()
    var decoder = PushJobDecoder()
    /// What the next flush publishes.
    var outbox: [OutboundMessage] = []
    /// What the broker has not confirmed.
    var publications: [PublicationNumber: Publication] = [:]
    var lastPublication: PublicationNumber = 0
    var lastFlush: Int64 = 0
    /// What the broker did not take; published again once `refusedUntil` has passed.
    var refused: [OutboundMessage] = []
    var refusedUntil: Int64 = 0
    /// Not nil while the broker refuses outcomes: then nothing is sent.
    var outcomeRefusal: OutcomeRefusal?

    var holds = HoldBook()
    var holdPace = HoldPace()
    var throttled = ThrottledDevices()
    /// Apps whose pool is slow and that hold too many of a lane's jobs; looked at with every tick.
    var crowding: Set<LaneShare> = []
    /// Deliveries that a pool has had for long, at the last tick.
    var slowDeliveries: [Lane: Int] = [:]

    var control = ControlStanding.disconnected
    /// The connection that reads the control stream and the one that publishes are at the same node.
    var readsWhereItPublishes = true
    /// The log says that the control stream is uncertain, and not yet that it is certain again.
    var isDoubtNoted = true
    /// When the marker was published that came back last.
    var controlProven: Int64 = 0
    /// When something of the control stream was read last, or its connection came up.
    var controlRead: Int64 = 0
    var hasStartedTaking = false
    var isStopping = false
    var lastForgotten: Int64 = 0

    var actions: [CoreAction] = []
    var tally = CoreTally()

    init(rules: CoreRules, directory: CredentialDirectory, gate: ControlGate, seed: UInt64) {
        self.rules = rules
        self.directory = directory
        self.gate = gate
        random = SplitMix64(seed: seed)
    }

    /// - Parameter now: UNIX milliseconds.
    mutating func handle(_ event: CoreEvent, at now: Int64) {
        switch event {
        case .jobsReceived(let messages): take(messages, at: now)
        case .batchFinished(let finished): finish(finished, at: now)
        case .published(let number, let outcomes): confirm(number, outcomes, at: now)
        case .markerPublished(let marker): markerPublished(marker, at: now)
        case .controlReceived(let messages): obey(messages, at: now)
        case .jobsConnection(isUp: true): break
        case .jobsConnection(isUp: false): forgetReceipts()
        case .controlConnection(let isUp): controlConnection(isUp: isUp, at: now)
        case .credentialsChanged(let plan): adopt(plan)
        case .stop: stop(at: now)
        }
        if gathered.isFull { flush(at: now) }
    }

    /// Regularly, and whenever the thread woke for nothing.
    mutating func tick(at now: Int64) {
        publishRefused(at: now)
        probeOutcomes(at: now)
        sendHeartbeat(at: now)
        doubtControl(at: now)
        moveParked(at: now)
        endHolds(at: now)
        forgetControl(at: now)
        measureCrowding(at: now)
        flush(at: now)
    }

    /// Deliveries of a lane that may be begun. A stop gives back whatever waits.
    func room(_ lane: Lane) -> Int {
        isStopping ? .max : (rules.deliveries[lane] ?? 1) - ledger.deliveriesAtWork[lane, default: 0] + slowDeliveries[lane, default: 0]
    }

    mutating func takeActions() -> [CoreAction] {
        var taken: [CoreAction] = []
        if !actions.isEmpty { swap(&taken, &actions) }
        return taken
    }

    mutating func takeTally() -> CoreTally {
        defer { tally = CoreTally() }
        return tally
    }

    /// Nothing is undecided, unconfirmed or unacknowledged: after a stop, the end.
    var isDrained: Bool {
        jobs.isEmpty && publications.isEmpty && refused.isEmpty && outbox.isEmpty && gathered.count == 0 && ledger.isEmpty
    }
}

/// The numbers that the core goes by.
struct CoreRules: Sendable {
    /// The longest that outcomes are gathered while the broker is busy, in milliseconds.
    static let gatheringPause: Int64 = 4
    /// With the heartbeat's interval and a tick it is less than the second within which a fence has to be in force.
    static let standardConfirmPatience: Int64 = 650
    /// Far below RabbitMQ's `consumer_timeout`: half an hour, and five minutes at least.
    static let standardParkingPatience: Int64 = 60_000

    var topology: Topology
    /// CloudEvents `source` of our outcomes.
    var source: String
    var retries = RetryPlan(maximumAttempts: 10)
    /// How many deliveries of a lane may be at work: while its pool is slow, one app may hold half of them.
    var deliveries: [Lane: Int] = [.now: 20_000, .soon: 20_000, .bulk: 400]
    /// How many messages of a lane may be here unsettled: while its pool is slow, one app may hold half of them.
    var prefetch: [Lane: Int] = [.now: 500, .soon: 500, .bulk: 500]
    /// A job that a pool has had for longer tells that the pool is slow.
    var crowdingPatience: Int64 = 2_000
    /// How often deliveries go to another pool at once because their credential was replaced, before they wait in a delayed queue.
    var maximumResubmissions = 3
    /// A call that was accepted longer ago is not tried again (`on_unknown: resend_once`): the caller has given up, or the call arrived.
    var secondCopyAge: Int64 = 5_000
    /// A confirmation that takes longer means that the control stream may be late as well.
    var confirmPatience = CoreRules.standardConfirmPatience
    /// Without a publication for so long, one is made to see whether it is confirmed.
    var heartbeatInterval: Int64 = 200
    /// The longest between the broker's confirmation of a marker and its arrival, while nothing else of the stream arrives.
    var markerPatience: Int64 = 1_000
    /// Jobs that wait longer than this for the control stream, or for room for outcomes, go to a delayed queue: the
    /// broker gives no job an unlimited time.
    var parkingPatience = CoreRules.standardParkingPatience
    /// Pause before messages that the broker refused are published again.
    var refusalPause: Int64 = 250
    /// While outcomes are refused, how often one of them is published again to see whether there is room.
    var probePause: Int64 = 1_000
    /// No job lives longer than 72 hours, so older fences and cancels can stop nothing, and a hold that was not told again since is over. One hour for clocks.
    var controlMemory: Int64 = 73 * 3_600_000
}

/// A small generator, seeded, so that a simulation can be repeated. Its numbers decide about jitter only.
struct SplitMix64: RandomNumberGenerator, Sendable {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
