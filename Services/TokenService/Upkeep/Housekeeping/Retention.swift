package import Postgres
import PushModel
import TokenServiceApps
import TokenServiceRegistry

/// Removes rows past their retention that do not go with a partition, step by step: each step is bounded, goes by an index and takes far
/// less than a statement's time limit.
package struct Retention {
    /// The kind of removed rows; the metric's dimension.
    package enum Kind: String, CaseIterable, Sendable {
        case tokens, fences, quarantine, activities, channels, holds
        case activityTokens = "activity_tokens"
        case doubtfulTokens = "doubtful_tokens"
        case outcomeCounts = "outcome_counts"
        case tokenMoves = "token_moves"
        case signOuts = "sign_outs"
        case notificationEvents = "notification_events"
        case unreadEvents = "unread_events"
        case webhookMessages = "webhook_messages"
    }

    package static let tokenBatch = 500

    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    package struct Step: Equatable, Sendable {
        package var removed: Int
        /// The step found fewer rows than it may remove. Rows that become old during a sweep are left to the next round: if each step
        /// looked for them, a sweep would not end where they come faster than the pauses let it remove them.
        package var isDone: Bool
        /// Where the next step begins: the moment of the newest row that this one found, in UNIX milliseconds, or its number if the rows
        /// are in the order of numbers. Nil if it found none.
        package var last: Int64?

        package init(removed: Int, isDone: Bool = false, last: Int64? = nil) {
            self.removed = removed
            self.isDone = isDone
            self.last = last
        }
    }

    /// One step of a sweep, the oldest first.
    /// - Parameter from: ``Step/last`` of the step before; 0 for the first one.
    package func sweep(_ sweep: Sweep, limit: Int = Sweep.batch, from: Int64 = 0) throws -> Step {
        let row = try session.execute(sweep.statement(limit, from)).only()
        let looked: Int = try row["looked"]
        return Step(removed: try row["count"], isDone: looked < limit, last: try row["last"])
    }

    /// Retired tokens without a push since; those in quarantine stay until it ends.
    /// - Parameter from: ``Step/last`` of the step before.
    package func removeTokens(olderThan days: Int, limit: Int = tokenBatch, from: Int64 = 0) throws -> Step {
        let found = try session.execute(
            """
            SELECT t.id, t.app_id, t.installation, t.retired_at FROM tokens t
            WHERE t.retired_at >= \(milliseconds: from) AND t.retired_at < now() - \(days) * interval '1 day' AND t.quarantined_at IS NULL
                AND NOT EXISTS (
                    SELECT FROM receipts r WHERE r.installation = t.installation AND r.token_id = t.id
                        AND (r.class IS NULL OR r.updated_at > now() - \(days) * interval '1 day'))
            ORDER BY t.retired_at, t.id LIMIT \(limit)
            """)
        let (ids, apps): ([Int64], [App.ID]) = (try found.column("id"), try found.column("app_id"))
        let installations: [PushID] = try found.column("installation")
        // A registration reads a token that it activates again under its installation's lock.
        try session.execute(
            """
            SELECT FROM installations WHERE (app_id, id) IN (SELECT * FROM unnest(\(apps)::bigint[], \(installations)::uuid[]))
            ORDER BY app_id, id FOR NO KEY UPDATE
            """)
        // Repeats the conditions: a registration may have activated a token before the locks were granted. IS TRUE: by the ids alone, not
        // by the index on retired tokens.
        let removed = try session.execute(
            """
            WITH locked AS (
                SELECT id FROM tokens
                WHERE id = ANY (\(ids)) AND (retired_at < now() - \(days) * interval '1 day' AND quarantined_at IS NULL) IS TRUE
                ORDER BY id FOR UPDATE
            )
            DELETE FROM tokens t USING locked WHERE t.id = locked.id
            """
        ).affected
        return Step(removed: removed, isDone: ids.count < limit, last: try found.last?.milliseconds("retired_at"))
    }

    /// Retires update tokens of Live Activities that the system has taken off the lock screen: twelve hours after the start it does, and a
    /// device reports a token after that. It commits.
    /// - Parameter from: ``Step/last`` of the step before.
    package func retireActivityTokens(limit: Int = tokenBatch, from: Int64 = 0) throws -> Step {
        let rows = try session.execute(
            """
            SELECT id, registered_at, now() - interval '12 hours' AS moment FROM tokens
            WHERE (state = 'active' AND purpose LIKE 'activity:%') IS TRUE AND registered_at >= \(milliseconds: from)
                AND registered_at < now() - interval '12 hours'
            ORDER BY registered_at LIMIT \(limit)
            """)
        let ids: [Int64] = try rows.column("id")
        guard let moment: Int64 = try rows.first?.milliseconds("moment") else { return Step(removed: 0, isDone: true) }
        let registry = RegistryStore(session: session)
        var batch = try registry.load(tokens: Set(ids), corrected: [])
        let retired = batch.apply(toTokens: ids.map { .retireActivity(token: $0, registeredUntil: moment) })
        try registry.save(batch, areTokensLocked: true)
        return Step(removed: retired, isDone: ids.count < limit, last: try rows.last?.milliseconds("registered_at"))
    }

    /// Lets a start through to tokens that have been doubtful for a day: their devices may have had no network. The next start that brings
    /// no report makes them doubtful again (``TokenState/countStart(sentAt:)``).
    /// - Parameter from: ``Step/last`` of the step before.
    package func probeDoubtfulTokens(limit: Int = tokenBatch, from: Int64 = 0) throws -> Step {
        let rows = try session.execute(
            """
            SELECT id, (silent_since < now() - interval '1 day') IS TRUE AS is_due FROM tokens
            WHERE (state = 'doubtful') IS TRUE AND id > \(from) ORDER BY id LIMIT \(limit)
            """)
        let ids: [Int64] = try rows.column("id")
        let due: [Int64] = try rows.filter { row in try row["is_due"] }.map { row in try row["id"] }
        var probed = 0
        if !due.isEmpty {
            // Another token in the place of one would be the device's newer one.
            probed = try session.execute(
                """
                WITH locked AS (
                    SELECT id FROM tokens WHERE id = ANY (\(due)) AND (state = 'doubtful') IS TRUE ORDER BY id FOR NO KEY UPDATE
                )
                UPDATE tokens t SET state = 'active' FROM locked
                WHERE t.id = locked.id AND NOT EXISTS (
                    SELECT FROM tokens o WHERE o.app_id = t.app_id AND o.ordinal = t.ordinal AND o.purpose = t.purpose
                        AND o.environment = t.environment AND o.state = 'active')
                """
            ).affected
        }
        return Step(removed: probed, isDone: ids.count < limit, last: ids.last)
    }
}
