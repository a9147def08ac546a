package import Postgres
package import PushModel

/// The tables of webhooks, within one transaction: the side of their owners and of the events.
package struct WebhookStore {
    let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// Messages that one statement changes or removes.
    package static let batch = 1000
    /// Messages that one transaction queues, of all webhooks.
    package static let insertedAtOnce = 2000
    /// Messages that a page of one state reads, at most. The statements have the number as a literal, as in ``InstallationStore``.
    package static let scannedPerPage = 5000

    /// More than an app may have.
    package struct TooMany: Error {}

    // MARK: Webhooks

    /// - Throws: ``TooMany``
    package func create(_ new: Webhook.New, secret: WebhookSecret, app: App, by actor: AuditActor) throws -> Webhook {
        try lock(app)
        let count: Int = try session.execute("SELECT count(*) AS count FROM current_webhooks WHERE app_id = \(app.id)").only()["count"]
        guard count < Webhook.maximumPerApp else { throw TooMany() }
        let id = PushID.timeOrdered(milliseconds: UnixTime.milliseconds())
        try session.execute(
            """
            INSERT INTO webhooks (id, app_id, url, events, description, secret)
            VALUES (\(id), \(app.id), \(new.url.text), \(new.events.map(\.text)), \(new.description), \(secret.bytes))
            """)
        try noteInterest(of: app.id)
        try record(.webhookCreated, id, app, actor)
        return try Webhook(session.execute("SELECT * FROM current_webhooks WHERE id = \(id)").only())
    }

    package func all(of app: App) throws -> [Webhook] {
        try session.execute("SELECT * FROM current_webhooks WHERE app_id = \(app.id) ORDER BY id").map { row in try Webhook(row) }
    }

    package func find(_ id: PushID, app: App) throws -> Webhook? {
        try session.execute("SELECT * FROM current_webhooks WHERE app_id = \(app.id) AND id = \(id)").first.map { row in try Webhook(row) }
    }

    package struct Changed: Sendable {
        package var webhook: Webhook
        /// It was disabled until this change.
        package var isEnabledAgain: Bool
    }

    /// A webhook that is enabled again forgets why it was disabled, and has a day to send what waits: until then, twice as many may wait. To
    /// have every waiting message due at once, call ``hasten(_:after:)`` until it returns nil.
    /// A change that leaves everything as it was writes nothing, in the audit trail neither.
    /// - Returns: nil where the app has no such webhook.
    package func change(_ id: PushID, _ change: Webhook.Change, app: App, by actor: AuditActor) throws -> Changed? {
        try lock(app)
        // The dispatcher may disable it at this moment.
        try session.execute("SELECT FROM webhooks WHERE app_id = \(app.id) AND id = \(id) FOR NO KEY UPDATE")
        guard let before = try find(id, app: app) else { return nil }
        var webhook = before
        let isEnabledAgain = change.isEnabled == true && webhook.disabledReason != nil
        if let url = change.url { webhook.url = url }
        if let events = change.events { webhook.events = events }
        if let description = change.description { webhook.description = description }
        if isEnabledAgain { (webhook.disabledReason, webhook.failingSince) = (nil, nil) }
        if change.isEnabled == false, webhook.disabledReason == nil { webhook.disabledReason = .byRequest }
        guard webhook != before || !webhook.description.hasSameBytes(as: before.description) else {
            return Changed(webhook: before, isEnabledAgain: false)
        }
        try session.execute(
            """
            UPDATE webhooks SET url = \(webhook.url.text), events = \(webhook.events.map(\.text)), description = \(webhook.description),
                disabled_reason = \(webhook.disabledReason),
                disabled_at = CASE WHEN \(webhook.disabledReason)::text IS NOT NULL THEN coalesce(disabled_at, now()) END,
                failing_since = \(milliseconds: webhook.failingSince),
                limited_from = CASE WHEN \(isEnabledAgain) THEN now() + interval '1 day' ELSE limited_from END
            WHERE id = \(id)
            """)
        try noteInterest(of: app.id)
        try record(.webhookChanged, id, app, actor)
        return try find(id, app: app).map { webhook in Changed(webhook: webhook, isEnabledAgain: isEnabledAgain) }
    }

    /// Makes the next messages that wait for another attempt due at once.
    /// - Parameter last: The moment that the step before returned: UNIX milliseconds. A step that began at the left end of the index would read
    ///   past the entries of all steps before, as long as a snapshot is open.
    /// - Returns: nil if none is left.
    package func hasten(_ id: PushID, after last: Int64 = 0) throws -> Int64? {
        let row = try session.execute(
            """
            WITH found AS (
                SELECT id, due_at FROM webhook_messages
                WHERE webhook = \(id) AND state = 'pending' AND due_at > now() AND due_at >= \(milliseconds: last)
                ORDER BY due_at LIMIT \(Self.batch) FOR NO KEY UPDATE SKIP LOCKED
            ), hastened AS (
                UPDATE webhook_messages SET due_at = now() WHERE webhook = \(id) AND id = ANY (ARRAY(SELECT id FROM found))
            )
            SELECT count(*) AS count, max(due_at) AS last FROM found
            """
        ).only()
        let count: Int = try row["count"]
        return count < Self.batch ? nil : try row.milliseconds("last")
    }

    /// The first step of a removal, and its entry in the audit trail: from then on the app has no such webhook, and no message comes any
    /// more. A repetition changes nothing. ``WebhookRemoval`` does the rest.
    /// - Returns: whether there is one, or one that is still being removed.
    package func beginDeletion(_ id: PushID, app: App, by actor: AuditActor) throws -> Bool {
        try lock(app)
        let deleted = try session.execute(
            """
            UPDATE webhooks SET disabled_reason = 'deleted', disabled_at = now()
            WHERE app_id = \(app.id) AND id = \(id) AND disabled_reason IS DISTINCT FROM 'deleted'
            """
        ).affected
        guard deleted == 1 else {
            return try session.execute("SELECT id FROM webhooks WHERE app_id = \(app.id) AND id = \(id)").first != nil
        }
        try noteInterest(of: app.id)
        try record(.webhookDeleted, id, app, actor)
        return true
    }

    /// Those deleted more than a minute ago: their requests were cut off.
    func unfinishedDeletions() throws -> [PushID] {
        try session.execute(
            """
            SELECT id FROM webhooks WHERE disabled_reason = 'deleted' AND disabled_at < now() - interval '1 minute'
            ORDER BY disabled_at LIMIT 100
            """
        ).column("id")
    }

    /// The second step, until it returns nil: removes the next messages, of which there may be millions.
    /// - Returns: the last one. The housekeeping may have removed them meanwhile.
    package func deleteMessages(of id: PushID, after last: PushID) throws -> PushID? {
        let found: [PushID] = try session.execute(
            "SELECT id FROM webhook_messages WHERE webhook = \(id) AND id > \(last) ORDER BY id LIMIT \(Self.batch)"
        ).column("id")
        try session.execute("DELETE FROM webhook_messages WHERE webhook = \(id) AND id = ANY (\(found))")
        return found.last
    }

    /// The last step.
    func delete(_ id: PushID) throws {
        try session.execute("DELETE FROM webhooks WHERE id = \(id) AND disabled_reason = 'deleted'")
    }

    /// The present secret becomes the previous one; messages are signed with both until the overlap ends.
    package func rotate(
        _ id: PushID, to secret: WebhookSecret, overlapSeconds: Int64, app: App, by actor: AuditActor
    ) throws -> Webhook? {
        let rotated = try session.execute(
            """
            UPDATE webhooks SET previous_secret = secret, previous_until = now() + \(overlapSeconds) * interval '1 second',
                secret = \(secret.bytes)
            WHERE app_id = \(app.id) AND id = \(id) AND disabled_reason IS DISTINCT FROM 'deleted'
            """)
        if rotated.affected == 1 { try record(.webhookRotated, id, app, actor) }
        return try find(id, app: app)
    }

    private func record(_ action: AuditAction, _ id: PushID, _ app: App, _ actor: AuditActor, count: Int? = nil) throws {
        try AuditStore(session: session).record(action, by: actor, app: app.slug, object: id.description, count: count)
    }

    /// One change at a time, so that the number of webhooks and `reports_notifications` are right.
    private func lock(_ app: App) throws { try session.execute("SELECT FROM apps WHERE id = \(app.id) FOR NO KEY UPDATE") }

    /// Records whether the app's event stream or a webhook of it wants events of notifications. The app's row is locked.
    package func noteInterest(of app: App.ID) throws {
        let streamed: [String] = try session.execute("SELECT event_stream FROM apps WHERE id = \(app)").only()["event_stream"]
        let filters = try session.execute("SELECT events FROM webhooks WHERE app_id = \(app) AND disabled_reason IS NULL").flatMap { row in
            try WebhookFilter.filters(row["events"])
        }
        let isWanted =
            streamed.contains(EventLog.notifications.rawValue) || filters.contains { EventTopic.notifications.contains(where: $0.admits) }
        try session.execute(
            "UPDATE apps SET reports_notifications = \(isWanted) WHERE id = \(app) AND reports_notifications <> \(isWanted)")
    }

    // MARK: Events

    /// Every enabled webhook.
    package func subscriptions() throws -> [Webhook.Subscription] {
        try session.execute("SELECT id, app_id, app, events FROM current_webhooks WHERE disabled_reason IS NULL").map { row in
            Webhook.Subscription(
                id: try row["id"], app: try row["app_id"], slug: try row["app"], events: try WebhookFilter.filters(row["events"]))
        }
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
            FROM unnest(\(webhooks)::uuid[], \(messages.map(\.id))::uuid[], \(messages.map(\.topic))::text[], \(messages.map(\.body))::bytea[])
                AS m (webhook, id, topic, body)
            JOIN enabled ON enabled.id = m.webhook
            ON CONFLICT DO NOTHING
            """)
    }

    // MARK: Messages

    /// The newest first.
    /// - Returns: A page, and where the next one begins if more may follow. Of one state it may have fewer than the limit, even none.
    package func messages(
        of id: PushID, state: WebhookMessage.State?, before: PushID?, limit: Int
    ) throws -> (messages: [WebhookMessage], next: PushID?) {
        let end = before ?? PushID(high: .max, low: .max)
        let found = try (state == .failed ? failed(of: id, before: end, limit: limit + 1) : scan(id, state, before: end, limit: limit + 1))
            .map { row in try WebhookMessage(row) }
        if found.count > limit { return (Array(found.prefix(limit)), found[limit - 1].id) }
        guard state == .pending || state == .delivered else { return (found, nil) }
        let last = try session.execute(
            "SELECT id FROM webhook_messages WHERE webhook = \(id) AND id < \(end) ORDER BY id DESC OFFSET 4999 LIMIT 1"
        ).first
        return (found, try last?["id"])
    }

    private func failed(of id: PushID, before end: PushID, limit: Int) throws -> PostgresRows {
        try session.execute(
            """
            SELECT id, topic, state, attempts, created_at, due_at, settled_at, last_at, last_status, last_error FROM webhook_messages
            WHERE webhook = \(id) AND state = 'failed' AND id < \(end) ORDER BY id DESC LIMIT \(limit)
            """)
    }

    private func scan(_ id: PushID, _ state: WebhookMessage.State?, before end: PushID, limit: Int) throws -> PostgresRows {
        try session.execute(
            """
            SELECT * FROM (
                SELECT id, topic, state, attempts, created_at, due_at, settled_at, last_at, last_status, last_error FROM webhook_messages
                WHERE webhook = \(id) AND id < \(end) ORDER BY id DESC LIMIT 5000
            ) AS scanned
            WHERE \(state)::text IS NULL OR state = \(state) ORDER BY id DESC LIMIT \(limit)
            """)
    }

    /// Queues a ping.
    /// - Returns: nil where the app has no such webhook. One that is disabled gets none.
    func ping(_ id: PushID, with event: PushEvent, app: App, by actor: AuditActor) throws -> Webhook? {
        guard let webhook = try find(id, app: app) else { return nil }
        guard webhook.disabledReason == nil else { return webhook }
        try insert([WebhookMessage.New(webhook: id, id: event.id, topic: event.topic, body: event.encoded())])
        try record(.webhookPinged, id, app, actor)
        return webhook
    }

    /// Sends the named messages again from the first attempt on, or without names those that were given up, at most `limit`.
    /// - Returns: how many; nil where the app has no such webhook.
    func redeliver(_ ids: [PushID]?, of id: PushID, limit: Int, app: App, by actor: AuditActor) throws -> Int? {
        guard try find(id, app: app) != nil else { return nil }
        let ids: [PushID] =
            try ids
            ?? session.execute("SELECT id FROM webhook_messages WHERE webhook = \(id) AND state = 'failed' ORDER BY id LIMIT \(limit)")
            .column("id")
        let redelivered = try session.execute(
            """
            UPDATE webhook_messages SET state = 'pending', attempts = 0, due_at = now(), settled_at = NULL
            WHERE webhook = \(id) AND id = ANY (\(ids))
            """
        ).affected
        if redelivered > 0 { try record(.webhookRedelivered, id, app, actor, count: redelivered) }
        return redelivered
    }
}

extension Webhook {
    /// - Parameter row: Of the view `current_webhooks`.
    fileprivate init(_ row: PostgresRow) throws {
        guard let url = WebhookURL(try row["url"], allowsHTTP: true) else { throw CorruptRow(table: "webhooks") }
        self.init(
            id: try row["id"], url: url, events: try WebhookFilter.filters(row["events"]), description: try row["description"],
            disabledReason: try row["disabled_reason"], disabledAt: try row.milliseconds("disabled_at"),
            createdAt: try row.milliseconds("created_at"), failingSince: try row.milliseconds("failing_since"),
            lastSuccessAt: try row.milliseconds("last_success_at"), lastFailureAt: try row.milliseconds("last_failure_at"),
            lastFailure: try row["last_failure"], previousSecretUntil: try row.milliseconds("previous_until"))
    }
}

extension WebhookFilter {
    fileprivate static func filters(_ texts: [String]) -> [WebhookFilter] { texts.compactMap { WebhookFilter($0) } }
}

extension WebhookMessage {
    fileprivate init(_ row: PostgresRow) throws(PostgresError) {
        let (attempts, status): (Int32, Int32?) = (try row["attempts"], try row["last_status"])
        self.init(
            id: try row["id"], topic: try row["topic"], state: try row["state"], attempts: Int(attempts),
            createdAt: try row.milliseconds("created_at"), dueAt: try row.milliseconds("due_at"),
            settledAt: try row.milliseconds("settled_at"), lastAt: try row.milliseconds("last_at"), lastStatus: status.map { Int($0) },
            lastError: try row["last_error"])
    }
}
