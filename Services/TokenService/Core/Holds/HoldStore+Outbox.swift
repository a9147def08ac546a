import Postgres
package import PushModel

/// What is due and held stays in the outbox, out of the way of whoever looks for work there.
extension HoldStore {
    /// Keeps the holds that are in force from being lifted before the transaction ends. To come before ``putAside(notifications:)`` and
    /// ``putAside(chunks:)``, in their transaction.
    package func lockInForce() throws {
        try session.execute(Self.lockInForce)
    }

    /// Of notifications that this transaction has claimed, puts aside those that a hold keeps: until it ends, or they expire.
    /// - Returns: those.
    package func putAside(notifications: [PushID]) throws -> Set<PushID> {
        guard !notifications.isEmpty else { return [] }
        return Set(try session.execute(Self.putNotificationsAside, [.ids(notifications)]).map { row in try row.id(0) })
    }

    /// The same for chunks.
    package func putAside(chunks: [ChunkID]) throws -> Set<ChunkID> {
        guard !chunks.isEmpty else { return [] }
        return Set(
            try session.execute(Self.putChunksAside, ChunkID.columns(chunks)).map { row in
                ChunkID(notification: try row.id(0), number: Int(try row.int32(1)))
            })
    }

    /// Gives back some of what a lifted hold kept, to whoever looks for work; another hold may put it aside again.
    /// - Returns: how much; less than `limit` when it was the rest.
    package func release(_ hold: PushID, limit: Int) throws -> Int {
        let parameters: [PostgresValue] = [.id(hold), .int64(Int64(limit))]
        let answers = try session.pipeline([
            (Self.releaseNotifications, parameters), (Self.releaseChunks, parameters), (Self.markReleased, [.id(hold)]),
        ])
        return max(answers[0].affected, answers[1].affected)
    }

    private static let lockInForce: PostgresStatement =
        "SELECT id FROM holds WHERE lifted_at IS NULL AND ends_at > now() ORDER BY id FOR SHARE"
    private static let putNotificationsAside: PostgresStatement = """
        UPDATE notifications n SET held_by = h.id, free_from = least(n.expires_at, h.ends_at)
        FROM (
            SELECT m.id AS notification, o.id, o.ends_at FROM notifications m CROSS JOIN LATERAL (
                SELECT h.id, h.ends_at FROM holds h
                WHERE h.lifted_at IS NULL AND h.ends_at > now() AND (h.app_id IS NULL OR h.app_id = m.app_id)
                    AND (h.lane IS NULL OR h.lane = m.lane) AND (h.notification IS NULL OR h.notification = m.id)
                ORDER BY h.ends_at DESC, h.id LIMIT 1
            ) AS o
            -- What is over has only to be published.
            WHERE m.id = ANY ($1::uuid[]) AND m.cancelled_at IS NULL AND m.completed_at IS NULL AND m.expires_at > now()
        ) AS h
        WHERE n.id = h.notification RETURNING n.id
        """
    private static let putChunksAside: PostgresStatement = """
        UPDATE chunks c SET held_by = h.id, lease_until = least(h.expiry, h.ends_at)
        FROM (
            SELECT d.notification, d.number, d.expiry, o.id, o.ends_at FROM (
                SELECT e.notification, e.number, n.app_id, n.lane,
                    least(n.expires_at, k.due_at + n.lifetime_ms * interval '1 millisecond') AS expiry
                FROM unnest($1::uuid[], $2::int[]) AS e (notification, number)
                JOIN chunks k ON k.notification = e.notification AND k.number = e.number
                JOIN notifications n ON n.id = e.notification
                WHERE n.cancelled_at IS NULL
            ) AS d CROSS JOIN LATERAL (
                SELECT h.id, h.ends_at FROM holds h
                WHERE h.lifted_at IS NULL AND h.ends_at > now() AND (h.app_id IS NULL OR h.app_id = d.app_id)
                    AND (h.lane IS NULL OR h.lane = d.lane) AND (h.notification IS NULL OR h.notification = d.notification)
                ORDER BY h.ends_at DESC, h.id LIMIT 1
            ) AS o
            WHERE d.expiry > now()
        ) AS h
        WHERE c.notification = h.notification AND c.number = h.number RETURNING c.notification, c.number
        """
    private static let releaseNotifications: PostgresStatement = """
        WITH locked AS (
            SELECT id FROM notifications WHERE held_by = $1 AND published_at IS NULL ORDER BY id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED
        )
        UPDATE notifications n SET held_by = NULL, free_from = now() FROM locked WHERE n.id = locked.id
        """
    private static let releaseChunks: PostgresStatement = """
        WITH locked AS (
            SELECT notification, number FROM chunks WHERE held_by = $1 AND published_at IS NULL
            ORDER BY notification, number LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED
        )
        UPDATE chunks c SET held_by = NULL, lease_until = now() FROM locked l
        WHERE c.notification = l.notification AND c.number = l.number
        """
    private static let markReleased: PostgresStatement = """
        UPDATE holds SET released_at = now()
        WHERE id = $1 AND lifted_at IS NOT NULL AND released_at IS NULL
            AND NOT EXISTS (SELECT FROM notifications WHERE held_by = $1 AND published_at IS NULL)
            AND NOT EXISTS (SELECT FROM chunks WHERE held_by = $1 AND published_at IS NULL)
        """
}
