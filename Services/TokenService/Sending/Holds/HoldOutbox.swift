package import Postgres
package import PushModel
import TokenServiceKit
import TokenServiceRegistry

/// The SQL by which holds take effect: for the relay, which works for every app at once. It takes no id from a request's path or body.
///
/// A held job or fan-out stays where it is when it is due, and waits for the end of its hold.
package struct HoldOutbox {
    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    struct Unfinished: Sendable {
        var holds: [Hold]
        /// PostgreSQL's clock, in UNIX milliseconds; 0 without a hold.
        var now: Int64
    }

    /// Every hold in force, and every lifted one that is not published or not released.
    func unfinished() throws -> Unfinished {
        let rows = try session.execute(
            """
            SELECT *, now() AS now FROM holds_with_state WHERE id IN (
                SELECT id FROM holds WHERE lifted_at IS NULL AND ends_at > now()
                UNION ALL
                SELECT id FROM holds WHERE lifted_at IS NOT NULL AND (published_at IS NULL OR released_at IS NULL)
            ) ORDER BY id
            """)
        return Unfinished(holds: try rows.map { row in try Hold(row) }, now: try rows.first?.milliseconds("now") ?? 0)
    }

    /// Records that the control stream has the holds as they were read; not if a hold was lifted since.
    package func markPublished(_ holds: [Hold]) throws {
        try session.execute(
            """
            WITH locked AS (
                SELECT h.id FROM holds h JOIN unnest(\(holds.map(\.id))::uuid[], \(holds.map { $0.lifting != nil })::boolean[]) AS p (id,
                    is_lifted)
                    ON h.id = p.id AND (h.lifted_at IS NOT NULL) = p.is_lifted
                ORDER BY h.id FOR NO KEY UPDATE OF h
            )
            UPDATE holds h SET published_at = now() FROM locked WHERE h.id = locked.id
            """)
    }

    /// Keeps the holds that are in force from being lifted before the transaction ends.
    /// - Returns: The holds, for ``putAside(fanOuts:under:)`` and ``putAside(jobs:under:)`` in the same transaction. One that is set
    ///   meanwhile concerns the next claim.
    package func lockInForce() throws -> [PushID] {
        try session.execute("SELECT id FROM holds WHERE lifted_at IS NULL AND ends_at > now() ORDER BY id FOR SHARE").column("id")
    }

    /// Puts the held ones of the fan-outs that this transaction has claimed aside: until the hold ends, or the notification expires.
    /// - Returns: The fan-outs that it put aside.
    package func putAside(fanOuts: [PushID], under holds: [PushID]) throws -> Set<PushID> {
        guard !fanOuts.isEmpty, !holds.isEmpty else { return [] }
        let held: [PushID] = try session.execute(
            """
            UPDATE fan_outs f SET held_by = h.id, free_from = least(h.expires_at, h.ends_at)
            FROM (
                SELECT m.id AS notification, m.expires_at, o.id, o.ends_at
                FROM unnest(\(fanOuts)::uuid[]) AS e (id) JOIN notifications m ON m.id = e.id CROSS JOIN LATERAL (
                    SELECT h.id, h.ends_at FROM holds h
                    WHERE h.id = ANY (\(holds)) AND (h.app_id IS NULL OR h.app_id = m.app_id)
                        AND (h.lane IS NULL OR h.lane = m.lane) AND (h.notification IS NULL OR h.notification IN (m.id, m.copy_of))
                    ORDER BY h.ends_at DESC, h.id LIMIT 1
                ) AS o
                WHERE m.expires_at > now()
            ) AS h
            WHERE f.notification = h.notification AND f.free_from IS NOT NULL RETURNING f.notification
            """
        ).column("notification")
        return Set(held)
    }

    /// Puts held jobs aside. A job that has expired, or whose notification was cancelled, is not put aside: it has only to be published.
    package func putAside(jobs: [JobID], under holds: [PushID]) throws -> Set<JobID> {
        guard !jobs.isEmpty, !holds.isEmpty else { return [] }
        // A caller may be cancelling a held one: either it is cancelled here already, or its jobs are hastened after they are held.
        let lock = RowLock(
            """
            SELECT n.id FROM notifications n
            WHERE n.id = ANY (\(Set(jobs.map(\.notification)).sorted())::uuid[]) AND EXISTS (
                SELECT FROM holds h
                WHERE h.id = ANY (\(holds)) AND (h.app_id IS NULL OR h.app_id = n.app_id)
                    AND (h.lane IS NULL OR h.lane = n.lane) AND (h.notification IS NULL OR h.notification IN (n.id, n.copy_of)))
            ORDER BY n.id FOR SHARE OF n
            """)
        return Set(
            try session.execute(
                """
                UPDATE jobs j SET held_by = h.id, free_from = least(h.expiry, h.ends_at)
                FROM (
                    SELECT d.notification, d.number, d.expiry, o.id, o.ends_at FROM (
                        SELECT e.notification, k.number, n.app_id, n.lane, n.copy_of,
                            least(n.expires_at, k.due_at + f.lifetime_ms * interval '1 millisecond') AS expiry
                        FROM unnest(\(jobs.map(\.notification))::uuid[], \(jobs.map(\.number))::bigint[]) AS e (notification, number)
                        JOIN jobs k ON k.notification = e.notification AND k.number = e.number
                        JOIN notifications n ON n.id = e.notification LEFT JOIN fan_outs f ON f.notification = e.notification
                        WHERE n.state <> 'cancelled'
                    ) AS d CROSS JOIN LATERAL (
                        SELECT h.id, h.ends_at FROM holds h
                        WHERE h.id = ANY (\(holds)) AND (h.app_id IS NULL OR h.app_id = d.app_id)
                            AND (h.lane IS NULL OR h.lane = d.lane)
                            AND (h.notification IS NULL OR h.notification IN (d.notification, d.copy_of))
                        ORDER BY h.ends_at DESC, h.id LIMIT 1
                    ) AS o
                    WHERE d.expiry > now()
                ) AS h
                WHERE j.notification = h.notification AND j.number = h.number RETURNING j.notification, j.number
                """, under: lock
            ).map { row in
                let number: Int32 = try row["number"]
                return JobID(notification: try row["notification"], number: Int(number))
            })
    }

    /// Where a step of a release ended. While a snapshot is open, the index keeps the entries of all rows before it.
    struct Place: Sendable {
        var fanOut = PushID.lowest
        var job = JobID(notification: .lowest, number: -1)
    }

    /// Gives some of a lifted hold's rows back to any process that looks for work; another hold may put them aside again. A release from
    /// the beginning that finds no more than a part of `limit` ends the hold's work, unless another transaction had rows locked.
    /// - Parameter place: Where the step before ended; nil for the beginning.
    /// - Returns: how many, and where this step ended; nil if it reached the end.
    func release(_ hold: PushID, after place: Place?, limit: Int) throws -> (count: Int, end: Place?) {
        var end = place ?? Place()
        let answers = try session.pipeline([
            """
            WITH locked AS (
                SELECT notification FROM fan_outs
                WHERE held_by = \(hold) AND free_from IS NOT NULL AND notification > \(end.fanOut)
                ORDER BY notification LIMIT \(limit) FOR NO KEY UPDATE SKIP LOCKED
            )
            UPDATE fan_outs f SET held_by = NULL, free_from = now() FROM locked l WHERE f.notification = l.notification
            RETURNING f.notification
            """,
            """
            WITH locked AS (
                SELECT notification, number FROM jobs
                WHERE held_by = \(hold) AND (notification, number) > (\(end.job.notification), \(end.job.number)::bigint)
                ORDER BY notification, number LIMIT \(limit) FOR NO KEY UPDATE SKIP LOCKED
            )
            UPDATE jobs j SET held_by = NULL, free_from = now() FROM locked l
            WHERE j.notification = l.notification AND j.number = l.number
            RETURNING j.notification, j.number
            """,
        ])
        let count = max(answers[0].count, answers[1].count)
        if count == limit {
            for row in answers[0] { end.fanOut = max(end.fanOut, try row["notification"]) }
            for row in answers[1] {
                let number: Int32 = try row["number"]
                let id = JobID(notification: try row["notification"], number: Int(number))
                if (id.notification, id.number) > (end.job.notification, end.job.number) { end.job = id }
            }
            return (count, end)
        }
        if place == nil {
            try session.execute(
                """
                UPDATE holds SET released_at = now()
                WHERE id = \(hold) AND lifted_at IS NOT NULL AND released_at IS NULL
                    AND NOT EXISTS (SELECT FROM fan_outs WHERE held_by = \(hold) AND free_from IS NOT NULL)
                    AND NOT EXISTS (SELECT FROM jobs WHERE held_by = \(hold))
                """)
        }
        return (count, nil)
    }
}
