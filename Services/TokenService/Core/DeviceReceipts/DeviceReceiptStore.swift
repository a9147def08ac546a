package import Postgres
package import PushModel

/// The SQL of device receipts, within one transaction.
package struct DeviceReceiptStore {
    /// Days after the publication of its job in which a receipt counts. APNs keeps a notification for 30 days at most.
    package static let patienceDays = 30

    let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// The receipts of one installation.
    package struct Report: Sendable {
        package var app: App.ID
        package var installation: PushID
        package var receipts: [DeviceReceipt]

        package init(app: App.ID, installation: PushID, receipts: [DeviceReceipt]) {
            self.app = app
            self.installation = installation
            self.receipts = receipts
        }
    }

    /// Counts receipts, each once. ``DeviceReceiptCounter`` adds them to their notifications.
    ///
    /// A job's message names the job, so the statement finds the delivery among the job's members, without an index: the one whose token
    /// the installation has. An installation may have a token for each environment there; then it is the live one. An installation with
    /// hundreds of tokens costs twice as much as another one, so it needs no transaction of its own. The statement reads tokens and writes
    /// receipts, as outcomes do, so an erasure waits for it (``ErasureBarrier``).
    /// - Returns: One result for each receipt of each report, in their order.
    package func count(_ reports: [Report]) throws -> [[DeviceReceipt.Result]] {
        let rows = reports.enumerated().flatMap { index, report in report.receipts.map { (index: index, report: report, receipt: $0) } }
        guard !rows.isEmpty else { return reports.map { _ in [] } }
        let answers = try session.execute(
            """
            WITH reported AS (
                SELECT * FROM unnest(\(Array(rows.indices))::bigint[], \(rows.map(\.report.app))::bigint[],
                        \(rows.map(\.report.installation))::uuid[], \(rows.map(\.receipt.job.notification))::uuid[],
                        \(rows.map(\.receipt.job.number))::bigint[], \(rows.map(\.receipt.event.rawValue))::text[],
                        \(milliseconds: rows.map(\.receipt.at))::timestamptz[])
                    AS e (index, app, installation, notification, number, event, at)
            ), asked AS MATERIALIZED (
                -- The members of a job are read once, whoever reports it.
                SELECT e.*, j.published_at, ARRAY(SELECT m.token_id FROM members_of(j) AS m ORDER BY m."position") AS members
                FROM (
                    SELECT app, notification, number, array_agg(index) AS indices, array_agg(installation) AS installations,
                        array_agg(event) AS events, array_agg(at) AS moments
                    FROM reported GROUP BY app, notification, number
                ) AS e
                JOIN notifications n ON n.id = e.notification AND n.app_id = e.app AND n.device_receipts
                JOIN jobs j ON j.notification = n.id AND j.number = e.number AND j.published_at IS NOT NULL
            ), found AS (
                SELECT r.index, a.app, r.installation, i.owner_epoch, a.notification, a.number, m."position", r.event,
                    least(greatest(r.at, a.published_at), now()) AS at,
                    a.published_at < now() - \(Self.patienceDays) * interval '1 day' AS is_late
                FROM asked a
                CROSS JOIN LATERAL unnest(a.indices, a.installations, a.events, a.moments) AS r (index, installation, event, at)
                JOIN installations i ON i.app_id = a.app AND i.id = r.installation
                CROSS JOIN LATERAL (
                    SELECT array_position(a.members, t.id) - 1 AS "position" FROM tokens t
                    -- IS TRUE: by the installation, not by all tokens of the job.
                    WHERE t.app_id = a.app AND t.installation = r.installation AND (t.id = ANY (a.members)) IS TRUE
                    ORDER BY t.state, "position" LIMIT 1
                ) AS m
            ), new AS (
                INSERT INTO device_receipts (notification, number, "position", event, app_id, installation, owner_epoch, at)
                SELECT DISTINCT ON (notification, number, "position", event)
                    notification, number, "position", event, app, installation, owner_epoch, at
                FROM found WHERE NOT is_late ORDER BY notification, number, "position", event, index
                ON CONFLICT (notification, number, "position", event) DO NOTHING
                RETURNING notification, number, "position", event
            )
            SELECT f.index, f.is_late,
                n.notification IS NOT NULL AND f.index = min(f.index) OVER (PARTITION BY f.notification, f.number, f."position", f.event)
                    AS is_new
            FROM found f LEFT JOIN new n
                ON n.notification = f.notification AND n.number = f.number AND n."position" = f."position" AND n.event = f.event
            """, under: RowLock(ErasureBarrier.hold(Set(reports.map(\.app)))))
        var results = reports.map { report in report.receipts.map { _ in DeviceReceipt.Result.refused(.unknownDelivery) } }
        var starts: [Int] = []
        var start = 0
        for report in reports {
            starts.append(start)
            start += report.receipts.count
        }
        for answer in answers {
            let (index, isLate, isNew): (Int, Bool, Bool) = (try answer["index"], try answer["is_late"], try answer["is_new"])
            let report = rows[index].index
            results[report][index - starts[report]] = isLate ? .refused(.tooLate) : isNew ? .counted : .repeated
        }
        return results
    }

    // MARK: The notifications' counts

    /// The number of the last receipt that is added, or put aside.
    func countedPosition() throws -> Int64 {
        try session.execute("SELECT position FROM event_feeds WHERE log = 'device_receipts' AND sink = 'counts'").only()["position"]
    }

    /// Every transaction that writes `counts_to_add` locks this row before.
    static var counterLock: PostgresQuery {
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

extension DeviceReceipt.Event: PostgresEncodable, PostgresDecodable {}
