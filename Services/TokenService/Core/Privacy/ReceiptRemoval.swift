package import Postgres
package import PushModel

/// Removes receipts within one transaction, so that what remains adds up: a notification counts the deliveries that it has, and one
/// that waited only for removed ones is complete, unless its walk is still under way. Where not every delivery has a receipt, the counters
/// name nobody and stay as they are.
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
        let found: [PushID] = try session.execute(
            "SELECT id FROM deliveries WHERE notification = ANY (\(notifications)) LIMIT \(Self.batch)"
        ).column("id")
        guard found.count < Self.batch else { return Count(deliveries: try remove(found)) }
        if !found.isEmpty { try lockDeliveries(found) }
        let chunks = try session.execute(
            """
            WITH locked AS (
                SELECT notification, number FROM chunks
                WHERE ctid = ANY (ARRAY(SELECT ctid FROM chunks WHERE notification = ANY (\(notifications)) LIMIT \(Self.batch)))
                ORDER BY notification, number FOR UPDATE
            )
            DELETE FROM chunks c USING locked WHERE c.notification = locked.notification AND c.number = locked.number
            """
        ).affected
        guard chunks < Self.batch else { return Count(deliveries: try remove(found)) }
        // The last step takes everything at once: what goes with its notification need not be discounted from it first.
        let removed = try session.pipeline([
            "DELETE FROM deliveries WHERE id = ANY (\(found))", "DELETE FROM notifications WHERE id = ANY (\(notifications))",
            "DELETE FROM idempotency_records WHERE notification = ANY (\(notifications))",
        ]).map(\.affected)
        return Count(notifications: removed[1], deliveries: removed[0], idempotencyRecords: removed[2], isDone: true)
    }

    /// Removes deliveries, wherever they belong.
    /// - Returns: how many were there.
    package func remove(_ deliveries: [PushID]) throws -> Int {
        guard !deliveries.isEmpty else { return 0 }
        // Deliveries, then notifications, each in ascending order: as everywhere.
        try lockDeliveries(deliveries)
        let removed = try session.execute(
            """
            WITH gone AS (DELETE FROM deliveries WHERE id = ANY (\(deliveries)) RETURNING notification, class)
            SELECT notification, count(*)::int AS deliveries, (count(*) FILTER (WHERE class IS NULL))::int AS pending FROM gone
            GROUP BY notification ORDER BY notification
            """)
        let (notifications, counts): ([PushID], [Int32]) = (try removed.column("notification"), try removed.column("deliveries"))
        try session.execute("SELECT FROM notifications WHERE id = ANY (\(notifications)) ORDER BY id FOR UPDATE")
        try discount(notifications, counts, pending: try removed.column("pending"))
        return counts.reduce(0) { $0 + Int($1) }
    }

    private func lockDeliveries(_ deliveries: [PushID]) throws {
        try session.execute("SELECT FROM deliveries WHERE id = ANY (\(deliveries)) ORDER BY id FOR UPDATE")
    }

    private func discount(_ notifications: [PushID], _ counts: [Int32], pending: [Int32]) throws {
        try session.execute(
            """
            UPDATE notifications n SET total = n.total - e.gone, pending = n.pending - e.waited,
                state = CASE WHEN e.is_last AND n.state IN ('accepted', 'expanding', 'sending') THEN 'completed' ELSE n.state END,
                published_at = CASE WHEN e.is_last THEN coalesce(n.published_at, now()) ELSE n.published_at END,
                free_from = CASE WHEN NOT e.is_last THEN n.free_from END,
                completed_at = CASE WHEN e.is_last THEN coalesce(n.completed_at, now()) ELSE n.completed_at END
            FROM (
                SELECT e.*, e.waited > 0 AND m.pending = e.waited AND NOT (m.is_walked AND m.published_at IS NULL) AS is_last
                FROM unnest(\(notifications)::uuid[], \(counts)::int[], \(pending)::int[]) AS e (id, gone, waited)
                JOIN notifications m ON m.id = e.id
                -- Counters know nothing of receipts: the outcome of an erased receipt comes all the same.
                WHERE m.receipts = 'all'
            ) AS e WHERE n.id = e.id
            """)
    }
}
