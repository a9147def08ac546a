import Metrics
package import Observability
import PushModel
import Synchronization
package import TokenServiceSending

/// The apps whose brakes this process has seen engaged, for the alarm. The database decides (``RejectionBrake``). This forgets an app once
/// no token was rejected for the brake's window.
package final class BrakeWatch: Sendable {
    private static let memory: Duration = .seconds(RejectionBrake.windowMinutes * 60)

    private let engaged = Mutex<[Int64: ContinuousClock.Instant]>([:])

    package init() {}

    package var count: Int { engaged.withLock { $0.values.count { ContinuousClock.now - $0 < Self.memory } } }

    /// - Returns: the apps whose brake was free before, as far as this process knew.
    package func note(braked: [Int64], unbraked: [Int64]) -> [Int64] {
        let now = ContinuousClock.now
        return engaged.withLock { engaged in
            engaged = engaged.filter { now - $0.value < Self.memory && !unbraked.contains($0.key) }
            let newly = braked.filter { engaged[$0] == nil }
            for app in braked { engaged[app] = now }
            return newly
        }
    }
}

/// Counts outcomes and their effects.
package struct OutcomeMetrics: Sendable {
    private let outcomes: [OutcomeClass: Counter]
    private let repeated: Counter
    private let undecodable: Counter
    private let refused: Counter
    private let completed: Counter
    private let retiredGone: Counter
    private let retiredRejected: Counter
    private let doubtful: Counter
    private let endedAgain: Counter
    private let braked: Counter
    private let brakesEngaged: GaugeMetric
    private let quarantined: Counter
    private let corrected: Counter
    private let throttled: Counter
    private let notifications: NotificationMetrics

    package init(_ registry: PrometheusMetrics, notifications: NotificationMetrics) {
        self.notifications = notifications
        outcomes = registry.counters(
            "push_token_service_outcomes_total", by: "class", OutcomeClass.self, "Deliveries that got their final outcome.")
        repeated = registry.counter(
            "push_token_service_outcomes_repeated_total", "Final outcomes reported again, or of unknown deliveries.")
        undecodable = registry.counter("push_token_service_outcomes_undecodable_total", "Outcome messages put aside; alert on any.")
        refused = registry.counter(
            "push_token_service_outcomes_refused_total",
            "Outcomes of single deliveries that PostgreSQL refused as they came; alert on any.")
        completed = registry.counter(
            "push_token_service_notifications_completed_total", "Notifications whose every delivery has its outcome.")
        let retired = registry.counters(
            "push_token_service_tokens_retired_total", ["reason"], "Tokens retired because APNs said so. Reason: gone, rejected.")
        retiredGone = retired["gone"]
        retiredRejected = retired["rejected"]
        doubtful = registry.counter(
            "push_token_service_tokens_doubtful_total",
            "Start tokens of Live Activities that became doubtful: APNs accepts starts, and no activity is reported.")
        endedAgain = registry.counter(
            "push_token_service_tokens_ended_again_total",
            "Tokens that APNs ended for the third time or oftener; many: an app keeps tokens and registers them again.")
        braked = registry.counter(
            "push_token_service_brake_engaged_total", "Batches in which rejected tokens were left alone; alert on any.")
        brakesEngaged = registry.gauge(
            "push_token_service_brakes_engaged",
            "Apps whose brake this process has seen engaged within ten minutes and not free since; alert on any.")
        quarantined = registry.counter(
            "push_token_service_tokens_quarantined_total", "Tokens that had been retired and were put into quarantine.")
        corrected = registry.counter(
            "push_token_service_environments_corrected_total",
            "Tokens that APNs took in another environment than they were registered for; many: an app's build names the wrong one.")
        throttled = registry.counter(
            "push_token_service_installations_throttled_total", "Installations APNs asked to leave alone for a while.")
    }

    package func observe(_ brakes: BrakeWatch) { brakesEngaged.observe { Double(brakes.count) } }

    func undecodableOutcome() { undecodable.increment() }
    func refusedOutcome() { refused.increment() }

    func applied(_ effect: OutcomeApplication.Effect) {
        for (outcome, number) in effect.finished { outcomes[outcome]?.increment(by: number) }
        repeated.increment(by: effect.repeated)
        completed.increment(by: effect.completedNotifications)
        retiredGone.increment(by: effect.retiredGone)
        retiredRejected.increment(by: effect.retiredRejected)
        doubtful.increment(by: effect.doubtful)
        endedAgain.increment(by: effect.endedAgain)
        throttled.increment(by: effect.throttledInstallations)
        braked.increment(by: effect.braked.count)
        corrected.increment(by: effect.corrected)
        notifications.superseded(effect.superseded)
        quarantined.increment(by: effect.quarantined)
    }
}
