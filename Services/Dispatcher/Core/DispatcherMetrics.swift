import APNs
import Broker
import Metrics
import Observability
import PushModel

/// Records this service's metrics. Dimensions come from closed sets: lanes, classes, delays, and the credentials of the configuration.
struct DispatcherMetrics: Sendable {
    private let registry: PrometheusMetrics
    private let jobs: [Lane: Counter]
    private let deliveries: Counter
    private let outcomes: [CoreTally.Outcome: Counter]
    private let retries: [RetryDelay: Counter]
    private let deadLettered: Counter
    private let acknowledged: Counter
    private let givenBack: Counter
    private let durations: [Lane: Timer]

    init(registry: PrometheusMetrics) {
        self.registry = registry
        for (name, help) in Self.help { registry.describe(name, help) }
        func counter(_ name: String, _ dimensions: [(String, String)] = []) -> Counter {
            Counter(label: name, dimensions: dimensions, factory: registry)
        }
        func each<Key: Hashable>(_ keys: [Key], _ make: (Key) -> Counter) -> [Key: Counter] {
            Dictionary(uniqueKeysWithValues: keys.map { ($0, make($0)) })
        }
        jobs = each(Lane.allCases) { counter(MetricName.jobs, [("lane", $0.rawValue)]) }
        deliveries = counter(MetricName.deliveries)
        let kinds = OutcomeClass.allCases.flatMap { outcome in [true, false].map { CoreTally.Outcome(outcome: outcome, isFinal: $0) } }
        outcomes = each(kinds) { counter(MetricName.outcomes, [("class", $0.outcome.rawValue), ("final", $0.isFinal ? "true" : "false")]) }
        retries = each(RetryDelay.allCases) { counter(MetricName.retries, [("delay", $0.rawValue)]) }
        deadLettered = counter(MetricName.deadLettered)
        acknowledged = counter(MetricName.acknowledged)
        givenBack = counter(MetricName.givenBack)
        durations = Dictionary(
            uniqueKeysWithValues: Lane.allCases.map { lane in
                (lane, Timer(label: MetricName.duration, dimensions: [("lane", lane.rawValue)], factory: registry))
            })
    }

    func add(_ tally: CoreTally) {
        for (lane, count) in tally.jobsTaken { jobs[lane]?.increment(by: count) }
        if tally.deliveriesTaken > 0 { deliveries.increment(by: tally.deliveriesTaken) }
        for (kind, count) in tally.outcomes { outcomes[kind]?.increment(by: count) }
        for (delay, count) in tally.retries { retries[delay]?.increment(by: count) }
        if tally.deadLettered > 0 { deadLettered.increment(by: tally.deadLettered) }
        if tally.acknowledged > 0 { acknowledged.increment(by: tally.acknowledged) }
        if tally.givenBack > 0 { givenBack.increment(by: tally.givenBack) }
        for done in tally.finished { durations[done.lane]?.recordMilliseconds(done.milliseconds) }
    }

    // MARK: Read when somebody asks

    func observe(_ status: @escaping @Sendable () -> CoreStatus, gate: ControlGate) {
        registry.observe(MetricName.inProgress, Self.text(MetricName.inProgress)) { Double(status().jobsInProgress) }
        registry.observe(MetricName.unconfirmed, Self.text(MetricName.unconfirmed)) { Double(status().unconfirmed) }
        registry.observe(MetricName.controlCurrent, Self.text(MetricName.controlCurrent)) { gate.isOpen ? 1 : 0 }
        registry.observe(MetricName.controlEntries, Self.text(MetricName.controlEntries)) { Double(gate.count) }
    }

    func observe(_ pool: APNsPool) {
        let place = [("credential", pool.credential), ("environment", pool.environment.rawValue)]
        func gauge(
            _ name: String, _ more: [(String, String)] = [], isCounter: Bool = false, _ read: @escaping @Sendable (APNsPoolSnapshot) -> Int
        ) {
            registry.observe(name, Self.text(name), dimensions: place + more, isCounter: isCounter) { Double(read(pool.snapshot())) }
        }
        for state in ["connecting", "ready", "idle", "paused", "closed"] {
            gauge(MetricName.poolState, [("state", state)]) { $0.state.label == state ? 1 : 0 }
        }
        gauge(MetricName.connections) { $0.connections.count }
        gauge(MetricName.openStreams) { $0.connections.reduce(0) { $0 + $1.openStreams } }
        gauge(MetricName.streamLimit) { $0.connections.reduce(0) { $0 + $1.streamLimit } }
        gauge(MetricName.parked, [("lane", "now")]) { $0.parkedNow }
        gauge(MetricName.parked, [("lane", "soon")]) { $0.parkedSoon }
        gauge(MetricName.parked, [("lane", "bulk")]) { $0.parkedBulk }
        gauge(MetricName.requests, isCounter: true) { $0.totals.submitted }
        gauge(MetricName.unanswered, isCounter: true) { $0.totals.unknown }
        gauge(MetricName.connectionsFailed, isCounter: true) { $0.totals.connectionsFailed }
        gauge(MetricName.answers, [("answer", "200")], isCounter: true) { $0.totals.accepted }
        for reason in APNsReason.allCases {
            let label = "\(reason.row.status) \(reason.rawValue)"
            gauge(MetricName.answers, [("answer", label)], isCounter: true) { $0.totals.refusals[label] ?? 0 }
        }
        for (index, bound) in APNsPoolSnapshot.latencyBounds.enumerated() {
            gauge(MetricName.answerTime, [("milliseconds", "\(bound)")], isCounter: true) { $0.totals.latency[...index].reduce(0, +) }
        }
    }

    private static func text(_ name: String) -> String { help.first { $0.0 == name }?.1 ?? "" }

    private static let help: [(String, String)] = [
        (MetricName.jobs, "Jobs taken from the broker, by lane."),
        (MetricName.deliveries, "Deliveries in the jobs taken."),
        (MetricName.outcomes, "Outcomes of deliveries, by class; final: no further try follows."),
        (MetricName.retries, "Deliveries put into a delayed queue, by its delay."),
        (MetricName.deadLettered, "Deliveries given up, and messages that are no job."),
        (MetricName.acknowledged, "Jobs acknowledged: everything about them is confirmed."),
        (MetricName.givenBack, "Jobs given back to the broker because this process is stopping."),
        (MetricName.duration, "From the acceptance of a notification to the last first answer of its job, by lane."),
        (MetricName.inProgress, "Jobs of which some delivery is undecided."),
        (MetricName.unconfirmed, "Publications that the broker has not confirmed."),
        (MetricName.controlCurrent, "1 while the control stream is known to be read to its end; at 0 nothing is sent."),
        (MetricName.controlEntries, "Fences and cancels remembered."),
        (MetricName.poolState, "1 for the state in which a pool is."),
        (MetricName.connections, "Connections to APNs."),
        (MetricName.openStreams, "Requests without an answer yet."),
        (MetricName.streamLimit, "Requests that APNs allows at once on the connections there are."),
        (MetricName.parked, "Requests that wait for a free stream, by lane."),
        (MetricName.requests, "Requests sent to APNs."),
        (MetricName.answers, "APNs' answers, by status and reason."),
        (MetricName.answerTime, "Answers that came within so many milliseconds, cumulative."),
        (MetricName.unanswered, "Requests that left and got no answer."),
        (MetricName.connectionsFailed, "Connections that did not come about."),
    ]
}
