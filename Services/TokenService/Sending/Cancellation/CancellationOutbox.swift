package import Postgres
package import PushModel
import TokenServiceKit

/// The SQL of stopped notifications behind the answer to a caller. It works for every app at once: the relay's rounds, and the transactions
/// in which a newer notification takes the place of an older one. It takes no id from a request's path or body.
package struct CancellationOutbox {
    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    package struct Unpublished: Equatable, Sendable {
        package var id: PushID
        package var app: AppSlug
        package var cancelledAt: Int64
    }

    /// Cancellations that the control stream needs and does not have: older than any caller waits, or made by a newer notification.
    /// - Parameter from: UNIX milliseconds; see ``LowWater``.
    /// - Returns: the oldest ones, and the moment of ``LowWater/clock`` before the search.
    package func leftOver(limit: Int, from: Int64 = 0) throws -> (now: Int64, found: [Unpublished]) {
        let answers = try session.pipeline([
            LowWater<AnyApp>.clock,
            """
            SELECT c.notification, c.at, a.slug
            FROM (
                SELECT * FROM cancellations
                WHERE published_at IS NULL AND at >= \(milliseconds: from) AND (reason = 'superseded' OR at < now() - interval '2 seconds')
                ORDER BY at LIMIT \(limit)
            ) AS c JOIN notifications n ON n.id = c.notification JOIN apps a ON a.id = n.app_id ORDER BY c.at
            """,
        ])
        let found = try answers[1].map { row in
            Unpublished(id: try row["notification"], app: try row["slug"], cancelledAt: try row.milliseconds("at"))
        }
        return (try answers[0].only().milliseconds("now"), found)
    }

    package func markPublished(_ ids: [PushID]) throws {
        guard !ids.isEmpty else { return }
        try session.execute(
            """
            WITH locked AS (
                SELECT c.notification FROM unnest(\(ids)::uuid[]) AS e (id) JOIN cancellations c ON c.notification = e.id
                ORDER BY c.notification FOR NO KEY UPDATE OF c
            )
            UPDATE cancellations c SET published_at = now() FROM locked l WHERE c.notification = l.notification
            """)
    }

    /// - Parameter from: UNIX milliseconds; see ``LowWater``.
    /// - Returns: Since when the oldest cancellation with jobs to hasten has waited, and the moment of ``LowWater/clock`` before the
    ///   search.
    package func oldestUnhastened(from: Int64 = 0) throws -> (now: Int64, oldest: Int64?) {
        let answers = try session.pipeline([
            LowWater<AnyApp>.clock,
            """
            SELECT hasten_from FROM cancellations
            WHERE hastened_at IS NULL AND hasten_from >= \(milliseconds: from) AND hasten_from <= now() ORDER BY hasten_from LIMIT 1
            """,
        ])
        return (try answers[0].only().milliseconds("now"), try answers[1].first?.milliseconds("hasten_from"))
    }

    /// The oldest notifications with jobs to hasten; none that another transaction has locked.
    package func unhastened(limit: Int, from: Int64 = 0) throws -> [PushID] {
        try session.execute(
            """
            SELECT notification FROM cancellations
            WHERE hastened_at IS NULL AND hasten_from >= \(milliseconds: from) AND hasten_from <= now()
            ORDER BY hasten_from LIMIT \(limit) FOR NO KEY UPDATE SKIP LOCKED
            """
        ).column("notification")
    }

    /// Notifications whose jobs could not be read wait again for as long as since their cancellation, an hour at most.
    package func putOff(_ notifications: [PushID]) throws {
        try session.execute(
            """
            UPDATE cancellations SET hasten_from = now() + greatest(interval '1 second', least(now() - at, interval '1 hour'))
            WHERE notification = ANY (\(notifications))
            """)
    }

    /// Jobs of these stopped notifications that are due later or held become due, to get their outcome: of each, among its next `limit`
    /// jobs. No fan-out and no hold adds another one. If another transaction has locked a job, this job and the later ones of its
    /// notification wait for a second, behind all other notifications.
    /// - Returns: whether one of them has more jobs.
    package func hasten(_ notifications: [PushID], limit: Int) throws -> Bool {
        let rows = try session.execute(
            """
            WITH open AS (
                -- IS TRUE: by the notifications, not by all cancellations with jobs to hasten.
                SELECT notification, hastened_through FROM cancellations
                WHERE notification = ANY (\(notifications)) AND (hastened_at IS NULL) IS TRUE
                ORDER BY notification FOR NO KEY UPDATE SKIP LOCKED
            ), next AS MATERIALIZED (
                SELECT o.notification, j.number, j.is_late FROM open o CROSS JOIN LATERAL (
                    SELECT number, published_at IS NULL AND (due_at > now() OR held_by IS NOT NULL) AS is_late FROM jobs
                    WHERE notification = o.notification AND number > o.hastened_through ORDER BY number LIMIT \(limit)
                ) AS j
            ), free AS (
                SELECT notification, array_agg(number) AS numbers FROM (
                    SELECT n.notification, j.number FROM next n CROSS JOIN LATERAL (
                        SELECT number FROM jobs WHERE notification = n.notification AND number = n.number AND published_at IS NULL
                        FOR NO KEY UPDATE SKIP LOCKED
                    ) AS j WHERE n.is_late
                ) AS f GROUP BY notification
            ), counted AS (
                SELECT o.notification, count(n.number) AS jobs, max(n.number) AS through,
                    min(n.number) FILTER (WHERE n.is_late AND (n.number = ANY (f.numbers)) IS NOT TRUE) AS locked
                FROM open o LEFT JOIN next n ON n.notification = o.notification LEFT JOIN free f ON f.notification = o.notification
                GROUP BY o.notification
            ), hastened AS (
                UPDATE jobs j SET free_from = now() FROM (
                    SELECT n.notification, n.number FROM next n JOIN counted c ON c.notification = n.notification
                    WHERE n.is_late AND (n.number < c.locked) IS NOT FALSE ORDER BY n.notification, n.number
                ) AS f
                WHERE j.notification = f.notification AND j.number = f.number AND j.published_at IS NULL
            ), moved AS (
                UPDATE cancellations c SET hastened_at = CASE WHEN n.jobs < \(limit) AND n.locked IS NULL THEN now() END,
                    hastened_through = coalesce(n.locked - 1, n.through, c.hastened_through),
                    hasten_from = CASE WHEN n.locked IS NULL THEN c.hasten_from ELSE now() + interval '1 second' END
                FROM counted n WHERE c.notification = n.notification
            )
            SELECT EXISTS (SELECT FROM counted WHERE jobs = \(limit) AND locked IS NULL) AS are_left
            """)
        return try rows.only()["are_left"]
    }

    /// Stops older notifications in the transaction of the newer one, so that the older ones end with the commit that accepts it. The
    /// control stream hears only of those that a dispatcher may have (`may_be_at_broker`): else a key that is used again and again would
    /// fill every dispatcher's memory.
    static func supersede(_ older: NotificationStore.Supersession, with newer: PushID) -> PostgresQuery {
        """
        WITH older AS (
            SELECT id FROM notifications
            WHERE app_id = \(older.app) AND supersede_key = \(older.key)
                AND coalesce(target_user, target_installation::text) = \(older.target)
                AND completed_at IS NULL AND id <> \(newer) AND state <> 'cancelled'
            ORDER BY id FOR NO KEY UPDATE
        ), stopped AS (
            UPDATE notifications n SET state = 'cancelled', completed_at = CASE WHEN n.pending = 0 THEN now() END
            FROM older WHERE n.id = older.id RETURNING n.id, n.jobs, n.expires_at
        ), no_more_jobs AS (
            UPDATE fan_outs f SET free_from = NULL, held_by = NULL FROM stopped s
            WHERE f.notification = s.id AND f.free_from IS NOT NULL
        )
        INSERT INTO cancellations (notification, at, reason, published_at)
        SELECT id, now(), 'superseded', CASE WHEN NOT may_be_at_broker(id, jobs, expires_at) THEN now() END FROM stopped
        """
    }

    /// Ends these notifications for a newer one, as far as they have not ended.
    package static func supersede(_ notifications: [PushID]) -> [PostgresQuery] {
        guard !notifications.isEmpty else { return [] }
        return [
            """
            WITH older AS (
                SELECT n.id FROM unnest(\(notifications)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id
                WHERE n.completed_at IS NULL AND n.state <> 'cancelled' ORDER BY n.id FOR NO KEY UPDATE OF n
            ), stopped AS (
                UPDATE notifications n SET state = 'cancelled', completed_at = CASE WHEN n.pending = 0 THEN now() END
                FROM older WHERE n.id = older.id RETURNING n.id, n.jobs, n.expires_at
            ), no_more_jobs AS (
                UPDATE fan_outs f SET free_from = NULL, held_by = NULL FROM stopped s
                WHERE f.notification = s.id AND f.free_from IS NOT NULL
            )
            INSERT INTO cancellations (notification, at, reason, published_at)
            SELECT id, now(), 'superseded', CASE WHEN NOT may_be_at_broker(id, jobs, expires_at) THEN now() END FROM stopped
            """
        ]
    }
}
