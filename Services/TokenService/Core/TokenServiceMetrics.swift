import Metrics
package import Observability
package import Postgres
import PushModel

/// Records this service's metrics. Dimensions come from closed sets, never from user input.
package struct TokenServiceMetrics: Sendable {
    private let registry: PrometheusMetrics

    package init(registry: PrometheusMetrics) {
        self.registry = registry
        for (name, help) in Self.help { registry.describe(name, help) }
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

    func answered(route: String, status: Int, took: Duration) {
        count(MetricName.requests, [("route", route), ("status", "\(status)")])
        Timer(label: MetricName.requestTime, dimensions: [("route", route)], factory: registry)
            .record(duration: took)
    }

    func registered(isNew: Bool) { count(MetricName.registrations, [("result", isNew ? "created" : "updated")]) }
    func registered(created: Int, updated: Int) {
        count(MetricName.registrations, [("result", "created")], by: created)
        count(MetricName.registrations, [("result", "updated")], by: updated)
    }
    func signedOut(_ number: Int) { count(MetricName.signOuts, [], by: number) }

    func accepted(lane: Lane, isReplay: Bool) {
        count(MetricName.accepted, [("lane", lane.rawValue), ("replay", isReplay ? "true" : "false")])
    }

    func published(_ number: Int) { count(MetricName.published, [], by: number) }
    func undecodableOutcome() { count(MetricName.undecodableOutcomes, []) }

    func applied(_ effect: OutcomeApplication.Effect) {
        for (outcome, number) in effect.finished { count(MetricName.outcomes, [("class", outcome.rawValue)], by: number) }
        count(MetricName.repeatedOutcomes, [], by: effect.repeated)
        count(MetricName.completed, [], by: effect.completedNotifications)
        count(MetricName.retired, [("reason", "gone")], by: effect.retiredGone)
        count(MetricName.retired, [("reason", "rejected")], by: effect.retiredRejected)
        count(MetricName.throttled, [], by: effect.throttledInstallations)
        count(MetricName.braked, [], by: effect.braked.count)
    }

    private func count(_ name: String, _ dimensions: [(String, String)], by number: Int = 1) {
        Counter(label: name, dimensions: dimensions, factory: registry).increment(by: number)
    }

    private static let help: [(String, String)] = [
        (MetricName.requests, "Requests answered, by route and status."),
        (MetricName.requestTime, "Time to answer a request, by route."),
        (MetricName.registrations, "Registrations, by whether the installation was new."),
        (MetricName.signOuts, "Installations signed out by request."),
        (MetricName.accepted, "Notifications answered 202, by lane and whether it was a replay."),
        (MetricName.published, "Notifications whose jobs the broker has confirmed."),
        (MetricName.outcomes, "Deliveries that got their final outcome, by class."),
        (MetricName.repeatedOutcomes, "Final outcomes that had been applied before, or of unknown deliveries."),
        (MetricName.undecodableOutcomes, "Outcome messages that could not be read and were dead-lettered."),
        (MetricName.completed, "Notifications whose every delivery has its outcome."),
        (MetricName.retired, "Tokens retired because APNs said so, by reason."),
        (MetricName.braked, "Batches in which an app's rejected tokens were not retired because they were too many."),
        (MetricName.throttled, "Installations that APNs asked to leave alone for a while."),
    ]
}
