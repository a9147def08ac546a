package import Postgres
package import PushModel
package import TokenServiceApps
import TokenServiceKit
import TokenServiceRegistry
package import TokenServiceSending

/// The SQL of device receipts, within one transaction.
package struct DeviceReceiptStore {
    let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// The receipts of one installation.
    package struct Report: Sendable {
        package var app: App.ID
        package var installation: PushID
        /// The epoch of the owner who may report.
        package var ownerEpoch: Int64
        package var receipts: [DeviceReceipt]

        package init(app: App.ID, installation: PushID, ownerEpoch: Int64, receipts: [DeviceReceipt]) {
            self.app = app
            self.installation = installation
            self.ownerEpoch = ownerEpoch
            self.receipts = receipts
        }
    }

    /// Counts receipts, each once. ``DeviceReceiptCounter`` adds them to their notifications.
    ///
    /// A job's message names the job, so the statement finds the delivery among the job's members, without an index: the one whose token
    /// the installation has. An installation may have a token for each environment there; then it is the live one. An installation with
    /// hundreds of tokens costs twice as much as another one, so it needs no transaction of its own. The statement reads tokens and writes
    /// receipts, as outcomes do, so an erasure waits for it (``ErasureBarrier``). It counts nothing for an installation whose epoch has
    /// ended since its owner was checked: the next owner's erasure, and not the reporter's, would remove the receipt.
    /// - Returns: One result for each receipt of each report, in their order.
    package func count(_ reports: [Report]) throws -> [[DeviceReceipt.Result]] {
        let rows = reports.enumerated().flatMap { index, report in report.receipts.map { (index: index, report: report, receipt: $0) } }
        guard !rows.isEmpty else { return reports.map { _ in [] } }
        let answers = try session.execute(
            """
            WITH reported AS (
                SELECT * FROM unnest(\(Array(rows.indices))::bigint[], \(rows.map(\.report.app))::bigint[],
                        \(rows.map(\.report.installation))::uuid[], \(rows.map(\.report.ownerEpoch))::bigint[],
                        \(rows.map(\.receipt.job.notification))::uuid[], \(rows.map(\.receipt.job.number))::bigint[],
                        \(rows.map(\.receipt.event.rawValue))::text[], \(milliseconds: rows.map(\.receipt.at))::timestamptz[])
                    AS e (index, app, installation, owner_epoch, notification, number, event, at)
            ), asked AS MATERIALIZED (
                -- The members of a job are read once, however many installations report it.
                SELECT e.*, j.published_at, ARRAY(SELECT m.token_id FROM members_of(j) AS m ORDER BY m."position") AS members
                FROM (
                    SELECT app, notification, number, array_agg(index) AS indices, array_agg(installation) AS installations,
                        array_agg(owner_epoch) AS epochs, array_agg(event) AS events, array_agg(at) AS moments
                    FROM reported GROUP BY app, notification, number
                ) AS e
                JOIN notifications n ON n.id = e.notification AND n.app_id = e.app AND n.device_receipts
                JOIN jobs j ON j.notification = n.id AND j.number = e.number AND j.published_at IS NOT NULL
            ), found AS (
                SELECT r.index, a.app, r.installation, i.owner_epoch, a.notification, a.number, m."position", r.event,
                    least(greatest(r.at, a.published_at), now()) AS at,
                    a.published_at < now() - \(DeviceReceipt.patienceDays) * interval '1 day' AS is_late
                FROM asked a
                CROSS JOIN LATERAL unnest(a.indices, a.installations, a.epochs, a.events, a.moments)
                    AS r (index, installation, owner_epoch, event, at)
                JOIN installations i ON i.app_id = a.app AND i.id = r.installation AND i.owner_epoch = r.owner_epoch
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
            """, under: RowLock(ErasureBarrier.hold(Set(reports.map(\.app))), LogProgress.transactionID))
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
}

extension DeviceReceipt.Event: PostgresEncodable, PostgresDecodable {}
