import Metrics
package import Observability
package import Postgres
import Synchronization
import TokenServiceKit

/// The figures behind the alarms. Moments are UNIX milliseconds.
package struct PartitionState: Equatable, Sendable {
    /// Rows that are inserted until then have a period; nil without any period.
    package var coveredUntil: Int64?
    /// When the oldest period is past its retention; nil without any period.
    package var overdueFrom: Int64?
    /// Rows that came without a period, counted to 10,000.
    package var restRows: Int

    /// Seconds.
    package func ahead(now: Int64) -> Double { Double(max(0, (coveredUntil ?? 0) - now)) / 1000 }
    /// Seconds.
    package func overdue(now: Int64) -> Double { overdueFrom.map { Double(max(0, now - $0)) / 1000 } ?? 0 }
}

/// The partitions as this process saw them last. Every process reads them, whichever does the housekeeping.
package final class PartitionWatch: Sendable {
    private let states = Mutex<[PartitionFamily: PartitionState]>([:])

    package init() {}

    /// The family's state; nil before the first look.
    package subscript(_ family: PartitionFamily) -> PartitionState? { states.withLock { $0[family] } }

    func saw(_ states: [PartitionFamily: PartitionState]) { self.states.withLock { $0 = states } }
}

/// The tables that are partitioned by time, by the first table of each family: a family's tables have the same periods.
package enum PartitionFamily: String, CaseIterable, PostgresEncodable, PostgresDecodable, Sendable {
    /// And all tables whose rows belong to a notification.
    case notifications
    /// And the audit trail.
    case history = "installation_history"
    case idempotencyRecords = "idempotency_records"
}

extension Housekeeper.Settings {
    /// Counted from the moment at which the rows of a period are out of use (`in_use_until`).
    func retentionDays(of family: PartitionFamily) -> Int {
        switch family {
        case .notifications: receiptDays
        case .history: historyDays
        case .idempotencyRecords: 0
        }
    }

    /// About eight periods in a retention: before PostgreSQL 18, a statement whose plan is kept locks every partition.
    func periodDays(of family: PartitionFamily) -> Int { max(1, (retentionDays(of: family) + 7) / 8) }
}

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
                + """
                token_moves, sign_outs, outcome_counts, notification_events, webhook_messages, activities, holds; channels: what updates \
                knew of channels deleted twelve hours before; unread_events: state changes that 
                """
                + "are lost, because their app's queue took none or no process read them; quarantine: marks taken away; activity_tokens: "
                    + """
                    update tokens of Live Activities retired twelve hours after their report; doubtful_tokens: doubtful start tokens to \
                    which 
                    """
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

/// The functions that change partitions. They run with the rights of the schema's owner, so they do nothing else.
package struct PartitionStore {
    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// Makes the next period, unless one period lies ahead. If rows came without a period, the first one holds them.
    /// - Returns: the partitions that were made.
    package func makeNext(_ family: PartitionFamily, days: Int) throws -> [String] {
        try session.execute("SELECT make_partition(\(family), \(days) * interval '1 day', now()) AS name").column("name")
    }

    /// Drops one table of the oldest period whose rows have been out of use for the retention.
    /// - Returns: the partition that was dropped; empty: no such period is left.
    package func dropNext(_ family: PartitionFamily, retentionDays: Int) throws -> [String] {
        try session.execute("SELECT drop_partition(\(family), \(retentionDays) * interval '1 day', now()) AS name").column("name")
    }

    /// - Parameter retentionDays: Gives the days that a family is kept.
    package func states(retentionDays: (PartitionFamily) -> Int) throws -> [PartitionFamily: PartitionState] {
        var states: [PartitionFamily: PartitionState] = [:]
        for row in try session.execute("SELECT * FROM partition_states()") {
            let family: PartitionFamily = try row["family"]
            states[family] = PartitionState(
                coveredUntil: try row.milliseconds("covered_until"),
                overdueFrom: try row.milliseconds("in_use_until").map { $0 + Int64(retentionDays(family)) * 86_400_000 },
                restRows: try row["rest_rows"])
        }
        return states
    }
}
