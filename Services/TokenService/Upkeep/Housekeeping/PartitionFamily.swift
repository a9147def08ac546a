import Postgres

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
