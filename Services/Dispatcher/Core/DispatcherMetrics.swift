import APNs
import Broker
import Metrics
import Observability
import PushModel
import Synchronization
import SystemIO

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

/// The metrics of pools and credentials, computed at each scrape. Their series come and go with the credentials' files; counters stay.
extension DispatcherMetrics {
    private typealias Sample = PrometheusMetrics.Sample
    private typealias View = PoolTable.View
    typealias Views = @Sendable () -> [PoolTable.View]

    func observe(_ pools: @escaping Views, _ standing: @escaping @Sendable () -> CredentialKeeper.Standing) {
        observeStates(pools)
        observeConnections(pools)
        observeTraffic(pools)
        observeCredentials(pools, standing)
    }

    private func observeStates(_ pools: @escaping Views) {
        each(
            pools, "push_dispatcher_apns_pool_state", .gauge, ["state"],
            "1 for the state in which a pool is (`api`: `device`, `broadcast` or `channels`, made when it is first needed): "
                + "`connecting`, `ready`, `idle`, `paused` (APNs refuses the credential), `unavailable` (the breaker is open), `closed`."
        ) { view in
            guard let state = view.state else { return [] }
            return ["connecting", "ready", "idle", "paused", "unavailable", "closed"].map {
                Sample([("state", $0)], state.label == $0 ? 1 : 0)
            }
        }
        each(
            pools, "push_dispatcher_apns_credential_proven", .gauge, [],
            "1 once APNs has shown that it knows the credential."
        ) { view in view.state == nil ? [] : [Sample([], view.isProven ? 1 : 0)] }
        each(pools, "push_dispatcher_apns_requests_waiting", .gauge, ["lane"], "Requests that wait for a free stream.") { view in
            view.state == nil ? [] : Lane.allCases.map { Sample([("lane", $0.rawValue)], Double(view.queued[$0] ?? 0)) }
        }
    }

    private func observeConnections(_ pools: @escaping Views) {
        gauge(pools, "push_dispatcher_apns_connections", "Connections to APNs.") { Double($0.connections.count) }
        gauge(
            pools, "push_dispatcher_apns_open_streams",
            "Requests without an answer yet."
        ) { view in Double(view.connections.reduce(0) { $0 + $1.openStreams }) }
        gauge(
            pools, "push_dispatcher_apns_stream_limit",
            "Requests that APNs allows at once."
        ) { view in Double(view.connections.reduce(0) { $0 + $1.streamLimit }) }
        gauge(pools, "push_dispatcher_apns_provider_token_age_seconds", "Age of the oldest provider token in use.") { view in
            view.connections.compactMap(\.tokenMintedAt).min().map { (ContinuousClock.now - $0) / .seconds(1) }
        }
        counter(pools, "push_dispatcher_apns_connections_opened_total", "Connections that came about.") { $0.connectionsOpened }
        counter(pools, "push_dispatcher_apns_connections_failed_total", "Connections that did not come about.") { $0.connectionsFailed }
        counter(
            pools, "push_dispatcher_apns_connections_lost_total",
            "Connections that ended unasked for, or in silence."
        ) { $0.connectionsLost }
        counters(
            pools, "push_dispatcher_apns_connections_retired_total", by: "reason",
            "Connections that took no more requests."
        ) { $0.retirements }
        counters(pools, "push_dispatcher_apns_goaways_total", by: "reason", "GOAWAYs, by APNs' reason, `none` or `other`.") { $0.goAways }
    }

    private func observeTraffic(_ pools: @escaping Views) {
        counter(pools, "push_dispatcher_apns_requests_total", "Requests sent.") { $0.submitted }
        counter(pools, "push_dispatcher_apns_unanswered_total", "Requests that left and got no answer.") { $0.unknown }
        counter(pools, "push_dispatcher_apns_timeouts_total", "Requests without an answer for 15 s.") { $0.timedOut }
        counter(
            pools, "push_dispatcher_apns_stopped_total",
            "Requests that a fence, a cancel or their expiry stopped at the last moment."
        ) { $0.stopped }
        counter(
            pools, "push_dispatcher_apns_handed_over_total",
            "Requests that were certainly not processed, and handed to another connection."
        ) { $0.handedOver }
        counter(
            pools, "push_dispatcher_apns_refused_streams_total",
            "Requests that APNs refused unprocessed: REFUSED_STREAM, or above a GOAWAY's last stream."
        ) { $0.refused }
        each(
            pools, "push_dispatcher_apns_answers_total", .counter, ["topic", "answer"],
            "Answers, by status and reason; of a pool's topics beyond the first hundred `other`."
        ) { view in
            view.totals.answers.sorted { ($0.key.topic, $0.key.answer) < ($1.key.topic, $1.key.answer) }.map {
                Sample([("topic", $0.key.topic), ("answer", $0.key.answer)], Double($0.value))
            }
        }
        let bounds = APNsPoolSnapshot.latencyBounds.map { Double($0) / 1000 }
        let name = "push_dispatcher_apns_answer_duration_seconds"
        registry.describe([DocumentedMetric(name, .histogram, Self.labels, "From handing a request to HTTP/2 to its answer.")])
        registry.observeHistograms(name) {
            pools().map { view in
                PrometheusMetrics.HistogramSample(
                    Self.dimensions(view), bounds: bounds, counts: view.totals.latency,
                    sum: Double(view.totals.latencySumMilliseconds) / 1000)
            }
        }
    }

    private func observeCredentials(_ pools: @escaping Views, _ standing: @escaping @Sendable () -> CredentialKeeper.Standing) {
        ofCredential(
            pools, "push_dispatcher_apns_credential_age_seconds",
            "Since a key's file was written, or a certificate's validity began."
        ) { view in
            guard let validity = view.plan?.entry.validity else { return nil }
            let now = WallClock.milliseconds() / 1000
            return switch validity {
            case .key(let writtenAt): writtenAt.map { Double(now - $0) }
            case .certificate(let notBefore, _): Double(now - notBefore)
            }
        }
        ofCredential(
            pools, "push_dispatcher_apns_certificate_ends_in_seconds",
            "How long a certificate is still valid; negative after its end."
        ) { view in
            guard case .certificate(_, let notAfter)? = view.plan?.entry.validity else { return nil }
            return Double(notAfter - WallClock.milliseconds() / 1000)
        }
        registry.gauge("push_dispatcher_credentials_current", "0 while what is in the credentials' files cannot be used.").observe {
            if case .refused = standing() { 0 } else { 1 }
        }
    }

    // MARK: How

    private static func dimensions(_ view: View) -> [(String, String)] {
        credentialDimensions(view) + [("api", view.place.service.rawValue)]
    }

    private static func credentialDimensions(_ view: View) -> [(String, String)] {
        [("credential", view.place.credential), ("environment", view.place.environment.rawValue)]
    }

    private static let labels = ["credential", "environment", "api"]

    private func each(
        _ pools: @escaping Views, _ name: String, _ kind: DocumentedMetric.Kind, _ labels: [String], _ help: String,
        _ read: @escaping @Sendable (View) -> [Sample]
    ) {
        registry.describe([DocumentedMetric(name, kind, Self.labels + labels, help)])
        registry.observeAll(name, isCounter: kind == .counter) {
            pools().flatMap { view in read(view).map { Sample(Self.dimensions(view) + $0.dimensions, $0.value) } }
        }
    }

    /// Absent where there is no value.
    private func gauge(_ pools: @escaping Views, _ name: String, _ help: String, _ read: @escaping @Sendable (View) -> Double?) {
        each(pools, name, .gauge, [], help) { view in read(view).map { [Sample([], $0)] } ?? [] }
    }

    /// Once for all pools of the credential.
    private func ofCredential(_ pools: @escaping Views, _ name: String, _ help: String, _ read: @escaping @Sendable (View) -> Double?) {
        registry.describe([DocumentedMetric(name, .gauge, ["credential", "environment"], help)])
        registry.observeAll(name) {
            pools().filter { $0.place.service == .device }.compactMap { view in
                read(view).map { Sample(Self.credentialDimensions(view), $0) }
            }
        }
    }

    private func counter(
        _ pools: @escaping Views, _ name: String, _ help: String, _ read: @escaping @Sendable (APNsPoolSnapshot.Totals) -> Int
    ) {
        each(pools, name, .counter, [], help) { [Sample([], Double(read($0.totals)))] }
    }

    /// One series for each label that has occurred; the pools keep them a closed set.
    private func counters(
        _ pools: @escaping Views, _ name: String, by label: String, _ help: String,
        _ read: @escaping @Sendable (APNsPoolSnapshot.Totals) -> [String: Int]
    ) {
        each(pools, name, .counter, [label], help) { view in
            read(view.totals).sorted { $0.key < $1.key }.map { Sample([(label, $0.key)], Double($0.value)) }
        }
    }
}
