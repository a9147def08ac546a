package import Postgres
package import PushModel
package import TokenServiceApps
import TokenServiceKit

/// The SQL that stops an app's notifications for a caller. The relay gives unpublished deliveries their outcome; dispatchers give it to
/// those in the broker, once they have read the control stream. The stream gets no notification of which no job can be there.
package struct CancellationStore {
    private let session: PostgresSession
    private let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    package struct Stopped: Equatable, Sendable {
        package var id: PushID
        package var state: NotificationState
        package var pending: Int
        /// UNIX milliseconds; nil if it was too late.
        package var cancelledAt: Int64?
        /// The control stream has it, or no dispatcher needs it.
        package var isPublished: Bool
        /// The fan-out had not come to its end.
        package var isCutShort: Bool
        /// A copy of it that was stopped too, and of which the control stream does not know yet.
        package var copy: CancellationOutbox.Unpublished?
    }

    /// An update of a Live Activity may have a copy that waits for the update's end, or has taken its place after a failed attempt: it is
    /// the activity's newest notification, and stops too. If the copy has come to its end, no report makes another one: the update then
    /// counts as cancelled, and no longer as superseded (``ActivityReports``). The activity's lock keeps a report from making a copy
    /// meanwhile.
    /// - Throws: ``APIError`` 404 where the app has no such notification.
    package func cancel(_ id: PushID) throws -> Stopped {
        let answers = try session.pipeline([
            """
            SELECT FROM (
                SELECT app_id, activity_owner(target_user, target_installation) AS owned_by,
                    substr(purpose, strpos(purpose, ':') + 1) AS target
                FROM notifications
                WHERE app_id = \(app.id) AND id = \(id) AND (purpose LIKE 'activity:%' OR purpose LIKE 'channel:%') LIMIT 1
            ) AS n JOIN update_targets a ON a.app_id = n.app_id AND a.owned_by = n.owned_by AND a.id = n.target
            FOR NO KEY UPDATE OF a
            """,
            """
            WITH stopped AS (
                UPDATE notifications SET state = 'cancelled', completed_at = CASE WHEN pending = 0 THEN now() END
                WHERE app_id = \(app.id) AND id = \(id) AND state IN ('accepted', 'scheduled', 'expanding', 'sending')
                RETURNING id, jobs, expires_at
            ), no_more_jobs AS (
                UPDATE fan_outs f SET free_from = NULL, held_by = NULL FROM stopped s
                WHERE f.notification = s.id AND f.free_from IS NOT NULL
            )
            INSERT INTO cancellations (notification, at, reason, published_at)
            SELECT id, now(), 'cancelled', CASE WHEN NOT may_be_at_broker(id, jobs, expires_at) THEN now() END FROM stopped
            """,
            """
            WITH copies AS (
                SELECT c.id, c.copy_of FROM (
                    SELECT id, app_id, activity_owner(target_user, target_installation) AS owned_by, substr(purpose, 10) AS activity
                    FROM notifications
                    WHERE app_id = \(app.id) AND id = \(id) AND purpose LIKE 'activity:%' AND state = 'cancelled' LIMIT 1
                ) AS n
                JOIN activities a ON a.app_id = n.app_id AND a.owned_by = n.owned_by AND a.id = n.activity
                JOIN notifications c ON c.app_id = a.app_id AND c.id IN (a.newest, a.sending) AND c.copy_of = n.id
            ), remembered AS (
                UPDATE cancellations k SET reason = 'cancelled' FROM copies c WHERE k.notification = c.copy_of AND k.reason = 'superseded'
            ), stopped AS (
                UPDATE notifications n SET state = 'cancelled', completed_at = CASE WHEN n.pending = 0 THEN now() END
                FROM copies c WHERE n.id = c.id AND n.state IN ('accepted', 'scheduled', 'expanding', 'sending')
                RETURNING n.id, n.jobs, n.expires_at
            ), no_more_jobs AS (
                UPDATE fan_outs f SET free_from = NULL, held_by = NULL FROM stopped s
                WHERE f.notification = s.id AND f.free_from IS NOT NULL
            )
            INSERT INTO cancellations (notification, at, reason, published_at)
            SELECT id, now(), 'cancelled', CASE WHEN NOT may_be_at_broker(id, jobs, expires_at) THEN now() END FROM stopped
            """,
            // Without a delivery it gets no outcome at whose end the next update goes. That one asks for its turn. If it waited itself,
            // nothing waits any more. The end of a channel has ended nothing if it did not arrive at APNs.
            """
            WITH stopped AS (
                SELECT id, app_id, purpose, activity_owner(target_user, target_installation) AS owned_by FROM notifications
                WHERE app_id = \(app.id) AND id = \(id) AND state = 'cancelled' AND completed_at IS NOT NULL LIMIT 1
            ), taken_back AS (
                UPDATE update_targets a SET is_waiting = a.is_waiting AND a.newest IS DISTINCT FROM s.id,
                    ended_at = CASE WHEN a.unconfirmed_end = s.id THEN a.ended_before ELSE a.ended_at END,
                    ended_before = CASE WHEN a.unconfirmed_end IS DISTINCT FROM s.id THEN a.ended_before END,
                    unconfirmed_end = nullif(a.unconfirmed_end, s.id)
                FROM stopped s
                WHERE a.app_id = s.app_id AND a.owned_by = s.owned_by AND a.id = substr(s.purpose, strpos(s.purpose, ':') + 1)
                    AND (a.unconfirmed_end = s.id OR a.newest = s.id AND a.is_waiting)
            ), waiting AS (
                SELECT a.newest FROM stopped s
                JOIN update_targets a ON a.app_id = s.app_id AND a.owned_by = s.owned_by
                    AND a.id = substr(s.purpose, strpos(s.purpose, ':') + 1)
                WHERE a.sending = s.id AND a.is_waiting
            )
            UPDATE fan_outs SET free_from = now(), due_at = now()
            WHERE notification = (SELECT newest FROM waiting) AND free_from > now()
            """,
            """
            SELECT n.state, n.pending, c.at AS cancelled_at, c.published_at IS NOT NULL AS is_published,
                c.notification IS NOT NULL AND f.notification IS NOT NULL AND f.ended_at IS NULL AS is_cut_short,
                k.notification AS copy, k.at AS copy_cancelled_at
            FROM notifications n LEFT JOIN cancellations c ON c.notification = n.id LEFT JOIN fan_outs f ON f.notification = n.id
            LEFT JOIN LATERAL (
                SELECT k.notification, k.at
                FROM activities a
                JOIN notifications m ON m.app_id = a.app_id AND m.id IN (a.newest, a.sending) AND m.copy_of = n.id
                JOIN cancellations k ON k.notification = m.id AND (k.published_at IS NULL) IS TRUE
                WHERE n.purpose LIKE 'activity:%' AND a.app_id = n.app_id
                    AND a.owned_by = activity_owner(n.target_user, n.target_installation) AND a.id = substr(n.purpose, 10) LIMIT 1
            ) AS k ON true
            WHERE n.app_id = \(app.id) AND n.id = \(id)
            """,
        ])
        guard let row = answers[4].first else { throw APIError.notFound }
        let copy: PushID? = try row["copy"]
        let copyCancelledAt: Int64? = try row.milliseconds("copy_cancelled_at")
        let pending: Int32 = try row["pending"]
        return Stopped(
            id: id, state: try row["state"], pending: Int(pending), cancelledAt: try row.milliseconds("cancelled_at"),
            isPublished: try row["is_published"], isCutShort: try row["is_cut_short"],
            copy: copy.flatMap { copy in copyCancelledAt.map { CancellationOutbox.Unpublished(id: copy, app: app.slug, cancelledAt: $0) } })
    }
}
