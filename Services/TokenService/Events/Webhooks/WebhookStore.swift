package import Postgres
package import PushModel
package import TokenServiceApps
import TokenServiceKit

/// The webhooks of one app and their messages, within one transaction. ``WebhookQueue`` has the events and the deliveries.
package struct WebhookStore {
    private let session: PostgresSession
    private let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    /// Messages that one statement changes or removes.
    package static let batch = 1000
    /// Messages that a page of one state reads, at most. The statements have the number as a literal, as in ``InstallationStore``.
    package static let scannedPerPage = 5000

    /// More than an app may have.
    package struct TooMany: Error {}

    // MARK: Webhooks

    /// - Throws: ``TooMany``
    package func create(_ new: Webhook.New, secret: WebhookSecret, by actor: AuditActor) throws -> Webhook {
        try lock()
        let count: Int = try session.execute("SELECT count(*) AS count FROM current_webhooks WHERE app_id = \(app.id)").only()["count"]
        guard count < Webhook.maximumPerApp else { throw TooMany() }
        let id = PushID.timeOrdered(milliseconds: UnixTime.milliseconds())
        try session.execute(
            """
            INSERT INTO webhooks (id, app_id, url, events, description, secret)
            VALUES (\(id), \(app.id), \(new.url.text), \(new.events.map(\.text)), \(new.description), \(secret.bytes))
            """)
        try noteInterest()
        try record(.webhookCreated, id, actor)
        return try Webhook(session.execute("SELECT * FROM current_webhooks WHERE app_id = \(app.id) AND id = \(id)").only())
    }

    package func all() throws -> [Webhook] {
        try session.execute("SELECT * FROM current_webhooks WHERE app_id = \(app.id) ORDER BY id").map { row in try Webhook(row) }
    }

    package func find(_ id: PushID) throws -> Webhook? {
        try session.execute("SELECT * FROM current_webhooks WHERE app_id = \(app.id) AND id = \(id)").first.map { row in try Webhook(row) }
    }

    private func known(_ id: PushID) throws -> Webhook {
        guard let webhook = try find(id) else { throw APIError.notFound }
        return webhook
    }

    package struct Changed: Sendable {
        package var webhook: Webhook
        /// It was disabled until this change.
        package var isEnabledAgain: Bool
    }

    /// A webhook that is enabled again forgets why it was disabled, and has a day to send what waits: until then, twice as many may wait.
    /// To have every waiting message due at once, call ``hasten(_:after:)`` until it returns nil.
    /// A change that leaves everything as it was writes nothing, in the audit trail neither.
    /// - Throws: ``APIError`` 404 where the app has no such webhook.
    package func change(_ id: PushID, _ change: Webhook.Change, by actor: AuditActor) throws -> Changed {
        try lock()
        // The dispatcher may disable it at this moment.
        try session.execute("SELECT FROM webhooks WHERE app_id = \(app.id) AND id = \(id) FOR NO KEY UPDATE")
        let before = try known(id)
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
            WHERE app_id = \(app.id) AND id = \(id)
            """)
        try noteInterest()
        try record(.webhookChanged, id, actor)
        return Changed(webhook: try known(id), isEnabledAgain: isEnabledAgain)
    }

    /// Makes the next messages that wait for another attempt due at once.
    /// - Parameter last: The moment that the step before returned: UNIX milliseconds. A step that began at the left end of the index would
    ///   read past the entries of all steps before, as long as a snapshot is open.
    /// - Returns: nil if none is left.
    package func hasten(_ id: PushID, after last: Int64 = 0) throws -> Int64? {
        let row = try session.execute(
            """
            WITH found AS (
                SELECT id, due_at FROM webhook_messages
                WHERE webhook = (SELECT id FROM webhooks WHERE app_id = \(app.id) AND id = \(id)) AND state = 'pending' AND due_at > now()
                    AND due_at >= \(milliseconds: last)
                ORDER BY due_at LIMIT \(Self.batch) FOR NO KEY UPDATE SKIP LOCKED
            ), hastened AS (
                UPDATE webhook_messages SET due_at = now() WHERE webhook = (SELECT id FROM webhooks WHERE app_id = \(app.id) AND id = \(id))
                    AND id = ANY (ARRAY(SELECT id FROM found))
            )
            SELECT count(*) AS count, max(due_at) AS last FROM found
            """
        ).only()
        let count: Int = try row["count"]
        return count < Self.batch ? nil : try row.milliseconds("last")
    }

    /// The first step of a removal, and its entry in the audit trail: from then on the app has no such webhook, and no message comes any
    /// more. A repetition changes nothing. ``WebhookRemoval`` does the rest.
    /// - Throws: ``APIError`` 404 where the app has no such webhook, and none that is still being removed.
    package func beginDeletion(_ id: PushID, by actor: AuditActor) throws {
        try lock()
        let deleted = try session.execute(
            """
            UPDATE webhooks SET disabled_reason = 'deleted', disabled_at = now()
            WHERE app_id = \(app.id) AND id = \(id) AND disabled_reason IS DISTINCT FROM 'deleted'
            """
        ).affected
        guard deleted == 1 else {
            let known = try session.execute("SELECT id FROM webhooks WHERE app_id = \(app.id) AND id = \(id)").first
            guard known != nil else { throw APIError.notFound }
            return
        }
        try noteInterest()
        try record(.webhookDeleted, id, actor)
    }

    /// The present secret becomes the previous one; messages are signed with both until the overlap ends.
    /// - Throws: ``APIError`` 404 where the app has no such webhook.
    package func rotate(_ id: PushID, to secret: WebhookSecret, overlapSeconds: Int64, by actor: AuditActor) throws -> Webhook {
        let rotated = try session.execute(
            """
            UPDATE webhooks SET previous_secret = secret, previous_until = now() + \(overlapSeconds) * interval '1 second',
                secret = \(secret.bytes)
            WHERE app_id = \(app.id) AND id = \(id) AND disabled_reason IS DISTINCT FROM 'deleted'
            """)
        guard rotated.affected == 1 else { throw APIError.notFound }
        try record(.webhookRotated, id, actor)
        return try known(id)
    }

    private func record(_ action: AuditAction, _ id: PushID, _ actor: AuditActor, count: Int? = nil) throws {
        try AuditStore(session: session).record(action, by: actor, app: app.slug, object: id.description, count: count)
    }

    /// One change at a time, so that the number of webhooks and `webhooks_want_notifications` are right.
    private func lock() throws { try session.execute("SELECT FROM apps WHERE id = \(app.id) FOR NO KEY UPDATE") }

    /// Records whether a webhook of the app wants events of notifications. The app's row is locked.
    private func noteInterest() throws {
        let filters = try session.execute("SELECT events FROM webhooks WHERE app_id = \(app.id) AND disabled_reason IS NULL").flatMap {
            row in
            try WebhookFilter.filters(row["events"])
        }
        let isWanted = filters.contains { EventTopic.notifications.contains(where: $0.admits) }
        try session.execute(
            """
            UPDATE apps SET webhooks_want_notifications = \(isWanted)
            WHERE id = \(app.id) AND webhooks_want_notifications <> \(isWanted)
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
            """
            SELECT id FROM webhook_messages WHERE webhook = (SELECT id FROM webhooks WHERE app_id = \(app.id) AND id = \(id))
                AND id < \(end) ORDER BY id DESC OFFSET 4999 LIMIT 1
            """
        ).first
        return (found, try last?["id"])
    }

    private func failed(of id: PushID, before end: PushID, limit: Int) throws -> PostgresRows {
        try session.execute(
            """
            SELECT id, topic, state, attempts, created_at, due_at, settled_at, last_at, last_status, last_error FROM webhook_messages
            WHERE webhook = (SELECT id FROM webhooks WHERE app_id = \(app.id) AND id = \(id)) AND state = 'failed' AND id < \(end)
                ORDER BY id DESC LIMIT \(limit)
            """)
    }

    private func scan(_ id: PushID, _ state: WebhookMessage.State?, before end: PushID, limit: Int) throws -> PostgresRows {
        try session.execute(
            """
            SELECT * FROM (
                SELECT id, topic, state, attempts, created_at, due_at, settled_at, last_at, last_status, last_error FROM webhook_messages
                WHERE webhook = (SELECT id FROM webhooks WHERE app_id = \(app.id) AND id = \(id)) AND id < \(end) ORDER BY id DESC
                    LIMIT 5000
            ) AS scanned
            WHERE \(state)::text IS NULL OR state = \(state) ORDER BY id DESC LIMIT \(limit)
            """)
    }

    /// Queues a ping.
    /// - Throws: ``APIError`` 404 where the app has no such webhook, 409 where it is disabled.
    func ping(_ id: PushID, with event: PlatformEvent, by actor: AuditActor) throws {
        guard try known(id).disabledReason == nil else {
            throw APIError(.webhookDisabled, "enable it first; nothing was sent")
        }
        try WebhookQueue(session: session).insert([WebhookMessage.New(webhook: id, id: event.id, topic: event.topic, body: event.encoded())]
        )
        try record(.webhookPinged, id, actor)
    }

    /// Sends the named messages again from the first attempt on, or without names those that were given up, at most `limit`.
    /// - Returns: how many.
    /// - Throws: ``APIError`` 404 where the app has no such webhook.
    func redeliver(_ ids: [PushID]?, of id: PushID, limit: Int, by actor: AuditActor) throws -> Int {
        _ = try known(id)
        let ids: [PushID] =
            try ids
            ?? session.execute(
                """
                SELECT id FROM webhook_messages WHERE webhook = (SELECT id FROM webhooks WHERE app_id = \(app.id) AND id = \(id))
                    AND state = 'failed' ORDER BY id LIMIT \(limit)
                """
            )
            .column("id")
        let redelivered = try session.execute(
            """
            UPDATE webhook_messages SET state = 'pending', attempts = 0, due_at = now(), settled_at = NULL
            WHERE webhook = (SELECT id FROM webhooks WHERE app_id = \(app.id) AND id = \(id)) AND id = ANY (\(ids))
            """
        ).affected
        if redelivered > 0 { try record(.webhookRedelivered, id, actor, count: redelivered) }
        return redelivered
    }
}

extension Webhook {
    /// - Parameter row: A row of the view `current_webhooks`.
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
    static func filters(_ texts: [String]) -> [WebhookFilter] { texts.compactMap { WebhookFilter($0) } }
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
