import Postgres
import PushModel
import TokenServiceApps
import TokenServiceEvents
import TokenServiceKit
import TokenServiceRegistry

/// The SQL that erases one user of one app. Every method is one bounded step.
struct ErasureStore {
    /// History rows that one transaction removes.
    static let historyBatch = 5000
    static let notificationBatch = 100

    let session: PostgresSession
    let app: App
    let user: String

    init(_ session: PostgresSession, app: App, user: String) {
        self.session = session
        self.app = app
        self.user = user
    }

    /// A finished time of the user at an installation, whose history and receipts are not removed yet. Two of one installation may overlap.
    struct Ended: Sendable {
        var installation: PushID
        var epochsFrom: Int64
        var epochsBelow: Int64
        var historyFrom: Int64
        var historyTo: Int64
        /// UNIX milliseconds.
        var beganAt: Int64
        /// UNIX milliseconds.
        var at: Int64
    }

    /// Installations that the user may have left, from the history.
    struct Left: Sendable {
        var installations: [PushID] = []
        /// The last row that was read; nil at the end.
        var last: Int64?
    }

    /// The newest history row; later rows were written after the call began. It waits for a registration of the user that is under way,
    /// which has its rows' numbers already: else the rows would be removed and the registration would stay. A device that registers the
    /// user later needs a credential that is made after this.
    func historyEnd() throws -> Int64 {
        try RegistryStore(session: session).noteSignOut(of: user, app: app)
        return try session.execute("SELECT coalesce(max(id), 0) AS id FROM installation_history").only()["id"]
    }

    /// Whether anything is stored under this name: what an erasure looks for, and what an earlier one has left to remove.
    func isKnown() throws -> Bool {
        try session.execute(
            """
            SELECT EXISTS (SELECT FROM installations WHERE app_id = \(app.id) AND owner = \(user))
                OR EXISTS (SELECT FROM installation_history WHERE app_id = \(app.id) AND owner = \(user))
                OR EXISTS (SELECT FROM erasures WHERE app_id = \(app.id) AND owner = \(user))
                OR EXISTS (SELECT FROM quiet_hours WHERE app_id = \(app.id) AND owner = \(user))
                OR EXISTS (SELECT FROM activities WHERE app_id = \(app.id) AND owned_by = activity_owner(\(user), NULL))
                OR EXISTS (SELECT FROM notifications WHERE app_id = \(app.id) AND target_user = \(user))
                OR EXISTS (SELECT FROM targets WHERE app_id = \(app.id) AND owner = \(user)) AS is_known
            """
        ).only()["is_known"]
    }

    /// Empties the user's next installations, fences them and records the remaining work.
    func endInstallations(after cursor: PushID, limit: Int) throws -> (committed: RegistryStore.Committed, next: PushID?) {
        try RegistryStore(session: session).commitPage(of: user, after: cursor, limit: limit, app: app, also: note) { ids in
            .erase(user: user, installations: ids, left: [])
        }
    }

    /// Empties installations whose last owner was the user.
    func endAbandoned(_ installations: [PushID]) throws -> RegistryStore.Committed {
        try session.execute(RegistryLock.query(RegistryLock.keys(app: app.id, installations: installations, users: [user])))
        let left = Set(try abandoned(among: installations))
        return try RegistryStore(session: session).commit(
            .erase(user: user, installations: installations, left: left), of: app,
            reading: RegistryStore.Needs(app: app.id, installations: installations), also: note)
    }

    /// Records the user's time at these installations, which ends now. It begins where the history last names another user.
    private func note(_ batch: RegistryBatch, _ installations: [PushID]) -> [PostgresQuery] {
        guard !installations.isEmpty else { return [] }
        return [
            """
            INSERT INTO erasures (app_id, owner, installation, epochs_from, epochs_below, history_from, history_to, began_at, ended_at)
            SELECT i.app_id, \(user), i.id, coalesce(before.owner_epoch + 1, 0), i.owner_epoch, coalesce(before.id + 1, 0), coalesce((
                SELECT max(h.id) FROM installation_history h WHERE h.app_id = i.app_id AND h.installation = i.id), 0),
                coalesce(before.at, 'epoch'), \(milliseconds: batch.now)
            FROM installations i LEFT JOIN LATERAL (
                SELECT h.id, h.owner_epoch, h.at FROM installation_history h
                WHERE h.app_id = i.app_id AND h.installation = i.id AND h.owner <> \(user) ORDER BY h.id DESC LIMIT 1
            ) AS before ON true
            WHERE i.app_id = \(app.id) AND i.id = ANY (\(installations))
            ON CONFLICT DO NOTHING
            """
        ]
    }

    /// Reads the next rows of the history that name the user. If one ends the user's time at an installation, records that time.
    func noteLeft(after cursor: Int64, upTo end: Int64, limit: Int) throws -> Left {
        let page = try session.execute(
            """
            SELECT id, installation FROM installation_history
            WHERE app_id = \(app.id) AND owner = \(user) AND id > \(cursor) AND id <= \(end) ORDER BY id LIMIT \(limit)
            """)
        guard let last: Int64 = try page.last?["id"] else { return Left() }
        try session.execute(
            """
            INSERT INTO erasures (app_id, owner, installation, epochs_from, epochs_below, history_from, history_to, began_at, ended_at)
            SELECT app_id, owner, installation, epochs_from, epochs_below, history_from, history_to, began_at, ended_at FROM ended_stays
            WHERE app_id = \(app.id) AND owner = \(user) AND history_to > \(cursor) AND history_to <= \(last)
            ON CONFLICT DO NOTHING
            """)
        return Left(installations: try abandoned(among: Set(page.column("installation")).sorted()), last: last)
    }

    /// Finds the installations without an owner whose last owner the history names as the user.
    private func abandoned(among installations: [PushID]) throws -> [PushID] {
        guard !installations.isEmpty else { return [] }
        return try session.execute(
            """
            SELECT i.id FROM installations i CROSS JOIN LATERAL (
                SELECT h.owner FROM installation_history h
                WHERE h.app_id = i.app_id AND h.installation = i.id AND h.owner IS NOT NULL ORDER BY h.id DESC LIMIT 1
            ) AS last
            WHERE i.app_id = \(app.id) AND i.id = ANY (\(installations)) AND i.owner IS NULL AND last.owner = \(user)
            """
        ).column("id")
    }

    func ended(limit: Int) throws -> [Ended] {
        try session.execute(
            """
            SELECT * FROM erasures WHERE app_id = \(app.id) AND owner = \(user) ORDER BY installation, epochs_below LIMIT \(limit)
            """
        ).map { row in
            Ended(
                installation: try row["installation"], epochsFrom: try row["epochs_from"], epochsBelow: try row["epochs_below"],
                historyFrom: try row["history_from"], historyTo: try row["history_to"], beganAt: try row.milliseconds("began_at"),
                at: try row.milliseconds("ended_at"))
        }
    }

    /// Deletes the erasures that have ended, unless another call has begun one anew meanwhile.
    func finish(_ ended: [Ended]) throws {
        try session.execute(
            """
            DELETE FROM erasures e
            USING unnest(\(ended.map(\.installation))::uuid[], \(ended.map(\.epochsBelow))::bigint[]) AS done (installation, epochs_below)
            WHERE e.app_id = \(app.id) AND e.owner = \(user) AND e.installation = done.installation AND e.epochs_below = done.epochs_below
            """)
    }

    /// Fences of the app's erased installations that the broker has not confirmed, as far as recorded.
    /// - Parameter from: No open fence is older: UNIX milliseconds; see ``LowWater``.
    func openFences(from: Int64 = 0) throws -> [Fence] {
        try session.execute(
            """
            WITH open AS MATERIALIZED (
                SELECT * FROM fences
                WHERE (published_at IS NULL) IS TRUE AND free_from >= \(milliseconds: from) AND app_id = \(app.id) ORDER BY free_from
            )
            SELECT f.id, \(app.slug.text) AS app, f.installation, f.epochs_below, f.created_at
            FROM open f JOIN installations i ON i.app_id = f.app_id AND i.id = f.installation
            WHERE i.signed_out_reason = 'erased' ORDER BY f.free_from LIMIT 500
            """
        ).map { row in try Fence(row) }
    }
}

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
            SELECT FROM unnest(\(Set(notifications).sorted())::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id
                AND n.app_id = \(app.id)
            ORDER BY n.id FOR NO KEY UPDATE OF n
            """)
        let left = try session.execute(
            """
            WITH own AS (SELECT * FROM unnest(\(notifications)::uuid[], \(places.map(Int.init))::bigint[]) AS e (notification, place)),
                page AS (
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

/// The data of the user's times at installations: notifications, receipts and history.
extension ErasureStore {
    func notificationsToUser(after cursor: PushID) throws -> [PushID] {
        try session.execute(
            """
            SELECT id FROM notifications WHERE app_id = \(app.id) AND target_user = \(user) AND id > \(cursor)
            ORDER BY id LIMIT \(Self.notificationBatch)
            """
        ).column("id")
    }

    /// Finds notifications sent to the installations by id, during these times: by the epoch at acceptance. If there was no token to send
    /// to, no epoch is stored, and the time of acceptance decides.
    func notifications(to ended: [Ended]) throws -> [PushID] {
        try session.execute(
            """
            SELECT DISTINCT n.id
            FROM unnest(\(ended.map(\.installation))::uuid[], \(ended.map(\.epochsFrom))::bigint[], \(ended.map(\.epochsBelow))::bigint[],
                    \(milliseconds: ended.map(\.beganAt))::timestamptz[], \(milliseconds: ended.map(\.at))::timestamptz[])
                AS e (installation, epochs_from, epochs_below, began_at, ended_at)
            JOIN notifications n ON n.app_id = \(app.id) AND n.target_installation = e.installation
            WHERE n.target_epoch >= e.epochs_from AND n.target_epoch < e.epochs_below
                OR n.target_epoch IS NULL AND n.accepted_at BETWEEN e.began_at AND e.ended_at
            ORDER BY n.id LIMIT \(Self.notificationBatch)
            """
        ).column("id")
    }

    /// A delivery that is under way stays a member of its job, which names its token alone, and ends by itself. If the token is erased, the
    /// outcome leaves no receipt.
    ///
    /// Another app may have an installation of the same id, with any number of receipts. So a step reads a bounded number of receipts of
    /// any app, and the next step begins behind them.
    /// - Parameter cursor: The last notification that the step before read.
    /// - Returns: how many receipts this step removed, and the last notification that it read; nil at the end.
    func removeReceipts(of ended: Ended, after cursor: PushID) throws -> (removed: Int, last: PushID?) {
        let rows = try session.execute(
            """
            SELECT r.notification, r.number, r."position", r.owner_epoch >= \(ended.epochsFrom) AND r.owner_epoch < \(ended.epochsBelow)
                AND (
                SELECT count(*) > 0 FROM notifications n WHERE n.app_id = \(app.id) AND n.id = r.notification) AS is_theirs
            FROM (
                SELECT notification, number, "position", owner_epoch FROM receipts
                WHERE installation = \(ended.installation) AND notification > \(cursor)
                ORDER BY notification FETCH FIRST \(ReceiptRemoval.batch) ROWS WITH TIES
            ) AS r ORDER BY r.notification
            """)
        let theirs = try rows.filter { row in try row["is_theirs"] }.map { row in try ReceiptRemoval.Key(row) }
        let last: PushID? = try rows.last?["notification"]
        return (removed: try ReceiptRemoval(session: session, app: app).remove(theirs), last: last)
    }

    /// What these installations reported while the user had them. Its counts stay: those that ``DeviceReceiptCounter`` has not come to are
    /// put aside for it.
    func removeDeviceReceipts(of ended: [Ended]) throws -> RemovalStep {
        let row = try session.execute(
            """
            WITH found AS (
                SELECT r.notification, r.number, r."position", r.event
                FROM unnest(
                        \(ended.map(\.installation))::uuid[], \(ended.map(\.epochsFrom))::bigint[],
                        \(ended.map(\.epochsBelow))::bigint[])
                    AS e (installation, epochs_from, epochs_below)
                JOIN device_receipts r ON r.app_id = \(app.id) AND r.installation = e.installation
                    AND r.owner_epoch >= e.epochs_from AND r.owner_epoch < e.epochs_below
                LIMIT \(ReceiptRemoval.batch)
            ), gone AS (
                DELETE FROM device_receipts WHERE (notification, number, "position", event) IN (
                    SELECT notification, number, "position", event FROM found)
                RETURNING notification, event, id
            ), aside AS (
                INSERT INTO counts_to_add AS c (notification, shown, opened, dismissed)
                SELECT notification, count(*) FILTER (WHERE event = 'shown'), count(*) FILTER (WHERE event = 'opened'),
                    count(*) FILTER (WHERE event = 'dismissed')
                FROM gone WHERE id > (SELECT position FROM event_feeds WHERE log = 'device_receipts' AND sink = 'counts')
                GROUP BY notification
                ON CONFLICT (notification) DO UPDATE
                SET shown = c.shown + excluded.shown, opened = c.opened + excluded.opened, dismissed = c.dismissed + excluded.dismissed
            )
            SELECT (SELECT count(*) FROM found) AS found, (SELECT count(*) FROM gone) AS removed
            """, under: RowLock(DeviceReceiptCounts.counterLock)
        ).only()
        return try RemovalStep(row, limit: ReceiptRemoval.batch)
    }

    func removeHistory(of ended: [Ended]) throws -> RemovalStep {
        let row = try session.execute(
            """
            WITH found AS (
                SELECT h.id, h.at
                FROM unnest(\(ended.map(\.installation))::uuid[], \(ended.map(\.historyFrom))::bigint[],
                    \(ended.map(\.historyTo))::bigint[])
                    AS e (installation, history_from, history_to)
                JOIN installation_history h ON h.app_id = \(app.id) AND h.installation = e.installation
                    AND h.id BETWEEN e.history_from AND e.history_to
                LIMIT \(Self.historyBatch)
            ), removed AS (
                DELETE FROM installation_history WHERE (id, at) IN (SELECT id, at FROM found) RETURNING id
            )
            SELECT (SELECT count(*) FROM found) AS found, (SELECT count(*) FROM removed) AS removed
            """
        ).only()
        return try RemovalStep(row, limit: Self.historyBatch)
    }

    /// Lines of other installations' histories that name the user.
    func removeHistory(namingUserUpTo end: Int64) throws -> RemovalStep {
        let row = try session.execute(
            """
            WITH found AS (
                SELECT id, at FROM installation_history WHERE app_id = \(app.id) AND owner = \(user) AND id <= \(end)
                ORDER BY id LIMIT \(Self.historyBatch)
            ), removed AS (
                DELETE FROM installation_history WHERE (id, at) IN (SELECT id, at FROM found) RETURNING id
            )
            SELECT (SELECT count(*) FROM found) AS found, (SELECT count(*) FROM removed) AS removed
            """
        ).only()
        return try RemovalStep(row, limit: Self.historyBatch)
    }
}
