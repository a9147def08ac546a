package import Postgres
package import PushModel

/// The SQL that stops notifications. The relay gives unpublished deliveries their outcome; dispatchers give it to those in the broker, once
/// they have read the control stream.
package struct CancellationStore {
    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    package struct Stopped: Equatable, Sendable {
        package var id: PushID
        package var state: NotificationState
        package var pending: Int
        /// UNIX milliseconds; nil if it was too late.
        package var cancelledAt: Int64?
        /// The control stream has it.
        package var isPublished: Bool
        /// Its fan-out had not come to its end.
        package var isCutShort: Bool
        /// A copy of it that was stopped too, and of which the control stream does not know yet.
        package var copy: Unpublished?
    }

    /// An update of a Live Activity may have a copy that waits for the update's end, or has taken its place after a failed attempt: it is the
    /// activity's newest notification, and stops too. The activity's lock keeps a report from making a copy meanwhile.
    /// - Returns: nil where the app has no such notification.
    package func cancel(_ id: PushID, app: App) throws -> Stopped? {
        let answers = try session.pipeline([
            """
            SELECT FROM (
                SELECT app_id, activity_owner(target_user, target_installation) AS owned_by, substr(purpose, 10) AS activity
                FROM notifications WHERE app_id = \(app.id) AND id = \(id) AND purpose LIKE 'activity:%' LIMIT 1
            ) AS n JOIN activities a ON a.app_id = n.app_id AND a.owned_by = n.owned_by AND a.id = n.activity
            FOR NO KEY UPDATE OF a
            """,
            """
            WITH stopped AS (
                UPDATE notifications SET state = 'cancelled', completed_at = CASE WHEN pending = 0 THEN now() END
                WHERE app_id = \(app.id) AND id = \(id) AND state IN ('accepted', 'scheduled', 'expanding', 'sending') RETURNING id
            ), no_more_jobs AS (
                UPDATE fan_outs f SET free_from = NULL, held_by = NULL FROM stopped s
                WHERE f.notification = s.id AND f.free_from IS NOT NULL
            )
            INSERT INTO cancellations (notification, at, reason) SELECT id, now(), 'cancelled' FROM stopped
            """,
            """
            WITH copies AS (
                SELECT c.id FROM (
                    SELECT id, app_id, activity_owner(target_user, target_installation) AS owned_by, substr(purpose, 10) AS activity
                    FROM notifications
                    WHERE app_id = \(app.id) AND id = \(id) AND purpose LIKE 'activity:%' AND state = 'cancelled' LIMIT 1
                ) AS n
                JOIN activities a ON a.app_id = n.app_id AND a.owned_by = n.owned_by AND a.id = n.activity
                JOIN notifications c ON c.id = a.newest AND c.copy_of = n.id
            ), stopped AS (
                UPDATE notifications n SET state = 'cancelled', completed_at = CASE WHEN n.pending = 0 THEN now() END
                FROM copies c WHERE n.id = c.id AND n.state IN ('accepted', 'scheduled', 'expanding', 'sending') RETURNING n.id, n.jobs
            ), no_more_jobs AS (
                UPDATE fan_outs f SET free_from = NULL, held_by = NULL FROM stopped s
                WHERE f.notification = s.id AND (f.free_from IS NOT NULL) IS TRUE
            )
            INSERT INTO cancellations (notification, at, reason, published_at)
            SELECT id, now(), 'cancelled', CASE WHEN jobs = 0 THEN now() END FROM stopped
            """,
            """
            SELECT n.state, n.pending, c.at AS cancelled_at, c.published_at IS NOT NULL AS is_published,
                c.notification IS NOT NULL AND f.notification IS NOT NULL AND f.ended_at IS NULL AS is_cut_short,
                k.notification AS copy, k.at AS copy_cancelled_at
            FROM notifications n LEFT JOIN cancellations c ON c.notification = n.id LEFT JOIN fan_outs f ON f.notification = n.id
            LEFT JOIN LATERAL (
                SELECT k.notification, k.at
                FROM activities a JOIN notifications m ON m.id = a.newest AND m.copy_of = n.id
                JOIN cancellations k ON k.notification = m.id AND (k.published_at IS NULL) IS TRUE
                WHERE n.purpose LIKE 'activity:%' AND a.app_id = n.app_id
                    AND a.owned_by = activity_owner(n.target_user, n.target_installation) AND a.id = substr(n.purpose, 10) LIMIT 1
            ) AS k ON true
            WHERE n.app_id = \(app.id) AND n.id = \(id)
            """,
        ])
        guard let row = answers[3].first else { return nil }
        let copy: PushID? = try row["copy"]
        let copyCancelledAt: Int64? = try row.milliseconds("copy_cancelled_at")
        let pending: Int32 = try row["pending"]
        return Stopped(
            id: id, state: try row["state"], pending: Int(pending), cancelledAt: try row.milliseconds("cancelled_at"),
            isPublished: try row["is_published"], isCutShort: try row["is_cut_short"],
            copy: copy.flatMap { copy in copyCancelledAt.map { Unpublished(id: copy, app: app.slug, cancelledAt: $0) } })
    }

    package struct Unpublished: Equatable, Sendable {
        package var id: PushID
        package var app: AppSlug
        package var cancelledAt: Int64
    }

    /// Cancellations that the control stream does not have: older than any caller waits, or made by a newer notification.
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
    /// - Returns: the moment of the oldest cancellation with jobs to hasten, and the moment of ``LowWater/clock`` before the search.
    package func oldestUnhastened(from: Int64 = 0) throws -> (now: Int64, oldest: Int64?) {
        let answers = try session.pipeline([
            LowWater<AnyApp>.clock,
            "SELECT at FROM cancellations WHERE hastened_at IS NULL AND at >= \(milliseconds: from) ORDER BY at LIMIT 1",
        ])
        return (try answers[0].only().milliseconds("now"), try answers[1].first?.milliseconds("at"))
    }

    /// Jobs of some stopped notifications that are due later or held become due, to get their outcome: of each, among its next `limit` jobs.
    /// No fan-out and no hold adds another one.
    /// - Returns: whether notifications are left.
    package func hasten(limit: Int, from: Int64 = 0) throws -> Bool {
        let rows = try session.execute(
            """
            WITH open AS (
                SELECT notification, hastened_through FROM cancellations
                WHERE hastened_at IS NULL AND at >= \(milliseconds: from) ORDER BY at LIMIT 11 FOR NO KEY UPDATE SKIP LOCKED
            ), next AS MATERIALIZED (
                SELECT o.notification, j.number, j.is_late FROM (SELECT * FROM open LIMIT 10) AS o CROSS JOIN LATERAL (
                    SELECT number, published_at IS NULL AND (due_at > now() OR held_by IS NOT NULL) AS is_late FROM jobs
                    WHERE notification = o.notification AND number > o.hastened_through ORDER BY number LIMIT \(limit)
                ) AS j
            ), hastened AS (
                UPDATE jobs j SET free_from = now() FROM next n
                WHERE n.is_late AND j.notification = n.notification AND j.number = n.number AND j.published_at IS NULL
            ), counted AS (
                SELECT o.notification, count(n.number) AS jobs, max(n.number) AS through
                FROM (SELECT * FROM open LIMIT 10) AS o LEFT JOIN next n ON n.notification = o.notification GROUP BY o.notification
            ), moved AS (
                UPDATE cancellations c SET hastened_at = CASE WHEN n.jobs < \(limit) THEN now() END,
                    hastened_through = coalesce(n.through, c.hastened_through)
                FROM counted n WHERE c.notification = n.notification
            )
            SELECT (SELECT count(*) > 10 FROM open) OR EXISTS (SELECT FROM counted WHERE jobs = \(limit)) AS are_left
            """)
        return try rows.only()["are_left"]
    }

    /// In the transaction of the newer notification, so that the older ones end with the commit that accepts it.
    static func supersede(_ older: NotificationStore.Supersession, with newer: PushID) -> PostgresQuery {
        """
        WITH older AS (
            SELECT id FROM notifications
            WHERE app_id = \(older.app) AND supersede_key = \(older.key) AND coalesce(target_user, target_installation::text) = \(older.target)
                AND completed_at IS NULL AND id <> \(newer) AND state <> 'cancelled'
            ORDER BY id FOR NO KEY UPDATE
        ), stopped AS (
            UPDATE notifications n SET state = 'cancelled', completed_at = CASE WHEN n.pending = 0 THEN now() END
            FROM older WHERE n.id = older.id RETURNING n.id
        ), no_more_jobs AS (
            UPDATE fan_outs f SET free_from = NULL, held_by = NULL FROM stopped s
            WHERE f.notification = s.id AND f.free_from IS NOT NULL
        )
        INSERT INTO cancellations (notification, at, reason) SELECT id, now(), 'superseded' FROM stopped
        """
    }

    /// Ends these notifications for a newer one, as far as they have not ended. No job of theirs waits for a moment, and the control stream
    /// need not hear of one without a job.
    static func supersede(_ notifications: [PushID]) -> [PostgresQuery] {
        guard !notifications.isEmpty else { return [] }
        return [
            """
            WITH older AS (
                SELECT n.id FROM unnest(\(notifications)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id
                WHERE n.completed_at IS NULL AND n.state <> 'cancelled' ORDER BY n.id FOR NO KEY UPDATE OF n
            ), stopped AS (
                UPDATE notifications n SET state = 'cancelled', completed_at = CASE WHEN n.pending = 0 THEN now() END
                FROM older WHERE n.id = older.id RETURNING n.id, n.jobs
            ), no_more_jobs AS (
                UPDATE fan_outs f SET free_from = NULL, held_by = NULL FROM stopped s
                WHERE f.notification = s.id AND f.free_from IS NOT NULL
            )
            INSERT INTO cancellations (notification, at, reason, published_at)
            SELECT id, now(), 'superseded', CASE WHEN jobs = 0 THEN now() END FROM stopped
            """
        ]
    }
}
