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
    private let lettersLost: Counter
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
        registry.describe(DispatcherReference.metrics)
        registry.describe([DocumentedMetric](BrokerMetrics.all))
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
        lettersLost = counter(MetricName.lettersLost)
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
        if tally.lettersLost > 0 { lettersLost.increment(by: tally.lettersLost) }
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

    /// A command for a broadcast channel has an answer. Few occur, so each makes its counter anew.
    func count(_ operation: ChannelOperation, _ result: ChannelAnswer.Result) { countCommand(operation.rawValue, result.rawValue) }

    /// A message is no command.
    func countUndecodableCommand() { countCommand("unknown", "undecodable") }

    private func countCommand(_ operation: String, _ result: String) {
        Counter(label: MetricName.channelCommands, dimensions: [("operation", operation), ("result", result)], factory: registry)
            .increment()
    }

    /// Changed credentials were read.
    func countReload(isAdopted: Bool) { reloads[isAdopted]?.increment() }

    // MARK: Read at each scrape

    func observe(_ status: @escaping @Sendable () -> CoreStatus, gate: ControlGate) {
        registry.observe(MetricName.inProgress) { Double(status().jobsInProgress) }
        for lane in Lane.allCases {
            registry.observe(MetricName.atWork, dimensions: [("lane", lane.rawValue)]) {
                Double(status().work[lane].deliveries)
            }
        }
        registry.observe(MetricName.unconfirmed) { Double(status().unconfirmed) }
        registry.observe(MetricName.holds) { Double(status().holds) }
        registry.observe(MetricName.controlCurrent) { status().control == .current ? 1 : 0 }
        registry.observe(MetricName.controlElsewhere) { status().isControlElsewhere ? 1 : 0 }
        registry.observe(MetricName.outcomesRefused) { status().outcomesRefusedSince == nil ? 0 : 1 }
        registry.observe(MetricName.controlEntries) { Double(gate.count) }
    }
}

/// Counters of outcomes, made when they first occur: most combinations never do. Used by the core's thread only.
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
