import Postgres
import PushModel
import TokenServiceApps

/// The idempotency keys that an app's callers have used.
struct IdempotencyRecords {
    let session: PostgresSession
    let app: App

    init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    /// The result of the key's use today or yesterday, UTC: ``NotificationStore/Insertion/replay(_:)``,
    /// ``NotificationStore/Insertion/mismatch``, or nil.
    func earlier(_ idempotency: IdempotencyKey) throws -> NotificationStore.Insertion? {
        try session.execute(select(idempotency)).first.map { row in try insertion(row, of: idempotency) }
    }

    /// The use of the key by an earlier transaction. Its record is there, and so is its notification: the claim of the key locked the record,
    /// and both are removed together.
    func claimedEarlier(_ idempotency: IdempotencyKey) throws -> NotificationStore.Insertion {
        try insertion(session.execute(select(idempotency)).only(), of: idempotency)
    }

    private func insertion(_ row: PostgresRow, of idempotency: IdempotencyKey) throws -> NotificationStore.Insertion {
        let fingerprint: [UInt8] = try row["fingerprint"]
        return fingerprint == idempotency.fingerprint ? .replay(try receipt(row)) : .mismatch
    }

    /// - Parameter row: Of ``select(_:)``.
    private func receipt(_ row: PostgresRow) throws -> NotificationReceipt {
        let (total, isFannedOut): (Int32, Bool) = (try row["total"], try row["is_fanned_out"])
        return NotificationReceipt(
            id: try row["id"], app: app.slug, lane: try row["lane"], pushType: try row["push_type"],
            deliveries: isFannedOut ? nil : Int(total), isScheduled: try row["is_scheduled"],
            acceptedAt: try row.milliseconds("accepted_at"),
            expiresAt: try row.milliseconds("expires_at"), warnings: try NotificationWarning.restored(row["warnings"]))
    }

    /// The earlier use of a key. A key that was first used in the first minutes of a day has two records, of the same notification.
    func select(_ idempotency: IdempotencyKey) -> PostgresQuery {
        """
        SELECT r.fingerprint, n.id, n.lane, n.push_type, n.total, n.accepted_at, n.expires_at, n.is_fanned_out,
            (coalesce(n.not_before, n.local_text::timestamp AT TIME ZONE 'Etc/GMT-14') > n.accepted_at) IS TRUE AS is_scheduled, r.warnings
        FROM idempotency_records r JOIN notification_records n ON n.id = r.notification
        WHERE r.app_id = \(app.id) AND r.api_key_id = \(idempotency.caller) AND r.key = \(idempotency.key)
            AND r.day >= date_trunc('day', now(), 'UTC') - interval '24 hours'
        ORDER BY r.day DESC LIMIT 1
        """
    }
}
