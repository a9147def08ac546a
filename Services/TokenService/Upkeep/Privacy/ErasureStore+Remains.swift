import Postgres
import PushModel
import TokenServiceApps
import TokenServiceEvents
import TokenServiceKit

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

    /// Those sent to the installations by id, during these times: by the epoch at acceptance. If there was no token to send to, no epoch is
    /// stored, and the time of acceptance decides.
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
    /// Another app may have an installation of the same id, with any number of receipts. So a step reads a bounded number of receipts of any
    /// app, and the next step begins behind them.
    /// - Parameter cursor: The last notification that the step before read.
    /// - Returns: how many receipts this step removed, and the last notification that it read; nil at the end.
    func removeReceipts(of ended: Ended, after cursor: PushID) throws -> (removed: Int, last: PushID?) {
        let rows = try session.execute(
            """
            SELECT r.notification, r.number, r."position", r.owner_epoch >= \(ended.epochsFrom) AND r.owner_epoch < \(ended.epochsBelow) AND (
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

    /// What these installations reported while the user had them. Its counts stay: those that ``DeviceReceiptCounter`` has not come to are put
    /// aside for it.
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
                FROM unnest(\(ended.map(\.installation))::uuid[], \(ended.map(\.historyFrom))::bigint[], \(ended.map(\.historyTo))::bigint[])
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
