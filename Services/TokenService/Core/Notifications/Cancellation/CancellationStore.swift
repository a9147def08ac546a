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
        /// Its walk had not come to its end.
        package var isCutShort: Bool
    }

    /// - Returns: nil where the app has no such notification.
    package func cancel(_ id: PushID, app: App) throws -> Stopped? {
        let parameters: [PostgresValue] = [.int64(app.id), .id(id)]
        let answers = try session.pipeline([(Self.cancel, parameters), (Self.hastenChunks, [.id(id)]), (Self.find, parameters)])
        guard let row = answers[2].first, let state = NotificationState(rawValue: try row.text(0)) else { return nil }
        return Stopped(
            id: id, state: state, pending: Int(try row.int32(1)), cancelledAt: try row.optionalTimestampMilliseconds(2),
            isPublished: try row.bool(3), isCutShort: try row.bool(4))
    }

    package struct Unpublished: Equatable, Sendable {
        package var id: PushID
        package var app: AppSlug
        package var cancelledAt: Int64
    }

    /// Cancellations that the control stream does not have: older than any answer waits, or made by a newer notification.
    package func leftOver(limit: Int) throws -> [Unpublished] {
        try session.execute(Self.leftOver, [.int64(Int64(limit))]).map { row in
            guard let app = AppSlug(try row.text(1)) else { throw CorruptRow(table: "apps") }
            return Unpublished(id: try row.id(0), app: app, cancelledAt: try row.timestampMilliseconds(2))
        }
    }

    package func markPublished(_ ids: [PushID]) throws {
        guard !ids.isEmpty else { return }
        try session.execute(Self.markPublished, [.ids(ids.sorted())])
    }

    /// With its notification's own insertion, so that the older ones end with the commit that accepts the newer one.
    static let supersede: PostgresStatement = """
        WITH older AS (
            SELECT id FROM notifications
            WHERE app_id = $1 AND supersede_key = $2 AND coalesce(target_user, target_installation::text) = $3
                AND completed_at IS NULL AND id <> $4 AND cancelled_at IS NULL
            ORDER BY id FOR NO KEY UPDATE
        )
        UPDATE notifications n SET state = 'cancelled', cancelled_at = now(), cancel_reason = 'superseded',
            published_at = CASE WHEN n.is_walked THEN coalesce(n.published_at, now()) ELSE n.published_at END,
            completed_at = CASE WHEN n.is_walked AND n.pending = 0 THEN now() END,
            free_from = CASE WHEN n.is_walked THEN NULL WHEN n.held_by IS NULL THEN n.free_from ELSE now() END
        FROM older WHERE n.id = older.id
        """
    /// A statement of its own, which sees the chunks of a walk that the one before had to wait for.
    static let hastenSuperseded: PostgresStatement = """
        UPDATE chunks c SET lease_until = now() FROM notifications n
        WHERE n.app_id = $1 AND n.supersede_key = $2 AND coalesce(n.target_user, n.target_installation::text) = $3
            AND n.completed_at IS NULL AND n.cancelled_at IS NOT NULL
            AND c.notification = n.id AND (c.published_at IS NULL) IS TRUE AND (c.due_at > now() OR c.held_by IS NOT NULL)
        """
    private static let cancel: PostgresStatement = """
        UPDATE notifications SET state = 'cancelled', cancelled_at = now(), cancel_reason = 'cancelled',
            published_at = CASE WHEN is_walked THEN coalesce(published_at, now()) ELSE published_at END,
            completed_at = CASE WHEN is_walked AND pending = 0 THEN now() END,
            free_from = CASE WHEN is_walked THEN NULL WHEN held_by IS NULL THEN free_from ELSE now() END
        WHERE app_id = $1 AND id = $2 AND state IN ('accepted', 'scheduled', 'expanding', 'sending')
        """
    /// What is due later or held is due now: to get its outcome. IS TRUE: not by the index on what is unpublished, of all notifications.
    private static let hastenChunks: PostgresStatement = """
        UPDATE chunks SET lease_until = now() WHERE notification = $1 AND (published_at IS NULL) IS TRUE AND (due_at > now() OR held_by IS NOT NULL)
        """
    private static let find: PostgresStatement = """
        SELECT state, pending, cancelled_at, cancel_published_at IS NOT NULL, coalesce(is_walked AND published_at = cancelled_at, false)
        FROM notifications WHERE app_id = $1 AND id = $2
        """
    private static let leftOver: PostgresStatement = """
        SELECT n.id, a.slug, n.cancelled_at FROM notifications n JOIN apps a ON a.id = n.app_id
        WHERE n.cancelled_at IS NOT NULL AND n.cancel_published_at IS NULL
            AND (n.cancel_reason = 'superseded' OR n.cancelled_at < now() - interval '2 seconds')
        ORDER BY n.cancelled_at LIMIT $1
        """
    private static let markPublished: PostgresStatement = """
        WITH locked AS (SELECT id FROM notifications WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE)
        UPDATE notifications n SET cancel_published_at = now() FROM locked WHERE n.id = locked.id AND n.cancel_published_at IS NULL
        """
}
