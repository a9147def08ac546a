package import Postgres
package import PushModel
package import TokenServiceApps
package import TokenServiceKit
import TokenServiceRegistry

/// The messages of every app's webhooks, within one transaction: what the feeds of events queue and the dispatcher sends. ``WebhookStore``
/// is the side of the webhooks' owners.
package struct WebhookQueue {
    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// Messages that one transaction queues, of all webhooks.
    package static let insertedAtOnce = 2000

    // MARK: Events

    /// Every enabled webhook, by app.
    package func subscriptions() throws -> [AppSlug: [Webhook.Subscription]] {
        let rows = try session.execute("SELECT id, app_id, app, events FROM current_webhooks WHERE disabled_reason IS NULL")
        let all = try rows.map { row in
            Webhook.Subscription(
                id: try row["id"], app: try row["app_id"], slug: try row["app"], events: try WebhookFilter.filters(row["events"]))
        }
        return Dictionary(grouping: all, by: \.slug)
    }

    /// Queues messages that are not queued yet, none for a webhook that is disabled or gone. The statement locks the webhooks before it
    /// inserts, in the same order as their deletion, so that the two cannot deadlock.
    package func insert(_ messages: [WebhookMessage.New]) throws {
        guard !messages.isEmpty else { return }
        let webhooks = messages.map(\.webhook)
        try session.execute(
            """
            WITH enabled AS (
                SELECT id FROM webhooks WHERE id = ANY (\(webhooks)) AND disabled_reason IS NULL ORDER BY id FOR KEY SHARE
            )
            INSERT INTO webhook_messages (webhook, id, topic, body, created_at, due_at)
            SELECT m.webhook, m.id, m.topic, m.body, now(), now()
            FROM unnest(\(webhooks)::uuid[], \(messages.map(\.id))::uuid[], \(messages.map(\.topic))::text[],
                \(messages.map(\.body))::bytea[])
                AS m (webhook, id, topic, body)
            JOIN enabled ON enabled.id = m.webhook
            ON CONFLICT DO NOTHING
            """)
    }

    // MARK: Removed webhooks

    /// Finds the webhooks that were deleted more than a minute ago: their requests were cut off.
    func unfinishedDeletions() throws -> [PushID] {
        try session.execute(
            """
            SELECT id FROM webhooks WHERE disabled_reason = 'deleted' AND disabled_at < now() - interval '1 minute'
            ORDER BY disabled_at LIMIT 100
            """
        ).column("id")
    }

    /// The second step of a removal, until it returns nil: removes the next messages, of which there may be millions.
    /// - Returns: the last one. The housekeeping may have removed them meanwhile.
    package func deleteMessages(of id: PushID, after last: PushID) throws -> PushID? {
        let found: [PushID] = try session.execute(
            "SELECT id FROM webhook_messages WHERE webhook = \(id) AND id > \(last) ORDER BY id LIMIT \(WebhookStore.batch)"
        ).column("id")
        try session.execute(
            """
            DELETE FROM webhook_messages WHERE webhook = \(id) AND id = ANY (\(found))
                AND EXISTS (SELECT FROM webhooks WHERE id = \(id) AND disabled_reason = 'deleted')
            """)
        return found.last
    }

    /// The last step.
    func delete(_ id: PushID) throws {
        try session.execute("DELETE FROM webhooks WHERE id = \(id) AND disabled_reason = 'deleted'")
    }

    // MARK: Deliveries

    /// Takes messages that are due: of each webhook `perWebhook` less those under way, of a failing webhook a single one, of each app
    /// `perApp` less those under way. The apps with the fewest under way come first, and of these the webhooks with the fewest.
    /// - Parameters:
    ///   - underWay: By webhook, in this process.
    ///   - limit: Of all webhooks together.
    ///   - marks: See ``LowWater``.
    package func claim(
        underWay: [PushID: Int], perWebhook: Int, perApp: Int, limit: Int, from marks: LowWater<PushID>.Marks = .init(),
        leaseSeconds: Double
    ) throws -> [WebhookMessage.Claimed] {
        let (busy, since) = (Self.object(underWay), Self.object(marks.exceptions))
        return try session.execute(
            """
            WITH loads AS (
                SELECT app_id, coalesce(sum(((SELECT \(busy)::text::jsonb) ->> id::text)::bigint), 0)::bigint AS busy
                FROM webhooks GROUP BY app_id ORDER BY 2, random()
            ), due AS (
                -- In the order of the apps' loads. A limit ends the search, so that no more messages are locked than are taken.
                SELECT l.app_id, m.* FROM loads l CROSS JOIN LATERAL (
                    SELECT w.id AS webhook, m.id, w.url, w.secret, w.previous_secret
                    FROM (
                        SELECT w.*, coalesce(((SELECT \(busy)::text::jsonb) ->> w.id::text)::bigint, 0) AS busy,
                            coalesce(
                                to_timestamp(((SELECT \(since)::text::jsonb) ->> w.id::text)::float8 / 1000),
                                \(milliseconds: marks.floor)) AS since
                        FROM current_webhooks w WHERE w.app_id = l.app_id AND w.disabled_reason IS NULL ORDER BY busy, random()
                    ) AS w
                    CROSS JOIN LATERAL (
                        SELECT id FROM webhook_messages
                        WHERE webhook = w.id AND state = 'pending' AND due_at >= w.since AND due_at <= now() ORDER BY due_at
                        LIMIT greatest(0, CASE WHEN w.failing_since IS NULL THEN \(perWebhook) ELSE 1 END - w.busy)
                        FOR NO KEY UPDATE SKIP LOCKED
                    ) AS m
                    LIMIT greatest(0, \(perApp) - l.busy)
                ) AS m
                LIMIT \(limit)
            )
            UPDATE webhook_messages m SET attempts = m.attempts + 1, due_at = now() + \(leaseSeconds) * interval '1 second' FROM due
            WHERE m.webhook = due.webhook AND m.id = due.id
            RETURNING due.app_id, m.webhook, m.id, m.body, m.attempts, due.url, due.secret, due.previous_secret
            """
        ).map { row in
            let (attempts, secret, previous): (Int32, [UInt8], [UInt8]?) = (
                try row["attempts"], try row["secret"], try row["previous_secret"]
            )
            return WebhookMessage.Claimed(
                app: try row["app_id"], webhook: try row["webhook"], id: try row["id"], body: try row["body"], attempts: Int(attempts),
                url: try row["url"], secrets: [secret, previous].compactMap { $0.map(WebhookSecret.init) })
        }
    }

    /// Records the result of an attempt.
    /// - Parameters:
    ///   - delay: Until the next attempt, if this one failed; nil if none follows.
    ///   - disableAfterDays: Without a delivery.
    /// - Returns: why this disabled the webhook, if it did.
    package func record(
        _ outcome: WebhookAttempt.Outcome, of message: WebhookMessage.Claimed, delay: Duration?, disableAfterDays: Int
    ) throws -> Webhook.DisabledReason? {
        // The webhook before its message: in the order of a deletion.
        let isDelivered = outcome.result == .delivered
        let reason =
            isDelivered
            ? try recordSuccess(message.webhook) : try recordFailure(outcome, message.webhook, disableAfterDays: disableAfterDays)
        let state = isDelivered ? WebhookMessage.State.delivered : delay == nil ? .failed : .pending
        try session.execute(
            """
            UPDATE webhook_messages SET state = \(state), settled_at = CASE WHEN \(state) <> 'pending' THEN now() END,
                due_at = CASE \(state) WHEN 'pending' THEN now() + \(delay.map { $0 / .seconds(1) }) * interval '1 second' ELSE due_at END,
                last_at = now(), last_status = \(outcome.status)::smallint, last_error = \(outcome.error)
            WHERE webhook = \(message.webhook) AND id = \(message.id) AND settled_at IS NULL
            """)
        return reason
    }

    /// Records a success, not that of every delivery: that would write the webhook's row as often as all its messages.
    private func recordSuccess(_ webhook: PushID) throws -> Webhook.DisabledReason? {
        try session.execute(
            """
            UPDATE webhooks SET failing_since = NULL, last_success_at = now()
            WHERE id = \(webhook)
                AND (failing_since IS NOT NULL OR last_success_at IS NULL OR last_success_at < now() - interval '10 seconds')
            """)
        return nil
    }

    private func recordFailure(_ outcome: WebhookAttempt.Outcome, _ webhook: PushID, disableAfterDays: Int) throws -> Webhook
        .DisabledReason?
    {
        let enabled = try session.execute(
            """
            SELECT coalesce(failing_since < now() - \(disableAfterDays) * interval '1 day', false) AS is_failing FROM webhooks
            WHERE id = \(webhook) AND disabled_reason IS NULL FOR NO KEY UPDATE
            """
        ).first
        guard let enabled else { return nil }
        let reason: Webhook.DisabledReason? = outcome.result == .gone ? .gone : try enabled["is_failing"] ? .failing : nil
        try session.execute(
            """
            UPDATE webhooks SET failing_since = coalesce(failing_since, now()), last_failure_at = now(), last_failure = \(outcome.error),
                disabled_reason = \(reason), disabled_at = CASE WHEN \(reason)::text IS NOT NULL THEN now() END
            WHERE id = \(webhook)
            """)
        return reason
    }

    // MARK: What waits

    /// Moments are UNIX milliseconds.
    package struct Waiting: Sendable {
        /// The moment of ``LowWater/clock`` before the search.
        package var now: Int64
        /// When the message became due that has been due for longest: of each webhook that has one, enabled or not. A webhook that is
        /// enabled again goes on with the messages that it had.
        package var oldest: [PushID: Int64] = [:]
        /// How many seconds the message of an enabled webhook that has been due for longest has waited for an attempt.
        package var lag = 0.0
    }

    /// - Parameter marks: See ``LowWater``.
    package func search(from marks: LowWater<PushID>.Marks = .init()) throws -> Waiting {
        let since = Self.object(marks.exceptions)
        let answers = try session.pipeline([
            LowWater<PushID>.clock,
            """
            SELECT w.id, oldest.due_at, w.disabled_reason IS NULL AS is_enabled,
                extract(epoch FROM now() - oldest.due_at)::float8 AS seconds
            FROM webhooks w
            CROSS JOIN LATERAL (
                SELECT m.due_at FROM webhook_messages m
                WHERE m.webhook = w.id AND m.state = 'pending' AND m.due_at >= coalesce(
                        to_timestamp(((SELECT \(since)::text::jsonb) ->> w.id::text)::float8 / 1000), \(milliseconds: marks.floor))
                    AND m.due_at <= now()
                ORDER BY m.due_at LIMIT 1
            ) AS oldest
            """,
        ])
        var found = Waiting(now: try answers[0].only().milliseconds("now"))
        for row in answers[1] {
            found.oldest[try row["id"]] = try row.milliseconds("due_at")
            if try row["is_enabled"] { found.lag = max(found.lag, try row["seconds"]) }
        }
        return found
    }

    /// A JSON object in which PostgreSQL finds a webhook's value at once, in a subquery that it runs once. A join would compare each
    /// webhook with each value: the service lets the planner make no hash.
    private static func object(_ values: [PushID: some BinaryInteger]) -> String {
        "{" + values.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",") + "}"
    }

    /// The enabled ones.
    package func enabled() throws -> [PushID] {
        try session.execute("SELECT id FROM webhooks WHERE disabled_reason IS NULL ORDER BY id").column("id")
    }

    /// Disables a webhook for which more than `limit` messages wait. One that was enabled again sends its backlog first: for a day, twice
    /// as many may wait.
    /// - Parameter mark: None that waits is due before: UNIX milliseconds. See ``LowWater``.
    /// - Returns: whether it did.
    package func disableOverfull(_ webhook: PushID, limit: Int, from mark: Int64 = 0) throws -> Bool {
        try session.execute(
            """
            UPDATE webhooks w SET disabled_reason = 'backlog_full', disabled_at = now()
            WHERE id = \(webhook) AND disabled_reason IS NULL AND (
                SELECT count(*) FROM (
                    SELECT FROM webhook_messages m
                    WHERE m.webhook = w.id AND m.state = 'pending' AND m.due_at >= \(milliseconds: mark)
                    LIMIT CASE WHEN w.limited_from <= now() THEN 1 ELSE 2 END * \(limit)::bigint + 1
                ) AS waiting
            ) > CASE WHEN w.limited_from <= now() THEN 1 ELSE 2 END * \(limit)::bigint
            """
        ).affected == 1
    }
}

extension Webhook.DisabledReason: PostgresEncodable, PostgresDecodable {}
extension WebhookMessage.State: PostgresEncodable, PostgresDecodable {}

/// Removes webhooks whose removal has begun (``WebhookStore/beginDeletion(_:by:)``). A webhook may have millions of messages.
struct WebhookRemoval: Sendable {
    let pool: PostgresPool

    func finish(_ id: PushID) async throws {
        var last: PushID? = .lowest
        while let from = last {
            last = try await pool.session { session in try WebhookQueue(session: session).deleteMessages(of: id, after: from) }
        }
        // Another process may have removed it meanwhile.
        try await pool.session { session in try WebhookQueue(session: session).delete(id) }
    }

    /// Goes on with those whose request was cut off.
    func finishOthers() async throws {
        let begun = try await pool.session { session in try WebhookQueue(session: session).unfinishedDeletions() }
        var firstError: (any Error)?
        for id in begun {
            do { try await finish(id) } catch {
                guard Refusal(error) != .outage, !Task.isCancelled else { throw error }
                firstError = firstError ?? error
            }
        }
        if let firstError { throw firstError }
    }
}

/// One event on its way to one webhook.
package struct WebhookMessage: Equatable, Sendable {
    package enum State: String, CaseIterable, Sendable {
        case pending, delivered, failed
    }

    /// The event's: `webhook-id`, the same on every attempt.
    package var id: PushID
    package var topic: String
    package var state: State
    package var attempts: Int
    /// UNIX milliseconds, as are the others.
    package var createdAt: Int64
    /// The time before which a pending message is not tried (again).
    package var dueAt: Int64
    package var settledAt: Int64?
    package var lastAt: Int64?
    package var lastStatus: Int?
    package var lastError: String?

    package struct New: Equatable, Sendable {
        package var webhook: PushID
        package var id: PushID
        package var topic: String
        package var body: [UInt8]
    }

    /// A message that this process has for itself, until the lease runs out.
    package struct Claimed: Equatable, Sendable {
        package var app: App.ID
        package var webhook: PushID
        package var id: PushID
        package var body: [UInt8]
        /// This one included.
        package var attempts: Int
        package var url: String
        package var secrets: [WebhookSecret]

        package init(
            app: App.ID, webhook: PushID, id: PushID, body: [UInt8], attempts: Int, url: String, secrets: [WebhookSecret]
        ) {
            self.app = app
            self.webhook = webhook
            self.id = id
            self.body = body
            self.attempts = attempts
            self.url = url
            self.secrets = secrets
        }
    }
}
