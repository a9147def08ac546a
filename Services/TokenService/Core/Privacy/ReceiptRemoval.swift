package import Postgres
package import PushModel

/// Removes receipts within one transaction, so that what remains adds up: a notification counts the deliveries that it has, and one
/// that waited only for removed ones is complete.
package struct ReceiptRemoval {
    /// Deliveries that one transaction removes: well within a statement's time limit.
    package static let batch = 2000

    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    package struct Count: Equatable, Sendable {
        package var notifications = 0
        package var deliveries = 0
        package var idempotencyRecords = 0
        /// Nothing is left of what was asked for.
        package var isDone = false

        package static func += (sum: inout Count, more: Count) {
            sum.notifications += more.notifications
            sum.deliveries += more.deliveries
            sum.idempotencyRecords += more.idempotencyRecords
            sum.isDone = more.isDone
        }
    }

    /// Removes deliveries of these notifications; where none is left, the notifications and their idempotency records too.
    package func removeBatch(of notifications: [PushID]) throws -> Count {
        let found = try session.execute(Self.ofNotifications, [.ids(notifications), .int64(Int64(Self.batch))]).map { row in try row.id(0) }
        var count = Count(deliveries: try remove(found), isDone: found.count < Self.batch)
        if count.isDone {
            let ids: [PostgresValue] = [.ids(notifications)]
            count.notifications = try session.execute(Self.deleteNotifications, ids).affected
            count.idempotencyRecords = try session.execute(Self.deleteIdempotencyRecords, ids).affected
        }
        return count
    }

    /// Removes deliveries, wherever they belong.
    /// - Returns: how many were there.
    package func remove(_ deliveries: [PushID]) throws -> Int {
        guard !deliveries.isEmpty else { return 0 }
        // Deliveries, then notifications, each in ascending order: as everywhere.
        try session.execute(Self.lockDeliveries, [.ids(deliveries)])
        let removed = try session.execute(Self.deleteDeliveries, [.ids(deliveries)]).map { row in
            (notification: try row.id(0), all: try row.int32(1), pending: try row.int32(2))
        }
        let ids: PostgresValue = .ids(removed.map(\.notification))
        try session.execute(Self.lockNotifications, [ids])
        try session.execute(Self.discount, [ids, .int32Array(removed.map(\.all)), .int32Array(removed.map(\.pending))])
        return removed.reduce(0) { $0 + Int($1.all) }
    }

    private static let ofNotifications: PostgresStatement =
        "SELECT id FROM deliveries WHERE notification = ANY ($1::uuid[]) LIMIT $2"
    private static let lockDeliveries: PostgresStatement =
        "SELECT count(*) FROM (SELECT id FROM deliveries WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE) AS locked"
    private static let deleteDeliveries: PostgresStatement = """
        WITH gone AS (DELETE FROM deliveries WHERE id = ANY ($1::uuid[]) RETURNING notification, class)
        SELECT notification, count(*)::int, (count(*) FILTER (WHERE class IS NULL))::int FROM gone
        GROUP BY notification ORDER BY notification
        """
    private static let lockNotifications: PostgresStatement =
        "SELECT count(*) FROM (SELECT id FROM notifications WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE) AS locked"
    private static let discount: PostgresStatement = """
        UPDATE notifications n SET total = n.total - e.gone, pending = n.pending - e.waited,
            state = CASE WHEN e.waited > 0 AND n.pending = e.waited AND n.state IN ('accepted', 'sending') AND NOT e.is_walking
                THEN 'completed' ELSE n.state END,
            published_at = CASE WHEN e.waited > 0 AND n.pending = e.waited AND NOT e.is_walking THEN coalesce(n.published_at, now())
                ELSE n.published_at END,
            completed_at = CASE WHEN e.waited > 0 AND n.pending = e.waited AND NOT e.is_walking THEN coalesce(n.completed_at, now())
                ELSE n.completed_at END
        FROM (
            SELECT e.*, w.is_walked AND w.published_at IS NULL AS is_walking
            FROM unnest($1::uuid[], $2::int[], $3::int[]) AS e (id, gone, waited) JOIN notifications w ON w.id = e.id
            -- Counters know nothing of receipts: the outcome of an erased receipt comes all the same.
            WHERE w.receipts = 'all'
        ) AS e WHERE n.id = e.id
        """
    private static let deleteNotifications: PostgresStatement = "DELETE FROM notifications WHERE id = ANY ($1::uuid[])"
    private static let deleteIdempotencyRecords: PostgresStatement = "DELETE FROM idempotency_records WHERE notification = ANY ($1::uuid[])"
}
