import APNs
import Broker
import Metrics
import Observability
import PushModel
import Synchronization

/// Records this service's metrics. Dimensions come from closed sets: lanes, classes, delays, and the credentials of the configuration.
struct DispatcherMetrics: Sendable {
    let registry: PrometheusMetrics
    private let jobs: [Lane: Counter]
    private let deliveries: Counter
    private let outcomes = OutcomeCounters()
    private let retries: [RetryDelay: Counter]
    private let held: Counter
    private let deadLettered: Counter
    private let acknowledged: Counter
    private let givenBack: Counter
    private let durations: [Lane: Timer]
    private let queueAges: [Lane: Timer]
    private let settlement: Timer
    private let fences: [CoreTally.Control: Counter]
    private let controlDoubts: Counter
    private let reloads: [Bool: Counter]

    init(registry: PrometheusMetrics) {
        self.registry = registry
        for (name, help) in Self.help + BrokerMetrics.help { registry.describe(name, help) }
        func counter(_ name: String, _ dimensions: [(String, String)] = []) -> Counter {
            Counter(label: name, dimensions: dimensions, factory: registry)
        }
        func each<Key: Hashable>(_ keys: [Key], _ make: (Key) -> Counter) -> [Key: Counter] {
            Dictionary(uniqueKeysWithValues: keys.map { ($0, make($0)) })
        }
        jobs = each(Lane.allCases) { counter(MetricName.jobs, [("lane", $0.rawValue)]) }
        deliveries = counter(MetricName.deliveries)
        retries = each(RetryDelay.allCases) { counter(MetricName.retries, [("delay", $0.rawValue)]) }
        held = counter(MetricName.held)
        deadLettered = counter(MetricName.deadLettered)
        acknowledged = counter(MetricName.acknowledged)
        givenBack = counter(MetricName.givenBack)
        func timers(_ name: String) -> [Lane: Timer] {
            Dictionary(
                uniqueKeysWithValues: Lane.allCases.map { ($0, Timer(label: name, dimensions: [("lane", $0.rawValue)], factory: registry)) }
            )
        }
        durations = timers(MetricName.duration)
        queueAges = timers(MetricName.queueAge)
        settlement = Timer(label: MetricName.settlement, factory: registry)
        fences = each(CoreTally.Control.allCases) { counter(MetricName.controlApplied, [("kind", $0.rawValue)]) }
        controlDoubts = counter(MetricName.controlDoubts)
        reloads = each([true, false]) { counter(MetricName.reloads, [("result", $0 ? "adopted" : "refused")]) }
    }

    func add(_ tally: CoreTally) {
        for (lane, count) in tally.jobsTaken { jobs[lane]?.increment(by: count) }
        if tally.deliveriesTaken > 0 { deliveries.increment(by: tally.deliveriesTaken) }
        for (kind, count) in tally.outcomes { outcomes.add(count, kind, registry) }
        for (delay, count) in tally.retries { retries[delay]?.increment(by: count) }
        if tally.held > 0 { held.increment(by: tally.held) }
        if tally.deadLettered > 0 { deadLettered.increment(by: tally.deadLettered) }
        if tally.acknowledged > 0 { acknowledged.increment(by: tally.acknowledged) }
        if tally.givenBack > 0 { givenBack.increment(by: tally.givenBack) }
        record(tally.finished, durations)
        record(tally.queued, queueAges)
        for lag in tally.settlements { settlement.recordMilliseconds(lag) }
        if tally.controlDoubts > 0 { controlDoubts.increment(by: tally.controlDoubts) }
        for (kind, count) in tally.controlApplied { fences[kind]?.increment(by: count) }
    }

    /// Neighbours are of the same lane, as a rule.
    private func record(_ jobs: [CoreTally.Finished], _ timers: [Lane: Timer]) {
        guard var lane = jobs.first?.lane else { return }
        var timer = timers[lane]
        for job in jobs {
            if job.lane != lane {
                lane = job.lane
                timer = timers[lane]
            }
            timer?.recordMilliseconds(job.milliseconds)
        }
    }

    /// Changed credentials were read.
    func countReload(isAdopted: Bool) { reloads[isAdopted]?.increment() }

    // MARK: Read when somebody asks

    func observe(_ status: @escaping @Sendable () -> CoreStatus, gate: ControlGate) {
        registry.observe(MetricName.inProgress, Self.text(MetricName.inProgress)) { Double(status().jobsInProgress) }
        for lane in Lane.allCases {
            registry.observe(MetricName.atWork, Self.text(MetricName.atWork), dimensions: [("lane", lane.rawValue)]) {
                Double(status().work[lane].deliveries)
            }
        }
        registry.observe(MetricName.unconfirmed, Self.text(MetricName.unconfirmed)) { Double(status().unconfirmed) }
        registry.observe(MetricName.holds, Self.text(MetricName.holds)) { Double(status().holds) }
        registry.observe(MetricName.controlCurrent, Self.text(MetricName.controlCurrent)) { status().control == .current ? 1 : 0 }
        registry.observe(MetricName.controlElsewhere, Self.text(MetricName.controlElsewhere)) { status().isControlElsewhere ? 1 : 0 }
        registry.observe(MetricName.outcomesRefused, Self.text(MetricName.outcomesRefused)) { status().outcomesRefusedSince == nil ? 0 : 1 }
        registry.observe(MetricName.controlEntries, Self.text(MetricName.controlEntries)) { Double(gate.count) }
    }

    static func text(_ name: String) -> String { help.first { $0.0 == name }?.1 ?? "" }

    private static let help: [(String, String)] = [
        (MetricName.jobs, "Jobs taken from the broker, by lane."),
        (MetricName.deliveries, "Deliveries in the jobs taken."),
        (MetricName.outcomes, "Outcomes of deliveries, by app, class and reason; final: no further try follows."),
        (MetricName.queueAge, "From the acceptance of a notification to the taking of its job, first tries only, by lane."),
        (MetricName.settlement, "From handing results to the broker to its confirmation."),
        (MetricName.controlApplied, "Entries of the control stream that were applied, by kind."),
        (MetricName.controlDoubts, "Times that sending stopped for all apps because the control stream might be late."),
        (MetricName.reloads, "Changed credentials that were read, by whether they could be used."),
        (MetricName.credentialsCurrent, "1 while the credentials in use are those of the files, 0 while changed ones cannot be used."),
        (MetricName.proven, "1 once APNs has shown that it knows the credential."),
        (MetricName.tokenAge, "Age of the oldest provider token in use."),
        (MetricName.credentialAge, "How long ago a key's file was written, or a certificate began to be valid."),
        (MetricName.certificateEndsIn, "How long a certificate is still valid; negative after its end."),
        (MetricName.connectionsOpened, "Connections that came about."),
        (MetricName.connectionsLost, "Connections that ended unasked for, or in silence."),
        (MetricName.connectionsRetired, "Connections that took no more requests, by reason."),
        (MetricName.goAways, "GOAWAYs by APNs, by reason."),
        (MetricName.timedOut, "Requests that were given up at their deadline."),
        (MetricName.stopped, "Requests that a fence, a cancel or their expiry stopped at the last moment."),
        (MetricName.handedOver, "Requests that were certainly not processed, and handed to another connection."),
        (MetricName.refusedStreams, "Requests that APNs refused unprocessed: REFUSED_STREAM, or above a GOAWAY's last stream."),
        (MetricName.retries, "Deliveries put into a delayed queue, by its delay."),
        (MetricName.held, "Deliveries put into a delayed queue because of a hold, each time that they were."),
        (MetricName.holds, "Holds in force."),
        (MetricName.deadLettered, "Deliveries given up, and messages that are no job."),
        (MetricName.acknowledged, "Jobs acknowledged: everything about them is confirmed."),
        (MetricName.givenBack, "Jobs given back to the broker because this process is stopping."),
        (MetricName.duration, "From the acceptance of a notification to the last first answer of its job, by lane."),
        (MetricName.inProgress, "Jobs of which some delivery is undecided."),
        (MetricName.atWork, "Deliveries of jobs that are not settled, by lane."),
        (MetricName.unconfirmed, "Publications that the broker has not confirmed."),
        (MetricName.controlCurrent, "1 while the control stream is known to be read to its end; at 0 nothing is sent."),
        (MetricName.controlElsewhere, "1 while the control stream is read at another broker node than the one that takes publishes."),
        (MetricName.outcomesRefused, "1 while the broker refuses outcomes; then nothing is sent."),
        (MetricName.controlEntries, "Fences and cancels remembered."),
        (MetricName.poolState, "1 for the state in which a pool is."),
        (MetricName.connections, "Connections to APNs."),
        (MetricName.openStreams, "Requests without an answer yet."),
        (MetricName.streamLimit, "Requests that APNs allows at once on the connections there are."),
        (MetricName.requestsWaiting, "Requests that wait for a free stream, by lane."),
        (MetricName.requests, "Requests sent to APNs."),
        (MetricName.answers, "APNs' answers, by topic, status and reason."),
        (MetricName.answerTime, "From handing a request to HTTP/2 to its answer."),
        (MetricName.unanswered, "Requests that left and got no answer."),
        (MetricName.connectionsFailed, "Connections that did not come about."),
    ]
}

/// Counters of outcomes, made when they first occur: of all combinations only some ever do. Used by the core's thread only.
private final class OutcomeCounters: Sendable {
    private let counters = Mutex<[CoreTally.Outcome: Counter]>([:])

    func add(_ count: Int, _ kind: CoreTally.Outcome, _ registry: PrometheusMetrics) {
        counters.withLock { counters in
            if let known = counters[kind] { return known.increment(by: count) }
            let counter = Counter(
                label: MetricName.outcomes,
                dimensions: [
                    ("app", kind.app?.text ?? "other"), ("class", kind.outcome.rawValue), ("final", kind.isFinal ? "true" : "false"),
                    ("reason", kind.reason),
                ], factory: registry)
            counter.increment(by: count)
            counters[kind] = counter
        }
    }
}
