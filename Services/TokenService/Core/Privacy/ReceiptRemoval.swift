package import Postgres
package import PushModel

/// Removes receipts within one transaction, so that what remains adds up: a notification counts the deliveries that it has, and one
/// that waited only for removed ones is complete, unless its walk is still under way. Where not every delivery has a receipt, the counters
/// tell nobody's name and stay as they are.
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

    /// Removes deliveries of these notifications; where none is left, their chunks; where none of these is left, the notifications and
    /// their idempotency records too. Deliveries are locked before chunks, and those before notifications, as by outcomes.
    package func removeBatch(of notifications: [PushID]) throws -> Count {
        let found = try session.execute(Self.ofNotifications, [.ids(notifications), .int64(Int64(Self.batch))]).map { row in try row.id(0) }
        guard found.count < Self.batch else { return Count(deliveries: try remove(found)) }
        if !found.isEmpty { try session.execute(Self.lockDeliveries, [.ids(found)]) }
        let chunks = try session.execute(Self.deleteChunks, [.ids(notifications), .int64(Int64(Self.batch))]).affected
        guard chunks < Self.batch else { return Count(deliveries: try remove(found)) }
        // The last step takes everything at once: what goes with its notification need not be discounted from it first.
        let ids: [PostgresValue] = [.ids(notifications)]
        var count = Count(isDone: true)
        if !found.isEmpty { count.deliveries = try session.execute(Self.deleteFound, [.ids(found)]).affected }
        count.notifications = try session.execute(Self.deleteNotifications, ids).affected
        count.idempotencyRecords = try session.execute(Self.deleteIdempotencyRecords, ids).affected
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
    private static let deleteChunks: PostgresStatement = """
        WITH locked AS (
            SELECT notification, number FROM chunks
            WHERE ctid = ANY (ARRAY(SELECT ctid FROM chunks WHERE notification = ANY ($1::uuid[]) LIMIT $2))
            ORDER BY notification, number FOR UPDATE
        )
        DELETE FROM chunks c USING locked WHERE c.notification = locked.notification AND c.number = locked.number
        """
    private static let lockDeliveries: PostgresStatement =
        "SELECT count(*) FROM (SELECT id FROM deliveries WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE) AS locked"
    private static let deleteFound: PostgresStatement = "DELETE FROM deliveries WHERE id = ANY ($1::uuid[])"
    private static let deleteDeliveries: PostgresStatement = """
        WITH gone AS (DELETE FROM deliveries WHERE id = ANY ($1::uuid[]) RETURNING notification, class)
        SELECT notification, count(*)::int, (count(*) FILTER (WHERE class IS NULL))::int FROM gone
        GROUP BY notification ORDER BY notification
        """
    private static let lockNotifications: PostgresStatement =
        "SELECT count(*) FROM (SELECT id FROM notifications WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE) AS locked"
    private static let discount: PostgresStatement = """
        UPDATE notifications n SET total = n.total - e.gone, pending = n.pending - e.waited,
            state = CASE WHEN e.is_last AND n.state IN ('accepted', 'expanding', 'sending') THEN 'completed' ELSE n.state END,
            published_at = CASE WHEN e.is_last THEN coalesce(n.published_at, now()) ELSE n.published_at END,
            free_from = CASE WHEN NOT e.is_last THEN n.free_from END,
            completed_at = CASE WHEN e.is_last THEN coalesce(n.completed_at, now()) ELSE n.completed_at END
        FROM (
            SELECT e.*, e.waited > 0 AND m.pending = e.waited AND NOT (m.is_walked AND m.published_at IS NULL) AS is_last
            FROM unnest($1::uuid[], $2::int[], $3::int[]) AS e (id, gone, waited) JOIN notifications m ON m.id = e.id
            -- Counters know nothing of receipts: the outcome of an erased receipt comes all the same.
            WHERE m.receipts = 'all'
        ) AS e WHERE n.id = e.id
        """
    private static let deleteNotifications: PostgresStatement = "DELETE FROM notifications WHERE id = ANY ($1::uuid[])"
    private static let deleteIdempotencyRecords: PostgresStatement = "DELETE FROM idempotency_records WHERE notification = ANY ($1::uuid[])"
}
