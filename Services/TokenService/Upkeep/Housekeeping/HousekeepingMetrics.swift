import Metrics
package import Observability
import TokenServiceKit

/// Counts stale installations and removed rows, and shows the state of partitions.
package struct HousekeepingMetrics: Sendable {
    private let staleFlagged: Counter
    private let staleRemoved: Counter
    private let rounds: [Housekeeper.RoundResult: Counter]
    private let removed: [Retention.Kind: Counter]
    private let overdue: GaugeMetric
    private let ahead: GaugeMetric
    private let restRows: GaugeMetric

    package init(_ registry: PrometheusMetrics) {
        staleFlagged = registry.counter("push_token_service_stale_flagged_total", "Installations flagged as stale.")
        staleRemoved = registry.counter(
            "push_token_service_stale_removed_total", "Stale installations deregistered because their app wants it.")
        rounds = registry.counters(
            "push_token_service_housekeeping_rounds_total", by: "result", Housekeeper.RoundResult.self,
            "Rounds of stale installations and retention; one in which a part failed is failed, and its other parts are done: alert "
                + "when the fleet's `failed` grows and `finished` does not. Result: finished, failed.")
        removed = registry.counters(
            "push_token_service_retention_removed_total", by: "kind", Retention.Kind.self,
            "Rows removed one by one because their retention was over; most go with their partition. Kind: tokens, fences, "
                + "token_moves, outcome_counts, notification_events, webhook_messages, activities, holds; unread_events: state changes that "
                + "are lost, because their app's queue took none or no process read them; quarantine: marks taken away; activity_tokens: "
                + "update tokens of Live Activities retired twelve hours after their report; doubtful_tokens: doubtful start tokens to which "
                + "a start goes again after a day.")
        overdue = registry.gauge(
            "push_token_service_retention_overdue_seconds", ["table"],
            "For how long the oldest period has been past its retention; alert above 86400. Table: notifications, "
                + "installation_history, idempotency_records.")
        ahead = registry.gauge(
            "push_token_service_partitions_ahead_seconds", ["table"],
            "For how long rows still have a partition that was made for them; alert below 43200.")
        restRows = registry.gauge(
            "push_token_service_partitions_rest_rows", ["table"],
            "Rows that came without a partition made for them, counted to 10,000; alert on any.")
    }

    func observe(_ partitions: PartitionWatch) {
        for family in PartitionFamily.allCases {
            ahead.observe(family.rawValue) { partitions[family]?.ahead(now: UnixTime.milliseconds()) ?? 0 }
            restRows.observe(family.rawValue) { Double(partitions[family]?.restRows ?? 0) }
            overdue.observe(family.rawValue) { partitions[family]?.overdue(now: UnixTime.milliseconds()) ?? 0 }
        }
    }

    func flaggedStale(_ number: Int) { staleFlagged.increment(by: number) }
    func removedStale(_ number: Int) { staleRemoved.increment(by: number) }
    func housekeepingRound(_ result: Housekeeper.RoundResult) { rounds[result]?.increment() }
    func retentionRemoved(_ kind: Retention.Kind, _ number: Int) { removed[kind]?.increment(by: number) }
}
