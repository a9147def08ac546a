package import Postgres
package import PushModel

extension NotificationStatus {
    /// Several statements: the transaction must be of isolation `.repeatableRead`.
    /// - Returns: nil where the app has no such notification.
    package static func find(_ id: PushID, app: App, in session: PostgresSession) throws -> NotificationStatus? {
        guard let row = try session.execute(select, [.int64(app.id), .id(id)]).first,
            let lane = Lane(rawValue: try row.text(1)), let type = PushType(rawValue: try row.text(2)),
            let receipts = NotificationRequest.Receipts(rawValue: try row.text(9)), let target = try NotificationAddress(row, from: 10)
        else { return nil }
        let receipt = NotificationReceipt(
            id: id, app: app.slug, lane: lane, pushType: type, deliveries: try row.bool(8) ? nil : Int(try row.int32(3)),
            acceptedAt: try row.timestampMilliseconds(5), expiresAt: try row.timestampMilliseconds(6))
        var reasons = try session.execute(receipts == .failures ? countOfChunks : count, [.id(id)]).map { row in
            Reason(
                outcome: try row.optionalText(0) ?? "pending", status: try row.optionalInt32(1).map { Int($0) },
                reason: try row.optionalText(2), count: Int(try row.int64(3)))
        }
        var counts: [String: Int] = [:]
        for reason in reasons { counts[reason.outcome, default: 0] += reason.count }
        reasons.removeAll { $0.outcome == "pending" }
        if receipts == .failures { counts["pending"] = Int(try row.int32(4)) }
        let deliveries = try session.execute(selectDeliveries, [.id(id), .int64(Int64(maximumDeliveries))])
        return NotificationStatus(
            receipt: receipt, target: target, receipts: receipts, total: Int(try row.int32(3)), state: try row.text(0),
            notBefore: try row.optionalTimestampMilliseconds(17), localTime: try row.optionalText(18),
            completedAt: try row.optionalTimestampMilliseconds(7), cancelledAt: try row.optionalTimestampMilliseconds(19),
            cancelReason: try row.optionalText(20),
            counts: counts, reasons: reasons,
            pending: counts["pending"] ?? 0, deliveries: try deliveries.map { row in try Self.delivery(row) })
    }

    /// Columns: those of the statements that read deliveries.
    static func delivery(_ row: PostgresRow) throws -> Delivery {
        var attempt: Attempt?
        if let outcome = try row.optionalText(8) {
            attempt = Attempt(
                outcome: outcome, status: try row.optionalInt32(9).map { Int($0) }, reason: try row.optionalText(10),
                at: try row.optionalTimestampMilliseconds(11), retryAt: try row.optionalTimestampMilliseconds(12))
        }
        let outcome = try row.optionalText(4)
        // What was put back without having been tried has the number of the try that is to come.
        let isPutBack = outcome == nil && attempt?.wasTried == false
        return Delivery(
            id: try row.id(0), installation: try row.id(1), token: try row.optionalBytes(2).flatMap { DeviceToken(bytes: $0) },
            environment: try row.text(3), outcome: outcome, status: try row.optionalInt32(5).map { Int($0) },
            reason: try row.optionalText(6), attempts: max(0, Int(try row.int32(7)) - (isPutBack ? 1 : 0)), lastAttempt: attempt,
            updatedAt: try row.timestampMilliseconds(13))
    }

    private static let select: PostgresStatement = """
        SELECT state, lane, push_type, total, pending, accepted_at, expires_at, completed_at, is_walked, receipts,
            target_user, target_installation, cardinality(target_users), cardinality(target_installations), cardinality(target_tokens),
            target_tags, coalesce(target_all, false), not_before, to_char(local_time, 'YYYY-MM-DD"T"HH24:MI'), cancelled_at, cancel_reason
        FROM notifications WHERE app_id = $1 AND id = $2
        """
    private static let count: PostgresStatement = """
        SELECT class, status::int, reason, count(*) FROM deliveries WHERE notification = $1
        GROUP BY class, status, reason ORDER BY count(*) DESC, class, status, reason
        """
    private static let countOfChunks: PostgresStatement = """
        SELECT class, nullif(status, 0)::int, nullif(reason, ''), count FROM notification_counts
        -- A replay leaves rows of nothing behind.
        WHERE notification = $1 AND count > 0
        ORDER BY count DESC, class, status, reason
        """
    private static let selectDeliveries: PostgresStatement = """
        SELECT d.id, d.installation, t.token, d.environment, d.class, d.status, d.reason, d.attempts,
            d.last_class, d.last_status, d.last_reason, d.last_at, d.retry_at, d.updated_at
        FROM (SELECT * FROM deliveries WHERE notification = $1 ORDER BY class NULLS FIRST, token_id LIMIT $2) AS d
        LEFT JOIN tokens t ON t.id = d.token_id
        ORDER BY d.class NULLS FIRST, d.token_id
        """
}
