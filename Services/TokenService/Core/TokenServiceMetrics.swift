import Broker
import Metrics
package import Observability
package import Postgres
import PushModel
import Synchronization

/// Records this service's metrics. Dimensions come from closed sets, never from user input.
package struct TokenServiceMetrics: Sendable {
    private let registry: PrometheusMetrics
    /// Looked up by every request; making them anew costs more than counting.
    private let requests = RequestSeries()
    private let accepted: [Lane: (new: Counter, replay: Counter)]
    private let created: Counter
    private let updated: Counter

    private let changesPerCommit: Recorder

    package init(registry: PrometheusMetrics) {
        self.registry = registry
        registry.describe(
            MetricName.changesPerCommit, "Registrations and changes that shared a transaction.",
            buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256])
        for (name, help) in Self.help + BrokerMetrics.help { registry.describe(name, help) }
        let acceptances = Lane.allCases.map { lane in
            let counters = ["false", "true"].map { replay in
                Counter(label: MetricName.accepted, dimensions: [("lane", lane.rawValue), ("replay", replay)], factory: registry)
            }
            return (lane, (new: counters[0], replay: counters[1]))
        }
        accepted = Dictionary(uniqueKeysWithValues: acceptances)
        created = Counter(label: MetricName.registrations, dimensions: [("result", "created")], factory: registry)
        updated = Counter(label: MetricName.registrations, dimensions: [("result", "updated")], factory: registry)
        changesPerCommit = Recorder(label: MetricName.changesPerCommit, dimensions: [], aggregate: true, factory: registry)
    }

    /// Gauges that are read when somebody asks.
    package func observe(pool: PostgresPool, backlog: PublishBacklog) {
        registry.observe(MetricName.backlog, "Notifications that are committed and not published yet.") { Double(backlog.count) }
        let states: [(String, @Sendable (PostgresPool.Gauges) -> Int)] = [
            ("idle", \.idle), ("busy", \.busy), ("waiting", \.waiting),
        ]
        for (state, value) in states {
            registry.observe(
                MetricName.connections, "Database connections by state; waiting: callers without one.", dimensions: [("state", state)]
            ) { Double(value(pool.gauges)) }
        }
    }

    package func observe(_ window: RelayWindow) {
        for lane in Lane.allCases {
            registry.observe(
                MetricName.publishRefused, "1 while the broker takes none of the lane's jobs, as far as this process knows.",
                dimensions: [("lane", lane.rawValue)]
            ) { window.isRefused(lane) ? 1 : 0 }
        }
    }

    /// The requests that are being worked on.
    func observe(_ shedding: LoadShedding) {
        registry.observe(MetricName.requestsInProgress, "Requests that are being worked on.") { Double(shedding.requestsInProgress) }
    }

    /// The imports and exports that are under way.
    func observe(_ streams: StreamLimit) {
        registry.observe(MetricName.streamsInProgress, "Imports and exports that are under way.") { Double(streams.streamsInProgress) }
    }

    /// Changes that wait for a commit.
    func observe(_ registration: InstallationRegistration) {
        registry.observe(MetricName.changesWaiting, "Registrations and changes that wait for a transaction.") {
            Double(registration.waitingCount)
        }
    }

    func commits(_ changes: Int) { changesPerCommit.record(changes) }
    func repeated(_ reason: InstallationRegistration.RepeatReason, _ number: Int) {
        count(MetricName.commitsRepeated, [("reason", reason.rawValue)], by: number)
    }

    func rateLimited() { count(MetricName.requestsRateLimited, []) }
    func shed(_ reason: LoadShedding.Reason) { count(MetricName.requestsShed, [("reason", reason.rawValue)]) }

    package func observe(_ brakes: BrakeWatch) {
        registry.observe(MetricName.brakesEngaged, "Apps whose brake this process has seen engaged and not free since.") {
            Double(brakes.count)
        }
    }

    package func observe(_ walks: WalkWatch) {
        registry.observe(MetricName.walksLive, "Walks through audiences that are under way in this process.") { Double(walks.live) }
        registry.observe(MetricName.walkOldest, "How long the oldest unfinished walk of the fleet has been due, in seconds.") {
            walks.oldestAge(now: UnixTime.milliseconds())
        }
    }

    func walked(read: Int, chunks: Int) {
        count(MetricName.walkRead, [], by: read)
        count(MetricName.walkChunks, [], by: chunks)
    }

    func answered(route: String, method: String, status: Int, took: Duration) {
        let series = requests.series(route: route, method: method, status: status) {
            RequestSeries.Series(
                counter: Counter(
                    label: MetricName.requests, dimensions: [("method", method), ("route", route), ("status", "\(status)")],
                    factory: registry),
                timer: Timer(label: MetricName.requestTime, dimensions: [("method", method), ("route", route)], factory: registry))
        }
        series.counter.increment()
        series.timer.record(duration: took)
    }

    func registered(isNew: Bool) { (isNew ? created : updated).increment() }
    func registered(created: Int, updated: Int) {
        self.created.increment(by: created)
        self.updated.increment(by: updated)
    }
    func signedOut(_ number: Int) { count(MetricName.signOuts, [], by: number) }

    func accepted(lane: Lane, isReplay: Bool) {
        guard let counters = accepted[lane] else { return }
        (isReplay ? counters.replay : counters.new).increment()
    }

    /// The holds that are in force.
    func observe(_ holds: HoldCache) {
        registry.observe(MetricName.holds, "Scopes on which a hold is in force, as this process saw them last.") { Double(holds.count) }
    }

    func putAside(_ number: Int) { count(MetricName.putAside, [], by: number) }
    func published(_ number: Int) { count(MetricName.published, [], by: number) }
    func undecodableOutcome() { count(MetricName.undecodableOutcomes, []) }
    func refusedOutcome() { count(MetricName.refusedOutcomes, []) }

    func applied(_ effect: OutcomeApplication.Effect) {
        for (outcome, number) in effect.finished { count(MetricName.outcomes, [("class", outcome.rawValue)], by: number) }
        count(MetricName.repeatedOutcomes, [], by: effect.repeated)
        count(MetricName.completed, [], by: effect.completedNotifications)
        count(MetricName.retired, [("reason", "gone")], by: effect.retiredGone)
        count(MetricName.retired, [("reason", "rejected")], by: effect.retiredRejected)
        count(MetricName.throttled, [], by: effect.throttledInstallations)
        count(MetricName.braked, [], by: effect.braked.count)
        count(MetricName.corrected, [], by: effect.corrected)
        count(MetricName.quarantined, [], by: effect.quarantined)
    }

    func restored(_ number: Int) { count(MetricName.restored, [], by: number) }
    func deadLetters(replayed number: Int) { count(MetricName.deadLettersReplayed, [], by: number) }
    func deadLetters(dropped number: Int) { count(MetricName.deadLettersDropped, [], by: number) }
    func erased(_ result: Erasure.Result) { count(MetricName.erasures, []) }
    func flaggedStale(_ number: Int) { count(MetricName.staleFlagged, [], by: number) }
    func removedStale(_ number: Int) { count(MetricName.staleRemoved, [], by: number) }
    func housekeepingRound(_ result: Housekeeper.RoundResult) { count(MetricName.housekeepingRounds, [("result", result.rawValue)]) }
    func retentionRemoved(_ kind: Retention.Kind, _ number: Int) {
        count(MetricName.retentionRemoved, [("kind", kind.rawValue)], by: number)
    }

    func publishedEvents(_ number: Int, of feed: EventFeed.Name) {
        count(MetricName.eventsPublished, [("log", feed.log.rawValue), ("sink", feed.sink.rawValue)], by: number)
    }
    func webhookAttempt(_ result: WebhookResult) { count(MetricName.webhookAttempts, [("result", result.rawValue)]) }
    func webhookMessageFailed() { count(MetricName.webhookMessagesFailed, []) }
    func webhookDisabled(_ reason: Webhook.DisabledReason) { count(MetricName.webhooksDisabled, [("reason", reason.rawValue)]) }

    /// What came of an attempt.
    enum WebhookResult: String {
        case delivered, failed, gone, refused
    }

    /// How far behind events and webhooks are.
    func observe(_ feeds: [EventFeed], _ dispatcher: WebhookDispatcher) {
        for feed in feeds {
            registry.observe(
                MetricName.eventsWaiting, "Rows of a log that this process is still to read.",
                dimensions: [("log", feed.name.log.rawValue), ("sink", feed.name.sink.rawValue)]
            ) { Double(feed.waitingCount) }
        }
        registry.observe(MetricName.webhookLag, "For how long the webhook message that is due longest has waited, in seconds.") {
            dispatcher.lag
        }
    }

    private func count(_ name: String, _ dimensions: [(String, String)], by number: Int = 1) {
        Counter(label: name, dimensions: dimensions, factory: registry).increment(by: number)
    }

    private static let help: [(String, String)] = [
        (MetricName.requests, "Requests answered, by method, route and status."),
        (MetricName.requestTime, "Time to answer a request, by method and route."),
        (MetricName.requestsRateLimited, "Requests refused because their key makes too many."),
        (
            MetricName.requestsShed,
            "Requests refused because too many are being worked on, are streamed or wait for the database, by reason."
        ),
        (MetricName.commitsRepeated, "Transactions of registrations that were run once more, by reason."),
        (MetricName.registrations, "Registrations, by whether the installation was new."),
        (MetricName.signOuts, "Installations signed out by request."),
        (MetricName.accepted, "Notifications answered 202, by lane and whether it was a replay."),
        (MetricName.published, "Notifications whose jobs the broker has confirmed."),
        (MetricName.walkRead, "Installations, and entries of lists, that walks have looked at."),
        (MetricName.walkChunks, "Chunks that walks have written."),
        (MetricName.putAside, "Notifications and chunks that were due and put aside because of a hold, each time that they were."),
        (MetricName.outcomes, "Deliveries that got their final outcome, by class."),
        (MetricName.repeatedOutcomes, "Final outcomes that had been applied before, or of unknown deliveries."),
        (MetricName.undecodableOutcomes, "Outcome messages that could not be read and were dead-lettered."),
        (MetricName.refusedOutcomes, "Outcomes of single deliveries that PostgreSQL refused as they came."),
        (MetricName.completed, "Notifications whose every delivery has its outcome."),
        (MetricName.retired, "Tokens retired because APNs said so, by reason."),
        (MetricName.braked, "Batches in which an app's rejected tokens were not retired because they were too many."),
        (MetricName.quarantined, "Tokens put into quarantine because their app's brake engaged."),
        (MetricName.restored, "Tokens that came back to life out of quarantine."),
        (MetricName.corrected, "Tokens that APNs took in another environment than they were registered for."),
        (MetricName.erasures, "Users erased by request, repetitions included."),
        (MetricName.staleFlagged, "Installations flagged because nobody heard of them for as long as their app says."),
        (MetricName.staleRemoved, "Stale installations deregistered because their app wants it."),
        (MetricName.housekeepingRounds, "Rounds of the housekeeping, by whether all of it was done."),
        (MetricName.retentionRemoved, "Rows removed because their retention was over, by kind."),
        (MetricName.deadLettersReplayed, "Dead letters that were replayed and are gone."),
        (MetricName.deadLettersDropped, "Dead letters that were dropped."),
        (MetricName.eventsPublished, "State changes that were published, by log and sink."),
        (MetricName.webhookAttempts, "Attempts to deliver a message to a webhook, by result."),
        (MetricName.webhookMessagesFailed, "Messages to webhooks that were given up after their last attempt."),
        (MetricName.webhooksDisabled, "Webhooks that were disabled because of what they did, by reason."),
        (MetricName.throttled, "Installations that APNs asked to leave alone for a while."),
    ]
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
