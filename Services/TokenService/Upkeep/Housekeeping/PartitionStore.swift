package import Postgres

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

    /// - Parameter retentionDays: Of a family.
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
