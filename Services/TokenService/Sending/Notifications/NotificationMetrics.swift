import Metrics
package import Observability
import PushModel

/// Counts accepted notifications and superseded updates.
package struct NotificationMetrics: Sendable {
    private let accepted: [Lane: (new: Counter, replay: Counter)]
    private let supersededUpdates: Counter

    package init(_ registry: PrometheusMetrics) {
        let accepted = registry.counters(
            "push_token_service_notifications_accepted_total", ["lane", "replay"], "Notifications accepted, and repeats of accepted ones.")
        self.accepted = Dictionary(
            uniqueKeysWithValues: Lane.allCases.map { ($0, (new: accepted[$0.rawValue, "false"], replay: accepted[$0.rawValue, "true"])) })
        supersededUpdates = registry.counter(
            "push_token_service_updates_superseded_total",
            "Updates of Live Activities and broadcasts that a newer state replaced before they were sent.")
    }

    func accepted(lane: Lane, isReplay: Bool) {
        guard let counters = accepted[lane] else { return }
        (isReplay ? counters.replay : counters.new).increment()
    }

    /// Updates of Live Activities and channels.
    package func superseded(_ number: Int) { supersededUpdates.increment(by: number) }
}
