import Postgres
import PushModel
import TokenServiceApps
import TokenServiceKit

/// Notifications to lists that name the user, or the user's installations and tokens. Erasure removes the user's entries. If a list has no
/// other entry, it removes the notification.
///
/// If a list has other entries, the jobs that fan-out made of it stay as they are: they hold the ids of tokens, which name no user once the
/// tokens are erased.
extension ErasureStore {
    struct Listing: Sendable {
        /// They name no other user and are still to be removed.
        var only: [PushID] = []
        /// How many were removed from the other ones.
        var entries = 0
        /// The last one that was read; nil at the end.
        var last: PushID?
    }

    /// Removes the user from the next lists of users.
    func leaveUserLists(after cursor: PushID) throws -> Listing {
        try leave(
            """
            SELECT notification, place FROM targets WHERE app_id = \(app.id) AND owner = \(user) AND notification > \(cursor)
            ORDER BY notification FETCH FIRST \(Self.notificationBatch) ROWS WITH TIES
            """)
    }

    /// Removes installations and their tokens from the next lists that were accepted during these times.
    func leaveInstallationLists(_ ended: [Ended], after cursor: PushID) throws -> Listing {
        try leave(
            """
            SELECT DISTINCT t.notification, t.place
            FROM unnest(
                    \(ended.map(\.installation))::uuid[], \(ended.map(\.epochsFrom))::bigint[], \(ended.map(\.epochsBelow))::bigint[])
                AS e (installation, epochs_from, epochs_below)
            JOIN targets t ON t.app_id = \(app.id) AND t.installation = e.installation AND t.owner_epoch >= e.epochs_from
                AND t.owner_epoch < e.epochs_below
            WHERE t.notification > \(cursor)
            ORDER BY t.notification FETCH FIRST \(Self.notificationBatch) ROWS WITH TIES
            """)
    }

    /// - Parameter entries: All that are the user's in the next notifications: notification and place. Notifications are locked, so that if
    ///   two users are erased at the same time, one finds the list without the other.
    private func leave(_ entries: PostgresQuery) throws -> Listing {
        let rows = try session.execute(entries)
        let (notifications, places): ([PushID], [Int32]) = (try rows.column("notification"), try rows.column("place"))
        guard let last = notifications.last else { return Listing() }
        let lock = RowLock(
            """
            SELECT FROM unnest(\(Set(notifications).sorted())::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id AND n.app_id = \(app.id)
            ORDER BY n.id FOR NO KEY UPDATE OF n
            """)
        let left = try session.execute(
            """
            WITH own AS (SELECT * FROM unnest(\(notifications)::uuid[], \(places.map(Int.init))::bigint[]) AS e (notification, place)), page AS (
                SELECT DISTINCT own.notification, NOT EXISTS (
                    SELECT FROM targets t WHERE t.app_id = \(app.id) AND t.notification = own.notification
                        AND NOT EXISTS (SELECT FROM own o WHERE o.notification = t.notification AND o.place = t.place)) AS is_only
                FROM own
            ), left_out AS (
                DELETE FROM targets t USING own, page
                WHERE t.app_id = \(app.id) AND t.notification = own.notification AND t.place = own.place
                    AND page.notification = own.notification AND NOT page.is_only
                RETURNING t.place
            )
            SELECT l.entries, page.notification FROM (SELECT count(*) AS entries FROM left_out) AS l LEFT JOIN page ON page.is_only
            ORDER BY page.notification
            """, under: lock)
        var listing = Listing(last: last)
        for row in left {
            listing.entries = try row["entries"]
            let only: PushID? = try row["notification"]
            if let only { listing.only.append(only) }
        }
        return listing
    }
}
