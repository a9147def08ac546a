package import Postgres
package import PushModel
import TokenServiceApps

extension NotificationReading {
    /// Several statements: the transaction must be of isolation `.repeatableRead`.
    /// - Returns: nil where the app has no such notification.
    package func status(of id: PushID) throws -> NotificationStatus? {
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
            outcomes(of: id), firstDeliveries(of: id, isWithMembers: receipts == .all && pending > 0),
        ])
        let reasons = try answers[0].map { row in
            NotificationStatus.Reason(
                outcome: try row["class"], status: try row["status"], reason: try row["reason"], count: try row["count"])
        }
        var counts = ["pending": pending]
        for reason in reasons { counts[reason.outcome, default: 0] += reason.count }
        return NotificationStatus(
            receipt: receipt, target: try NotificationAddress(row), receipts: receipts, total: total, state: try row["state"],
            notBefore: try row.milliseconds("not_before"), localTime: try row["local_text"],
            completedAt: try row.milliseconds("completed_at"), cancelledAt: try row.milliseconds("cancelled_at"),
            cancelReason: try row["cancel_reason"], counts: counts, reasons: reasons, pending: pending,
            deviceReceipts: try row["device_receipts"]
                ? [.shown: row["shown"], .opened: row["opened"], .dismissed: row["dismissed"]] : nil,
            deliveries: try answers[1].map { row in try NotificationStatus.Delivery(row, token: row["token"]) })
    }

    private func outcomes(of notification: PushID) -> PostgresQuery {
        """
        SELECT o.class, o.status, o.reason, o.count FROM notifications n CROSS JOIN LATERAL unnest(n.outcomes) AS o
        WHERE n.app_id = \(app.id) AND n.id = \(notification) ORDER BY o.count DESC, o.class, o.status, o.reason
        """
    }

    /// Of the first receipts and jobs: a notification may have millions.
    /// - Parameter isWithMembers: Also those that are under way without a receipt.
    private func firstDeliveries(of notification: PushID, isWithMembers: Bool) -> PostgresQuery {
        """
        SELECT d.*, t.token
        FROM (
            (
                SELECT number, "position" FROM receipts WHERE notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = \(notification))
                ORDER BY number, "position" LIMIT \(NotificationStatus.maximumDeliveries)
            ) UNION (
                SELECT open.number, m."position"
                FROM (
                    SELECT number, j AS job FROM jobs j WHERE notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = \(notification)) AND \(isWithMembers)
                    ORDER BY number LIMIT \(NotificationStatus.maximumDeliveries)
                ) AS open CROSS JOIN LATERAL members_of(open.job) AS m
                WHERE bit_count((open.job).settled) < octet_length((open.job).members) / 8 AND NOT m.is_settled
                ORDER BY open.number, m."position" LIMIT \(NotificationStatus.maximumDeliveries)
            )
        ) AS place
        CROSS JOIN LATERAL (
            SELECT * FROM deliveries
            WHERE notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = \(notification)) AND number = place.number AND "position" = place."position" LIMIT 1
        ) AS d
        LEFT JOIN tokens t ON t.id = d.token_id
        ORDER BY d.class NULLS FIRST, d.number, d."position" LIMIT \(NotificationStatus.maximumDeliveries)
        """
    }
}

extension NotificationStatus.Delivery {
    /// - Parameter row: Of `deliveries`.
    package init(_ row: PostgresRow, token: DeviceToken? = nil) throws {
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
