package import Postgres
import PushModel
import TokenServiceKit

/// Adds device receipts to the counts of their notifications: for every app, in the order of their numbers. It takes nothing from a
/// request.
package struct DeviceReceiptCounts {
    private let session: PostgresSession

    init(session: PostgresSession) { self.session = session }

    /// The number of the last receipt that is added, or put aside.
    func countedPosition() throws -> Int64 {
        try session.execute("SELECT position FROM event_feeds WHERE log = 'device_receipts' AND sink = 'counts'").only()["position"]
    }

    /// Every transaction that writes `counts_to_add` locks this row before.
    package static var counterLock: PostgresQuery {
        "SELECT FROM event_feeds WHERE log = 'device_receipts' AND sink = 'counts' FOR NO KEY UPDATE"
    }

    /// Adds the receipts of these numbers to their notifications, or to what is put aside of them already.
    func add(after position: Int64, through end: Int64) throws {
        try advance(from: position, to: end)
        let new = try session.execute(
            """
            SELECT notification, count(*) FILTER (WHERE event = 'shown') AS shown, count(*) FILTER (WHERE event = 'opened') AS opened,
                count(*) FILTER (WHERE event = 'dismissed') AS dismissed
            FROM device_receipts WHERE id > \(position) AND id <= \(end) GROUP BY notification
            """
        ).map { row in try Counts(row) }
        guard !new.isEmpty else { return }
        let joined: [PushID] = try session.execute(
            """
            UPDATE counts_to_add c SET shown = c.shown + e.shown, opened = c.opened + e.opened, dismissed = c.dismissed + e.dismissed
            FROM unnest(\(new.map(\.notification))::uuid[], \(new.map(\.shown))::bigint[], \(new.map(\.opened))::bigint[],
                    \(new.map(\.dismissed))::bigint[]) AS e (id, shown, opened, dismissed)
            WHERE c.notification = e.id RETURNING c.notification
            """
        ).column("notification")
        let known = Set(joined)
        try add(new.filter { !known.contains($0.notification) })
    }

    /// Puts the counts of these receipts aside. It locks no notification.
    func putAside(after position: Int64, through end: Int64) throws {
        try advance(from: position, to: end)
        try session.execute(
            """
            INSERT INTO counts_to_add AS c (notification, shown, opened, dismissed)
            SELECT notification, count(*) FILTER (WHERE event = 'shown'), count(*) FILTER (WHERE event = 'opened'),
                count(*) FILTER (WHERE event = 'dismissed')
            FROM device_receipts WHERE id > \(position) AND id <= \(end) GROUP BY notification
            ON CONFLICT (notification) DO UPDATE
            SET shown = c.shown + excluded.shown, opened = c.opened + excluded.opened, dismissed = c.dismissed + excluded.dismissed
            """)
    }

    /// Notifications with counts that were put aside.
    func aside(limit: Int) throws -> [PushID] {
        try session.execute("SELECT notification FROM counts_to_add ORDER BY notification LIMIT \(limit)").column("notification")
    }

    /// Receipts that were put aside.
    func asideCount() throws -> Int64 {
        try session.execute("SELECT coalesce(sum(shown + opened + dismissed), 0)::bigint AS count FROM counts_to_add").only()["count"]
    }

    /// Adds what was put aside of these notifications. Counts of a notification that is gone go with it.
    func addAside(_ notifications: [PushID]) throws {
        let counts = try session.execute(
            "DELETE FROM counts_to_add WHERE notification = ANY (\(notifications)) RETURNING notification, shown, opened, dismissed",
            under: RowLock(Self.counterLock))
        try add(counts.map { row in try Counts(row) })
    }

    /// - Throws: ``LeaseLost`` if another process has advanced it meanwhile, as one may that stood still and has the lease again.
    private func advance(from position: Int64, to end: Int64) throws {
        let advanced = try session.execute(
            "UPDATE event_feeds SET position = \(end) WHERE log = 'device_receipts' AND sink = 'counts' AND position = \(position)")
        guard advanced.affected == 1 else { throw LeaseLost() }
    }

    /// Locks the notifications in the order of outcomes. It waits for each less long than other statements do: an erasure may wait for this
    /// transaction.
    private func add(_ counts: [Counts]) throws {
        guard !counts.isEmpty else { return }
        let ids = counts.map(\.notification)
        try session.pipeline([
            "SELECT set_config('lock_timeout', '250ms', true)",
            "SELECT FROM unnest(\(ids)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id ORDER BY n.id FOR NO KEY UPDATE OF n",
            """
            UPDATE notifications n SET shown = n.shown + e.shown, opened = n.opened + e.opened, dismissed = n.dismissed + e.dismissed
            FROM unnest(\(ids)::uuid[], \(counts.map(\.shown))::bigint[], \(counts.map(\.opened))::bigint[],
                    \(counts.map(\.dismissed))::bigint[]) AS e (id, shown, opened, dismissed)
            WHERE n.id = e.id
            """,
        ])
    }

    /// Receipts of one notification.
    private struct Counts {
        var notification: PushID
        var shown: Int64
        var opened: Int64
        var dismissed: Int64

        init(_ row: PostgresRow) throws {
            (notification, shown, opened, dismissed) = (
                try row["notification"], try row["shown"], try row["opened"], try row["dismissed"]
            )
        }
    }
}
