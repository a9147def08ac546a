import Broker
import Metrics
package import Observability
package import Postgres
import PushModel
import Synchronization

/// Records this service's metrics. Dimensions come from closed sets, never from user input.
package struct TokenServiceMetrics: Sendable {
    private let registry: PrometheusMetrics
    /// Kept, because making a series costs more than counting.
    private let requests = RequestSeries()
    private let accepted: [Lane: (new: Counter, replay: Counter)]
    private let shedRequests: [LoadShedding.Reason: Counter]
    private let limitedRequests: [CallerLimit: Counter]
    private let created: Counter
    private let updated: Counter
    private let changesPerCommit: Recorder

    package init(registry: PrometheusMetrics) {
        self.registry = registry
        registry.describe(TokenServiceReference.metrics)
        registry.describe([DocumentedMetric](BrokerMetrics.all))
        registry.setBuckets(MetricName.changesPerCommit.rawValue, [1, 2, 4, 8, 16, 32, 64, 128, 256])
        func counter(_ name: MetricName, _ dimensions: [(String, String)]) -> Counter {
            Counter(label: name.rawValue, dimensions: dimensions, factory: registry)
        }
        accepted = Dictionary(
            uniqueKeysWithValues: Lane.allCases.map { lane in
                let counters = ["false", "true"].map { counter(.accepted, [("lane", lane.rawValue), ("replay", $0)]) }
                return (lane, (new: counters[0], replay: counters[1]))
            })
        created = counter(.registrations, [("result", "created")])
        updated = counter(.registrations, [("result", "updated")])
        // Exist at 0, as those without labels do (``PrometheusMetrics/describe(_:)``).
        @discardableResult
        func begin<Value: CaseIterable & Hashable & RawRepresentable<String>>(
            _ name: MetricName, _ label: String, _: Value.Type
        ) -> [Value: Counter] {
            Dictionary(uniqueKeysWithValues: Value.allCases.map { ($0, counter(name, [(label, $0.rawValue)])) })
        }
        shedRequests = begin(.requestsShed, "reason", LoadShedding.Reason.self)
        limitedRequests = begin(.requestsRateLimited, "limit", CallerLimit.self)
        begin(.relayStepsFailed, "step", Relay.Step.self)
        begin(.outcomes, "class", OutcomeClass.self)
        begin(.commitsRepeated, "reason", InstallationRegistration.RepeatReason.self)
        begin(.housekeepingRounds, "result", Housekeeper.RoundResult.self)
        begin(.retentionRemoved, "kind", Retention.Kind.self)
        begin(.webhookAttempts, "result", WebhookAttempt.Outcome.Result.self)
        begin(.webhooksDisabled, "reason", Webhook.DisabledReason.self)
        for result in DeviceReceipt.Result.words { _ = counter(.deviceReceipts, [("result", result)]) }
        for reason in ["gone", "rejected"] { _ = counter(.retired, [("reason", reason)]) }
        for log in EventLog.allCases {
            for sink in EventSink.Kind.allCases { _ = counter(.eventsPublished, [("log", log.rawValue), ("sink", sink.rawValue)]) }
        }
        changesPerCommit = Recorder(label: MetricName.changesPerCommit.rawValue, dimensions: [], aggregate: true, factory: registry)
    }

    // MARK: Gauges

    /// A gauge that is read whenever the metrics are.
    func gauge(_ name: MetricName, _ dimensions: [(String, String)] = [], read: @escaping @Sendable () -> Double) {
        registry.observe(name.rawValue, dimensions: dimensions, read: read)
    }

    package func observe(_ backlog: PublishBacklog) {
        for lane in Lane.allCases { gauge(.backlog, [("lane", lane.rawValue)]) { Double(backlog.count(of: lane)) } }
    }

    package func observe(_ pool: PostgresPool, named name: String) {
        let states: [(String, @Sendable (PostgresPool.Gauges) -> Int)] = [
            ("idle", \.idle), ("busy", \.busy), ("waiting", \.waiting),
        ]
        for (state, value) in states {
            gauge(.connections, [("pool", name), ("state", state)]) { Double(value(pool.gauges)) }
        }
    }

    package func observe(_ window: RelayWindow) {
        for lane in Lane.allCases {
            gauge(.publishRefused, [("lane", lane.rawValue)]) { window.isRefused(lane) ? 1 : 0 }
        }
    }

    package func observe(_ waits: LaneWaits) {
        for lane in Lane.allCases {
            gauge(.laneWait, [("lane", lane.rawValue)]) { waits.wait(of: lane) }
            gauge(.laneSlack, [("lane", lane.rawValue)]) { waits.slack(of: lane) }
        }
    }

    func commits(_ changes: Int) { changesPerCommit.record(changes) }
    func repeated(_ reason: InstallationRegistration.RepeatReason, _ number: Int) {
        count(.commitsRepeated, [("reason", reason.rawValue)], by: number)
    }

    func internalError() { count(.internalErrors) }
    /// A caller has used up what is its own.
    enum CallerLimit: String, CaseIterable {
        case rate, requests, streams, uploads, bodies

        init(_ reason: LoadShedding.Reason) {
            self =
                switch reason {
                case .requests: .requests
                case .streams: .streams
                case .uploads: .uploads
                case .bodies: .bodies
                }
        }
    }

    func limited(_ limit: CallerLimit) { limitedRequests[limit]?.increment() }
    func shed(_ reason: LoadShedding.Reason) { shedRequests[reason]?.increment() }

    package func observe(_ fanOuts: FanOutWatch) {
        gauge(.fanOutsLive) { Double(fanOuts.live) }
        gauge(.fanOutOldest) {
            fanOuts.oldestAge(now: UnixTime.milliseconds())
        }
    }

    package func observe(_ partitions: PartitionWatch) {
        for family in PartitionFamily.allCases {
            let dimensions = [("table", family.rawValue)]
            gauge(.partitionsAhead, dimensions) { partitions[family]?.ahead(now: UnixTime.milliseconds()) ?? 0 }
            gauge(.partitionsRestRows, dimensions) { Double(partitions[family]?.restRows ?? 0) }
            gauge(.retentionOverdue, dimensions) { partitions[family]?.overdue(now: UnixTime.milliseconds()) ?? 0 }
        }
    }

    func fannedOut(read: Int, jobs: Int) {
        count(.fanOutRead, by: read)
        count(.fanOutJobs, by: jobs)
    }

    func answered(route: String, method: String, status: Int, took: Duration) {
        let series = requests.series(route: route, method: method, status: status) {
            RequestSeries.Series(
                counter: Counter(
                    label: MetricName.requests.rawValue, dimensions: [("method", method), ("route", route), ("status", "\(status)")],
                    factory: registry),
                timer: Timer(label: MetricName.requestTime.rawValue, dimensions: [("method", method), ("route", route)], factory: registry))
        }
        series.counter.increment()
        series.timer.record(duration: took)
    }

    func registered(isNew: Bool) { (isNew ? created : updated).increment() }
    func registered(created: Int, updated: Int) {
        self.created.increment(by: created)
        self.updated.increment(by: updated)
    }
    func signedOut(_ number: Int) { count(.signOuts, by: number) }

    func accepted(lane: Lane, isReplay: Bool) {
        guard let counters = accepted[lane] else { return }
        (isReplay ? counters.replay : counters.new).increment()
    }

    func deviceReceipts(_ results: [DeviceReceipt.Result]) {
        for (word, number) in Tally(results.lazy.map(\.word)).counts { count(.deviceReceipts, [("result", word)], by: Int(number)) }
    }

    func putAside(_ number: Int) { count(.putAside, by: number) }
    func published(_ number: Int) { count(.published, by: number) }
    func failed(_ step: Relay.Step) { count(.relayStepsFailed, [("step", step.rawValue)]) }
    func unreadable(jobs: Int) { count(.unreadableJobs, by: jobs) }
    func undecodableOutcome() { count(.undecodableOutcomes) }
    func refusedOutcome() { count(.refusedOutcomes) }

    func applied(_ effect: OutcomeApplication.Effect) {
        for (outcome, number) in effect.finished { count(.outcomes, [("class", outcome.rawValue)], by: number) }
        count(.repeatedOutcomes, by: effect.repeated)
        count(.completed, by: effect.completedNotifications)
        count(.retired, [("reason", "gone")], by: effect.retiredGone)
        count(.retired, [("reason", "rejected")], by: effect.retiredRejected)
        count(.doubtful, by: effect.doubtful)
        count(.endedAgain, by: effect.endedAgain)
        count(.throttled, by: effect.throttledInstallations)
        count(.braked, by: effect.braked.count)
        count(.corrected, by: effect.corrected)
        superseded(effect.superseded)
        count(.quarantined, by: effect.quarantined)
    }

    /// Updates of Live Activities and channels.
    func superseded(_ number: Int) { count(.superseded, by: number) }

    func restored(_ number: Int) { count(.restored, by: number) }
    func deadLetters(replayed number: Int) { count(.deadLettersReplayed, by: number) }
    func deadLetters(dropped number: Int) { count(.deadLettersDropped, by: number) }
    func erased(_ result: Erasure.Result) { count(.erasures) }
    func flaggedStale(_ number: Int) { count(.staleFlagged, by: number) }
    func removedStale(_ number: Int) { count(.staleRemoved, by: number) }
    func housekeepingRound(_ result: Housekeeper.RoundResult) { count(.housekeepingRounds, [("result", result.rawValue)]) }
    func retentionRemoved(_ kind: Retention.Kind, _ number: Int) {
        count(.retentionRemoved, [("kind", kind.rawValue)], by: number)
    }

    func publishedEvents(_ number: Int, of feed: EventFeed.Name) {
        count(.eventsPublished, [("log", feed.log.rawValue), ("sink", feed.sink.rawValue)], by: number)
    }
    func webhookAttempt(_ result: WebhookAttempt.Outcome.Result) { count(.webhookAttempts, [("result", result.rawValue)]) }
    func webhookMessageFailed() { count(.webhookMessagesFailed) }
    func webhookDisabled(_ reason: Webhook.DisabledReason) { count(.webhooksDisabled, [("reason", reason.rawValue)]) }

    /// How far behind events and webhooks are.
    func observe(_ feeds: [EventFeed], _ counter: DeviceReceiptCounter, _ dispatcher: WebhookDispatcher) {
        for feed in feeds {
            gauge(.eventsWaiting, [("log", feed.name.log.rawValue), ("sink", feed.name.sink.rawValue)]) { Double(feed.waitingCount) }
        }
        gauge(.eventsWaiting, [("log", EventLog.deviceReceipts.rawValue), ("sink", "counts")]) { Double(counter.waitingCount) }
        gauge(.webhookLag) {
            dispatcher.lag
        }
    }

    private func count(_ name: MetricName, _ dimensions: [(String, String)] = [], by number: Int = 1) {
        Counter(label: name.rawValue, dimensions: dimensions, factory: registry).increment(by: number)
    }
}

/// The series of requests by method, route and status: few, because all come from closed sets.
private final class RequestSeries: Sendable {
    struct Series: Sendable {
        let counter: Counter
        let timer: Metrics.Timer
    }

    private struct Key: Hashable {
        let route: String
        let method: String
        let status: Int
    }

    private let known = Mutex<[Key: Series]>([:])

    func series(route: String, method: String, status: Int, make: () -> Series) -> Series {
        let key = Key(route: route, method: method, status: status)
        if let series = known.withLock({ $0[key] }) { return series }
        let made = make()
        known.withLock { $0[key] = made }
        return made
    }
}
