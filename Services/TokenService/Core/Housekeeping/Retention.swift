package import Postgres
package import PushModel

/// Removes what nobody needs any more, step by step: bounded batches, by index, each far below a statement's time limit.
package struct Retention {
    /// What is removed; the metric's dimension.
    package enum Kind: String, Sendable {
        case history, tokens, notifications, fences, quarantine
        case idempotencyRecords = "idempotency_records"
        case outcomeCounts = "outcome_counts"
        case tokenMoves = "token_moves"
        case notificationEvents = "notification_events"
        case webhookMessages = "webhook_messages"
    }

    package static let historyBatch: Int64 = 5000
    package static let tokenBatch: Int64 = 500
    package static let notificationBatch: Int64 = 200

    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    package struct Step: Equatable, Sendable {
        package var removed = 0
        /// Nothing older follows.
        package var isDone = false

        package init(removed: Int = 0, isDone: Bool = false) {
            self.removed = removed
            self.isDone = isDone
        }
    }

    /// One step of a sweep, the oldest first.
    package func sweep(_ sweep: Sweep, limit: Int64 = Sweep.batch) throws -> Step {
        let removed = try session.execute(sweep.statement, [.int32(Int32(sweep.days)), .int64(limit)]).affected
        return Step(removed: removed, isDone: removed < limit)
    }

    /// The history's oldest rows. Its ids grow with time, so the walk is over where a page holds nothing old any more.
    package func removeHistory(olderThan days: Int, limit: Int64 = historyBatch) throws -> Step {
        let removed = try session.execute(Self.history, [.int32(Int32(days)), .int64(limit)]).affected
        return Step(removed: removed, isDone: removed == 0)
    }

    /// Retired tokens to which nothing was sent since; quarantine ends in its own time. Their installations are locked first: a registration that brings a token back
    /// to life has read its row under that lock.
    package func removeTokens(olderThan days: Int, limit: Int64 = tokenBatch) throws -> Step {
        let found = try session.execute(Self.retired, [.int32(Int32(days)), .int64(limit)])
        guard !found.isEmpty else { return Step(isDone: true) }
        let ids: PostgresValue = .int64Array(try found.map { row in try row.int64(0) })
        try session.execute(
            Self.lockInstallations, [.int64Array(try found.map { row in try row.int64(1) }), .ids(try found.map { row in try row.id(2) })])
        let removed = try session.execute(Self.deleteTokens, [ids, .int32(Int32(days))]).affected
        return Step(removed: removed, isDone: removed < found.count || found.count < limit)
    }

    package struct Page: Sendable {
        package var finished: [PushID] = []
        /// Nil at the end of the walk.
        package var last: PushID?
    }

    /// Finished notifications after that one. Their ids begin with the time at which they were accepted, so the walk ends where
    /// younger ones begin.
    package func finishedNotifications(olderThan days: Int, after cursor: PushID) throws -> Page {
        let rows = try session.execute(Self.notifications, [.int32(Int32(days)), .id(cursor), .int64(Self.notificationBatch)])
        var page = Page()
        for row in rows {
            let id = try row.id(0)
            if try row.bool(1) { page.finished.append(id) }
            page.last = try row.bool(2) ? id : nil
        }
        return page
    }

    private static let history: PostgresStatement = """
        DELETE FROM installation_history h
        USING (SELECT id, at FROM installation_history ORDER BY id LIMIT $2) AS oldest
        WHERE h.id = oldest.id AND oldest.at < now() - make_interval(days => $1)
        """
    private static let retired: PostgresStatement = """
        SELECT t.id, t.app_id, t.installation FROM tokens t
        WHERE t.retired_at < now() - make_interval(days => $1)
            AND t.quarantined_at IS NULL
            AND NOT EXISTS (
                SELECT FROM deliveries d WHERE d.installation = t.installation AND d.token_id = t.id
                    AND (d.class IS NULL OR d.updated_at > now() - make_interval(days => $1)))
        ORDER BY t.retired_at, t.id LIMIT $2
        """
    private static let lockInstallations: PostgresStatement = """
        SELECT count(*) FROM (
            SELECT id FROM installations WHERE (app_id, id) IN (SELECT * FROM unnest($1::bigint[], $2::uuid[]))
            ORDER BY app_id, id FOR NO KEY UPDATE
        ) AS locked
        """
    /// The conditions again: a token may have come back to life before the locks were granted.
    private static let deleteTokens: PostgresStatement = """
        WITH locked AS (
            SELECT id FROM tokens
            WHERE id = ANY ($1::bigint[]) AND retired_at < now() - make_interval(days => $2)
                AND quarantined_at IS NULL
            ORDER BY id FOR UPDATE
        )
        DELETE FROM tokens t USING locked WHERE t.id = locked.id
        """
    private static let notifications: PostgresStatement = """
        SELECT id, completed_at IS NOT NULL AND completed_at < now() - make_interval(days => $1),
            accepted_at < now() - make_interval(days => $1)
        FROM notifications WHERE id > $2 ORDER BY id LIMIT $3
        """
}
