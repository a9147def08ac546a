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

    /// Counts receipts, each once, also in their notifications.
    ///
    /// A job's message names the job, so the statement finds the delivery among the job's members, without an index: the one whose token
    /// the installation has. An installation may have a token for each environment there; then it is the live one.
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
            ), found AS (
                SELECT e.index, e.app, e.installation, i.owner_epoch, e.notification, j.number, m."position", e.event,
                    least(greatest(e.at, j.published_at), now()) AS at,
                    j.published_at < now() - \(Self.patienceDays) * interval '1 day' AS is_late
                FROM reported e
                JOIN notifications n ON n.id = e.notification AND n.app_id = e.app AND n.device_receipts
                JOIN jobs j ON j.notification = e.notification AND j.number = e.number AND j.published_at IS NOT NULL
                JOIN installations i ON i.app_id = e.app AND i.id = e.installation
                CROSS JOIN LATERAL (
                    SELECT m."position" FROM members_of(j) AS m JOIN tokens t ON t.id = m.token_id
                    WHERE t.app_id = e.app AND t.installation = e.installation ORDER BY t.state, m."position" LIMIT 1
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
            """)
        var results = reports.map { report in report.receipts.map { _ in DeviceReceipt.Result.refused(.unknownDelivery) } }
        var counted: [Counted] = []
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
            if isNew { counted.append(Counted(notification: rows[index].receipt.job.notification, event: rows[index].receipt.event)) }
        }
        try add(counted)
        return results
    }

    private struct Counted: Hashable {
        let notification: PushID
        let event: DeviceReceipt.Event
    }

    /// Adds to the notifications' counts, whose rows it locks in the order of outcomes.
    private func add(_ counted: [Counted]) throws {
        guard !counted.isEmpty else { return }
        let counts = Tally(counted).counts
        let ids = Set(counted.lazy.map(\.notification)).sorted()
        func column(_ event: DeviceReceipt.Event) -> [Int64] { ids.map { counts[Counted(notification: $0, event: event)] ?? 0 } }
        try session.pipeline([
            "SELECT FROM unnest(\(ids)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id ORDER BY n.id FOR NO KEY UPDATE OF n",
            """
            UPDATE notifications n SET shown = n.shown + e.shown, opened = n.opened + e.opened, dismissed = n.dismissed + e.dismissed
            FROM unnest(\(ids)::uuid[], \(column(.shown))::bigint[], \(column(.opened))::bigint[], \(column(.dismissed))::bigint[])
                AS e (id, shown, opened, dismissed)
            WHERE n.id = e.id
            """,
        ])
    }
}

extension DeviceReceipt.Event: PostgresEncodable, PostgresDecodable {}
