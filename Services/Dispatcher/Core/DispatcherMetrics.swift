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
    private let outcomes: OutcomeCounters
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
    private let commands: MetricSeries<Counter>

    init(registry: PrometheusMetrics) {
        self.registry = registry
        jobs = registry.counters("push_dispatcher_jobs_taken_total", by: "lane", Lane.self, "Jobs taken from the broker.")
        deliveries = registry.counter("push_dispatcher_deliveries_taken_total", "Deliveries in the jobs taken.")
        outcomes = OutcomeCounters(
            registry.counters(
                "push_dispatcher_outcomes_total", ["app", "class", "reason", "final"],
                "Outcomes of deliveries; an app that no credential names, and a reason that the dispatcher does not know, is `other`."))
        retries = registry.counters(
            "push_dispatcher_retries_total", by: "delay", RetryDelay.self,
            "Deliveries put into a delayed queue.")
        held = registry.counter(
            "push_dispatcher_deliveries_held_total", "Deliveries put into a delayed queue because of a hold, each time that they were.")
        deadLettered = registry.counter("push_dispatcher_dead_lettered_total", "Deliveries given up, and messages that are no job.")
        lettersLost = registry.counter(
            "push_dispatcher_dead_letters_lost_total",
            "Messages given up because no queue takes them, as a rule dead letters: their deliveries have their outcome and cannot "
                + "be replayed.")
        acknowledged = registry.counter("push_dispatcher_jobs_acknowledged_total", "Jobs of which everything is confirmed.")
        givenBack = registry.counter("push_dispatcher_jobs_given_back_total", "Jobs given back because the process stops.")
        durations = registry.timers(
            "push_dispatcher_job_duration_seconds", ["lane"],
            "From the publishing of a job, which is when it is due, to the last answer of its first try."
        ).all(Lane.self)
        queueAges = registry.timers(
            "push_dispatcher_queue_age_seconds", ["lane"],
            "From the publishing of a job, which is when it is due, to its taking; first tries only."
        ).all(Lane.self)
        settlement = registry.timer("push_dispatcher_settlement_lag_seconds", "From handing results to the broker to its confirmation.")
        fences = registry.counters(
            "push_dispatcher_control_applied_total", by: "kind", CoreTally.Control.self,
            "Fences, cancels, holds (`hold`, also one that is sent again) and their ends (`unhold`) that were read.")
        controlDoubts = registry.counter(
            "push_dispatcher_control_doubts_total",
            "Times that sending stopped for all apps because the control stream might be late: a lost connection, a confirmation "
                + "slower than `BROKER_CONFIRM_PATIENCE_MILLISECONDS`, or an entry that came as a copy only.")
        let reloads = registry.counters(
            "push_dispatcher_credentials_reloads_total", ["result"], "Changed credentials: `adopted` or `refused`.")
        self.reloads = [true: reloads["adopted"], false: reloads["refused"]]
        commands = registry.counters(
            "push_dispatcher_channel_commands_total", ["operation", "result"],
            "Commands for broadcast channels, by what became of them: `done`, `refused`, `unanswered`, `expired`, `no_credential`; "
                + "`undecodable` of operation `unknown` is a message that is no command.")
    }

    func add(_ tally: CoreTally) {
        for (lane, count) in tally.jobsTaken { jobs[lane]?.increment(by: count) }
        if tally.deliveriesTaken > 0 { deliveries.increment(by: tally.deliveriesTaken) }
        for (kind, count) in tally.outcomes { outcomes.add(count, kind) }
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
    func count(_ operation: ChannelOperation, _ result: ChannelAnswer.Result) {
        commands[operation.rawValue, result.rawValue].increment()
    }

    /// A message is no command.
    func countUndecodableCommand() { commands["unknown", "undecodable"].increment() }

    /// Changed credentials were read.
    func countReload(isAdopted: Bool) { reloads[isAdopted]?.increment() }

    // MARK: Read at each scrape

    func observe(_ status: @escaping @Sendable () -> CoreStatus, gate: ControlGate) {
        registry.gauge(
            "push_dispatcher_jobs_in_progress", "Jobs of which some delivery is undecided."
        ).observe { Double(status().jobsInProgress) }
        let atWork = registry.gauge(
            "push_dispatcher_deliveries_in_progress", ["lane"],
            "Deliveries of jobs that are not settled; for `bulk` at most about `BULK_DELIVERIES`, half of it while one app is alone.")
        for lane in Lane.allCases { atWork.observe(lane.rawValue) { Double(status().work[lane].deliveries) } }
        registry.gauge(
            "push_dispatcher_publications_unconfirmed", "Publications that the broker has not confirmed."
        ).observe { Double(status().unconfirmed) }
        registry.gauge("push_dispatcher_holds", "Holds in force.").observe { Double(status().holds) }
        registry.gauge(
            "push_dispatcher_control_current", "1 while the control stream is read to its end; at 0 nothing is sent."
        ).observe { status().control == .current ? 1 : 0 }
        registry.gauge(
            "push_dispatcher_control_elsewhere",
            "1 while the control stream is read at another broker node than the one that takes publishes: each 650 ms costs a "
                + "marker. After ten seconds the publisher goes to the reader's node."
        ).observe { status().isControlElsewhere ? 1 : 0 }
        registry.gauge(
            "push_dispatcher_outcomes_refused", "1 while the broker refuses outcomes; then nothing is sent."
        ).observe { status().outcomesRefusedSince == nil ? 0 : 1 }
        registry.gauge("push_dispatcher_control_entries", "Fences and cancels remembered.").observe { Double(gate.count) }
    }
}

/// Counters of outcomes, made when they first occur: most combinations never do. Used by the core's thread only.
private final class OutcomeCounters: Sendable {
    private let series: MetricSeries<Counter>
    private let counters = Mutex<[CoreTally.Outcome: Counter]>([:])

    init(_ series: MetricSeries<Counter>) { self.series = series }

    func add(_ count: Int, _ kind: CoreTally.Outcome) {
        counters.withLock { counters in
            if let known = counters[kind] { return known.increment(by: count) }
            let counter = series[kind.app?.text ?? "other", kind.outcome.rawValue, kind.reason, kind.isFinal ? "true" : "false"]
            counter.increment(by: count)
            counters[kind] = counter
        }
    }
}
