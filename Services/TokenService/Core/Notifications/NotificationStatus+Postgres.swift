package import Postgres
package import PushModel

extension NotificationStatus {
    /// Several statements: the transaction must be of isolation `.repeatableRead`.
    /// - Returns: nil where the app has no such notification.
    package static func find(_ id: PushID, app: App, in session: PostgresSession) throws -> NotificationStatus? {
        let found = try session.execute("SELECT * FROM notification_records WHERE app_id = \(app.id) AND id = \(id)")
        guard let row = found.first else { return nil }
        let (receipts, total, pending): (NotificationRequest.Receipts, Int, Int) = (
            try row["receipts"], try row["total"], try row["pending"]
        )
        let receipt = NotificationReceipt(
            id: id, app: app.slug, lane: try row["lane"], pushType: try row["push_type"],
            deliveries: try row["is_fanned_out"] ? nil : total,
            acceptedAt: try row.milliseconds("accepted_at"), expiresAt: try row.milliseconds("expires_at"))
        let answers = try session.pipeline([
            receipts == .all ? countsOfReceipts(id) : counters(id), firstDeliveries(of: id, isWithMembers: receipts == .all && pending > 0),
            DeviceReceiptStore.counts(of: id),
        ])
        let reasons = try answers[0].map { row in
            Reason(outcome: try row["class"], status: try row["status"], reason: try row["reason"], count: try row["count"])
        }
        var counts = ["pending": pending]
        for reason in reasons { counts[reason.outcome, default: 0] += reason.count }
        return NotificationStatus(
            receipt: receipt, target: try NotificationAddress(row), receipts: receipts, total: total, state: try row["state"],
            notBefore: try row.milliseconds("not_before"), localTime: try row["local_text"],
            completedAt: try row.milliseconds("completed_at"), cancelledAt: try row.milliseconds("cancelled_at"),
            cancelReason: try row["cancel_reason"], counts: counts, reasons: reasons, pending: pending,
            deviceReceipts: try row["device_receipts"] ? Self.deviceReceipts(answers[2]) : nil,
            deliveries: try answers[1].map { row in try Delivery(row, token: row["token"]) })
    }

    private static func deviceReceipts(_ rows: PostgresRows) throws -> [DeviceReceipt.Event: Int] {
        var counts: [DeviceReceipt.Event: Int] = [:]
        for row in rows { counts[try row["event"]] = try row["count"] as Int }
        return counts
    }

    private static func countsOfReceipts(_ notification: PushID) -> PostgresQuery {
        """
        SELECT class, status, reason, count(*) AS count FROM receipts WHERE notification = \(notification) AND class IS NOT NULL
        GROUP BY class, status, reason ORDER BY count(*) DESC, class, status, reason
        """
    }

    /// A replay leaves rows of nothing behind.
    private static func counters(_ notification: PushID) -> PostgresQuery {
        """
        SELECT class, nullif(status, 0) AS status, nullif(reason, '') AS reason, count FROM notification_counts c
        WHERE notification = \(notification) AND count > 0
        ORDER BY count DESC, c.class, c.status, c.reason
        """
    }

    /// - Parameter isWithMembers: Also those that are under way without a receipt. A job that is not settled has at least one of them, so the
    ///   statement opens no more jobs than it lists deliveries.
    private static func firstDeliveries(of notification: PushID, isWithMembers: Bool) -> PostgresQuery {
        """
        SELECT d.*, t.token
        FROM (
            (
                SELECT number, "position" FROM receipts WHERE notification = \(notification)
                ORDER BY class NULLS FIRST, number, "position" LIMIT \(maximumDeliveries)
            ) UNION (
                SELECT open.number, m."position"
                FROM (
                    SELECT number, j AS job FROM jobs j
                    WHERE notification = \(notification) AND \(isWithMembers) AND bit_count(settled) < octet_length(members) / 8
                    ORDER BY number LIMIT \(maximumDeliveries)
                ) AS open CROSS JOIN LATERAL members_of(open.job) AS m
                WHERE NOT m.is_settled ORDER BY open.number, m."position" LIMIT \(maximumDeliveries)
            )
        ) AS place
        CROSS JOIN LATERAL (
            SELECT * FROM deliveries
            WHERE notification = \(notification) AND number = place.number AND "position" = place."position" LIMIT 1
        ) AS d
        LEFT JOIN tokens t ON t.id = d.token_id
        ORDER BY d.class NULLS FIRST, d.number, d."position" LIMIT \(maximumDeliveries)
        """
    }
}

extension NotificationStatus.Delivery {
    /// - Parameter row: Of `deliveries`.
    init(_ row: PostgresRow, token: DeviceToken? = nil) throws {
        let (outcome, attempts): (String?, Int) = (try row["class"], try row["attempts"])
        let attempt = try NotificationStatus.Attempt(row)
        // A delivery that was put back without an attempt has the number of the coming attempt.
        let isPutBack = outcome == nil && attempt?.wasTried == false
        self.init(
            id: try row["id"], installation: try row["installation"], token: token, environment: try row["environment"], outcome: outcome,
            status: try row["status"], reason: try row["reason"], attempts: max(0, attempts - (isPutBack ? 1 : 0)), lastAttempt: attempt,
            apnsUniqueID: try row["apns_unique_id"], shownAt: try row.milliseconds("shown_at"),
            openedAt: try row.milliseconds("opened_at"), dismissedAt: try row.milliseconds("dismissed_at"),
            updatedAt: try row.milliseconds("updated_at"))
    }
}

extension NotificationStatus.Attempt {
    /// - Parameter row: Of `deliveries`.
    fileprivate init?(_ row: PostgresRow) throws {
        guard let outcome: String = try row["last_class"] else { return nil }
        self.init(
            outcome: outcome, status: try row["last_status"], reason: try row["last_reason"], at: try row.milliseconds("last_at"),
            retryAt: try row.milliseconds("retry_at"))
    }
}
