package import Postgres
package import PushModel
package import TokenServiceApps
import TokenServiceKit
package import TokenServiceSending

/// Removes jobs and receipts of one app within one transaction, and keeps the counts correct: a notification that waited only for removed
/// deliveries is complete, unless its fan-out is still under way. Counts of deliveries that have ended name no user, and stay as they are.
package struct ReceiptRemoval {
    /// Jobs, receipts, and receipts of devices that one transaction removes: well within a statement's time limit.
    package static let batch = 2000

    private let session: PostgresSession
    private let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    package struct Count: Equatable, Sendable {
        package var notifications = 0
        package var deliveries = 0
        package var idempotencyRecords = 0
        /// All requested rows are gone.
        package var isDone = false

        package static func += (sum: inout Count, more: Count) {
            sum.notifications += more.notifications
            sum.deliveries += more.deliveries
            sum.idempotencyRecords += more.idempotencyRecords
            sum.isDone = more.isDone
        }
    }

    /// The name of a receipt.
    package struct Key: Hashable, Sendable {
        package var notification: PushID
        package var place: DeliveryPlace

        package init(notification: PushID, place: DeliveryPlace) {
            self.notification = notification
            self.place = place
        }
    }

    /// Removes jobs of these notifications; if none is left, their receipts; if none of these is left, the receipts of devices; then the
    /// notifications and their idempotency records. It locks rows in the order of outcomes: while a job is locked, no delivery of it gets a
    /// receipt.
    package func removeBatch(of notifications: [PushID]) throws -> Count {
        var gone = Gone()
        let jobs = try session.execute(
            """
            SELECT j.notification, j.number FROM unnest(\(notifications)::uuid[]) AS e (id) CROSS JOIN LATERAL (
                SELECT notification, number FROM jobs WHERE app_id = \(app.id) AND notification = e.id ORDER BY number LIMIT \(Self.batch)
            ) AS j LIMIT \(Self.batch)
            """)
        try gone.add(session.execute(removal(ofJobs: jobs.column("notification"), jobs.column("number"))))
        guard jobs.count < Self.batch else {
            try discount(gone)
            return Count(deliveries: gone.deliveries)
        }
        let receipts = try session.execute(
            """
            SELECT r.notification, r.number, r."position" FROM unnest(\(notifications)::uuid[]) AS e (id) CROSS JOIN LATERAL (
                SELECT notification, number, "position" FROM receipts
                WHERE notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = e.id)
                ORDER BY number, "position" LIMIT \(Self.batch)
            ) AS r LIMIT \(Self.batch)
            """
        ).map { row in try Key(row) }
        try gone.add(session.execute(removal(of: receipts)))
        guard receipts.count < Self.batch else {
            try discount(gone)
            return Count(deliveries: gone.deliveries)
        }
        // Without its job, a notification gets no more of them.
        let reported = try RemovalStep(
            session.execute(
                """
                WITH found AS (
                    SELECT d.notification, d.number, d."position", d.event
                    FROM unnest(\(notifications)::uuid[]) AS e (id) CROSS JOIN LATERAL (
                        SELECT * FROM device_receipts WHERE app_id = \(app.id) AND notification = e.id ORDER BY number LIMIT \(Self.batch)
                    ) AS d LIMIT \(Self.batch)
                ), removed AS (
                    DELETE FROM device_receipts WHERE (notification, number, "position", event) IN (
                        SELECT notification, number, "position", event FROM found)
                    RETURNING id
                )
                SELECT (SELECT count(*) FROM found) AS found, (SELECT count(*) FROM removed) AS removed
                """
            ).only(), limit: Self.batch)
        guard reported.isDone else {
            try discount(gone)
            return Count(deliveries: gone.deliveries)
        }
        // Rows that go with their notification need not be discounted from it. Fan-out changes the notification before it makes jobs, and
        // an outcome locks its job before it writes a receipt or a counter, so the later statements find all their rows.
        let removed = try session.pipeline([
            """
            SELECT FROM unnest(\(notifications)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id WHERE n.app_id = \(app.id)
            ORDER BY n.id FOR UPDATE OF n
            """,
            """
            DELETE FROM jobs WHERE (notification, number) IN (
                SELECT j.notification, j.number FROM unnest(\(notifications)::uuid[]) AS e (id) CROSS JOIN LATERAL (
                    SELECT notification, number FROM jobs WHERE app_id = \(app.id) AND notification = e.id ORDER BY number
                ) AS j)
            """,
            """
            DELETE FROM receipts WHERE (notification, number, "position") IN (
                SELECT r.notification, r.number, r."position" FROM unnest(\(notifications)::uuid[]) AS e (id) CROSS JOIN LATERAL (
                    SELECT notification, number, "position" FROM receipts
                    WHERE notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = e.id) ORDER BY number, "position"
                ) AS r)
            """,
            """
            DELETE FROM device_receipts WHERE (notification, number, "position", event) IN (
                SELECT d.notification, d.number, d."position", d.event FROM unnest(\(notifications)::uuid[]) AS e (id) CROSS JOIN LATERAL (
                    SELECT * FROM device_receipts WHERE app_id = \(app.id) AND notification = e.id ORDER BY number
                ) AS d)
            """,
            """
            DELETE FROM notification_variants v USING unnest(\(notifications)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id
            WHERE n.app_id = \(app.id) AND v.notification = n.id
            """,
            "DELETE FROM fan_outs f USING unnest(\(notifications)::uuid[]) AS e (id) WHERE f.app_id = \(app.id) AND f.notification = e.id",
            "DELETE FROM targets t USING unnest(\(notifications)::uuid[]) AS e (id) WHERE t.app_id = \(app.id) AND t.notification = e.id",
            """
            DELETE FROM cancellations c USING unnest(\(notifications)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id
            WHERE n.app_id = \(app.id) AND c.notification = n.id
            """,
            "DELETE FROM idempotency_records WHERE app_id = \(app.id) AND notification = ANY (\(notifications))",
            "DELETE FROM notifications n USING unnest(\(notifications)::uuid[]) AS e (id) WHERE n.app_id = \(app.id) AND n.id = e.id",
        ]).map(\.affected)
        return Count(notifications: removed[9], deliveries: gone.deliveries, idempotencyRecords: removed[8], isDone: true)
    }

    /// Removes receipts of any of the app's notifications.
    /// - Returns: how many were there.
    package func remove(_ receipts: [Key]) throws -> Int {
        guard !receipts.isEmpty else { return 0 }
        var gone = Gone()
        try gone.add(session.execute(removal(of: receipts)))
        try discount(gone)
        return gone.rows
    }

    /// Counts removed deliveries.
    private struct Gone {
        var rows = 0
        /// Deliveries with a final outcome.
        var ended = 0
        /// Deliveries that cannot get their outcome any more, by notification.
        var waiting: [PushID: Int] = [:]

        var deliveries: Int { ended + waiting.values.reduce(0, +) }

        mutating func add(_ removed: PostgresRows) throws {
            for row in removed {
                let notification: PushID = try row["notification"]
                let (count, endedHere, waitingHere): (Int, Int, Int) = (try row["count"], try row["ended"], try row["waiting"])
                rows += count
                ended += endedHere
                if waitingHere > 0 { waiting[notification, default: 0] += waitingHere }
            }
        }
    }

    /// Members with an outcome are counted in their notification.
    private func removal(ofJobs notifications: [PushID], _ numbers: [Int]) -> PostgresQuery {
        """
        WITH locked AS (
            SELECT j.notification, j.number
            FROM unnest(\(notifications)::uuid[], \(numbers)::bigint[]) AS e (notification, number)
            JOIN jobs j ON j.notification = e.notification AND j.number = e.number WHERE j.app_id = \(app.id)
            ORDER BY j.notification, j.number FOR UPDATE OF j
        ), gone AS (
            DELETE FROM jobs j USING locked l WHERE j.notification = l.notification AND j.number = l.number
            RETURNING j.notification, octet_length(j.members) / 8 - bit_count(j.ended) AS waiting
        )
        SELECT notification, count(*) AS count, 0 AS ended, sum(waiting)::bigint AS waiting FROM gone GROUP BY notification
        """
    }

    /// A delivery that is to be tried again still waits in its job without this receipt. One that a replay reopened waits by its receipt
    /// alone.
    private func removal(of receipts: [Key]) -> PostgresQuery {
        """
        WITH locked AS (
            SELECT r.notification, r.number, r."position"
            FROM unnest(\(receipts.map(\.notification))::uuid[], \(receipts.map(\.place.job))::bigint[],
                \(receipts.map(\.place.position))::bigint[]) AS e (notification, number, "position")
            JOIN notifications n ON n.id = e.notification AND n.app_id = \(app.id)
            JOIN receipts r ON r.notification = n.id AND r.number = e.number AND r."position" = e."position"
            ORDER BY r.notification, r.number, r."position" FOR UPDATE OF r
        ), gone AS (
            DELETE FROM receipts r USING locked l
            WHERE r.notification = l.notification AND r.number = l.number AND r."position" = l."position"
            RETURNING r.notification, r.class, r.is_replayed
        )
        SELECT notification, count(*) AS count, count(*) FILTER (WHERE class IS NOT NULL) AS ended,
            count(*) FILTER (WHERE class IS NULL AND is_replayed) AS waiting
        FROM gone GROUP BY notification
        """
    }

    private func discount(_ gone: Gone) throws {
        let notifications = gone.waiting.keys.sorted()
        guard !notifications.isEmpty else { return }
        let lock = RowLock(
            """
            SELECT FROM unnest(\(notifications)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id WHERE n.app_id = \(app.id)
            ORDER BY n.id FOR UPDATE OF n
            """)
        try session.execute(
            """
            UPDATE notifications n SET total = n.total - e.waiting, pending = n.pending - e.waiting,
                state = CASE WHEN e.is_last AND n.state = 'sending' THEN 'completed' ELSE n.state END,
                completed_at = CASE WHEN e.is_last THEN coalesce(n.completed_at, now()) ELSE n.completed_at END
            FROM (
                SELECT e.*, m.pending = e.waiting AND m.state NOT IN ('accepted', 'scheduled', 'expanding') AS is_last
                FROM unnest(\(notifications)::uuid[], \(notifications.map { gone.waiting[$0] ?? 0 })::bigint[]) AS e (id, waiting)
                JOIN notifications m ON m.id = e.id WHERE m.app_id = \(app.id)
            ) AS e WHERE n.id = e.id
            """, under: lock)
    }
}

extension ReceiptRemoval.Key {
    /// - Parameter row: A row of `receipts`.
    init(_ row: PostgresRow) throws { self.init(notification: try row["notification"], place: try DeliveryPlace(row)) }
}
