package import Postgres
package import PushModel

/// The SQL that stops notifications. What is still to be published gets its outcome from the relay, what waits in the broker from the
/// dispatchers, which learn of it from the control stream.
package struct CancellationStore {
    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    package struct Stopped: Equatable, Sendable {
        package var id: PushID
        package var state: NotificationState
        package var pending: Int
        /// UNIX milliseconds; nil where it was too late.
        package var cancelledAt: Int64?
        /// The control stream has it.
        package var isPublished: Bool
        /// Its fan-out had not come to its end.
        package var isCutShort: Bool
    }

    /// - Returns: nil where the app has no such notification.
    package func cancel(_ id: PushID, app: App) throws -> Stopped? {
        let answers = try session.pipeline([
            """
            UPDATE notifications SET state = 'cancelled', cancelled_at = now(), cancel_reason = 'cancelled',
                expanded_at = coalesce(expanded_at, now()), completed_at = CASE WHEN pending = 0 THEN now() END, free_from = NULL,
                held_by = NULL
            WHERE app_id = \(app.id) AND id = \(id) AND state IN ('accepted', 'scheduled', 'expanding', 'sending')
            """,
            // A job that is due later or held is due now, to get its outcome. IS TRUE: not by the index on what is unpublished, of all
            // notifications.
            """
            UPDATE jobs SET free_from = now()
            WHERE notification = \(id) AND (published_at IS NULL) IS TRUE AND (due_at > now() OR held_by IS NOT NULL)
            """,
            """
            SELECT state, pending, cancelled_at, cancel_published_at IS NOT NULL AS is_published,
                coalesce(expanded_at = cancelled_at, false) AS is_cut_short
            FROM notifications WHERE app_id = \(app.id) AND id = \(id)
            """,
        ])
        guard let row = answers[2].first else { return nil }
        let pending: Int32 = try row["pending"]
        return Stopped(
            id: id, state: try row["state"], pending: Int(pending), cancelledAt: try row.milliseconds("cancelled_at"),
            isPublished: try row["is_published"], isCutShort: try row["is_cut_short"])
    }

    package struct Unpublished: Equatable, Sendable {
        package var id: PushID
        package var app: AppSlug
        package var cancelledAt: Int64
    }

    /// Cancellations that the control stream does not have: older than any answer waits, or made by a newer notification.
    package func leftOver(limit: Int) throws -> [Unpublished] {
        try session.execute(
            """
            SELECT n.id, a.slug, n.cancelled_at FROM notifications n JOIN apps a ON a.id = n.app_id
            WHERE n.cancelled_at IS NOT NULL AND n.cancel_published_at IS NULL
                AND (n.cancel_reason = 'superseded' OR n.cancelled_at < now() - interval '2 seconds')
            ORDER BY n.cancelled_at LIMIT \(limit)
            """
        ).map { row in Unpublished(id: try row["id"], app: try row["slug"], cancelledAt: try row.milliseconds("cancelled_at")) }
    }

    package func markPublished(_ ids: [PushID]) throws {
        guard !ids.isEmpty else { return }
        try session.execute(
            """
            WITH locked AS (
                SELECT n.id FROM unnest(\(ids)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id ORDER BY n.id FOR NO KEY UPDATE OF n
            )
            UPDATE notifications n SET cancel_published_at = now() FROM locked WHERE n.id = locked.id AND n.cancel_published_at IS NULL
            """)
    }

    /// With its notification's own insertion, so that the older ones end with the commit that accepts the newer one.
    static func supersede(_ older: NotificationStore.Supersession, with newer: PushID) -> PostgresQuery {
        """
        WITH older AS (
            SELECT id FROM notifications
            WHERE app_id = \(older.app) AND supersede_key = \(older.key) AND coalesce(target_user, target_installation::text) = \(older.target)
                AND completed_at IS NULL AND id <> \(newer) AND cancelled_at IS NULL
            ORDER BY id FOR NO KEY UPDATE
        )
        UPDATE notifications n SET state = 'cancelled', cancelled_at = now(), cancel_reason = 'superseded',
            expanded_at = coalesce(n.expanded_at, now()), completed_at = CASE WHEN n.pending = 0 THEN now() END, free_from = NULL,
            held_by = NULL
        FROM older WHERE n.id = older.id
        """
    }

    /// A statement of its own, which sees the jobs of a fan-out that the one before had to wait for.
    static func hastenSuperseded(_ older: NotificationStore.Supersession) -> PostgresQuery {
        """
        UPDATE jobs j SET free_from = now() FROM notifications n
        WHERE n.app_id = \(older.app) AND n.supersede_key = \(older.key)
            AND coalesce(n.target_user, n.target_installation::text) = \(older.target)
            AND n.completed_at IS NULL AND n.cancelled_at IS NOT NULL
            AND j.notification = n.id AND (j.published_at IS NULL) IS TRUE AND (j.due_at > now() OR j.held_by IS NOT NULL)
        """
    }
}
