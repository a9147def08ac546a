package import Postgres
package import PushModel

/// The tables of webhooks, within one transaction: what their owners do with them.
package struct WebhookStore {
    let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// More than an app may have.
    package struct TooMany: Error {}

    // MARK: Webhooks

    /// - Throws: ``TooMany``
    package func create(_ new: Webhook.New, secret: WebhookSecret, app: App) throws -> Webhook {
        try session.execute(Self.lockApp, [.int64(app.id)])
        let id = PushID.timeOrdered(milliseconds: UnixTime.milliseconds())
        let made = try session.execute(
            Self.insert,
            [
                .id(id), .int64(app.id), .text(new.url.text), .textArray(new.events.map(\.text)), .optionalText(new.description),
                .bytes(secret.bytes), .int64(Int64(Webhook.maximumPerApp)),
            ])
        guard made.affected == 1 else { throw TooMany() }
        try session.execute(Self.tellNotifications, [.int64(app.id)])
        guard let webhook = try find(id, app: app) else { throw CorruptRow(table: "webhooks") }
        return webhook
    }

    package func all(of app: App) throws -> [Webhook] {
        try session.execute(Self.selectAll, [.int64(app.id)]).map { row in try Self.webhook(row) }
    }

    package func find(_ id: PushID, app: App) throws -> Webhook? {
        try session.execute(Self.select, [.int64(app.id), .id(id)]).first.map { row in try Self.webhook(row) }
    }

    /// Enabling one that is disabled forgets why; what waits for it is due at once.
    /// - Returns: nil where the app has no such webhook.
    package func change(_ id: PushID, _ change: Webhook.Change, app: App) throws -> Webhook? {
        try session.execute(Self.lockApp, [.int64(app.id)])
        guard var webhook = try find(id, app: app) else { return nil }
        if let url = change.url { webhook.url = url }
        if let events = change.events { webhook.events = events }
        if let description = change.description { webhook.description = description }
        try session.execute(
            Self.update,
            [
                .id(id), .text(webhook.url.text), .textArray(webhook.events.map(\.text)), .optionalText(webhook.description),
                .optionalBool(change.isEnabled),
            ])
        if change.isEnabled == true, webhook.disabledReason != nil { try session.execute(Self.hasten, [.id(id)]) }
        try session.execute(Self.tellNotifications, [.int64(app.id)])
        return try find(id, app: app)
    }

    /// - Returns: whether there was one.
    package func delete(_ id: PushID, app: App) throws -> Bool {
        try session.execute(Self.lockApp, [.int64(app.id)])
        let deleted = try session.execute(Self.delete, [.int64(app.id), .id(id)]).affected == 1
        try session.execute(Self.tellNotifications, [.int64(app.id)])
        return deleted
    }

    /// The present secret becomes the previous one, which is signed with too until then.
    package func rotate(_ id: PushID, to secret: WebhookSecret, overlapSeconds: Int64, app: App) throws -> Webhook? {
        let parameters: [PostgresValue] = [.int64(app.id), .id(id), .bytes(secret.bytes), .double(Double(overlapSeconds))]
        guard try session.execute(Self.rotate, parameters).affected == 1 else { return nil }
        return try find(id, app: app)
    }

    // MARK: Events

    /// Every enabled webhook.
    package func subscriptions() throws -> [Webhook.Subscription] {
        try session.execute(Self.subscriptions).map { row in
            guard let slug = AppSlug(try row.text(2)) else { throw CorruptRow(table: "apps") }
            return Webhook.Subscription(
                id: try row.id(0), app: try row.int64(1), slug: slug, events: try row.textArray(3).compactMap { WebhookFilter($0) })
        }
    }

    /// Queues what is not there yet; nothing for one that is disabled or gone.
    package func insert(_ messages: [WebhookMessage.New]) throws {
        guard !messages.isEmpty else { return }
        try session.execute(
            Self.insertMessages,
            [
                .ids(messages.map(\.webhook)), .ids(messages.map(\.id)), .textArray(messages.map(\.topic)),
                .bytesArray(messages.map(\.body)),
            ])
    }

    // MARK: Messages

    /// The newest first.
    package func messages(of id: PushID, state: WebhookMessage.State?, before: PushID?, limit: Int) throws -> [WebhookMessage] {
        let parameters: [PostgresValue] = [
            .id(id), .optionalText(state?.rawValue), .id(before ?? Self.last), .int64(Int64(limit)),
        ]
        return try session.execute(Self.selectMessages, parameters).map { row in try Self.message(row) }
    }

    /// Sends again, from the first attempt on: those that are named, or everything that was given up, at most `limit`.
    /// - Returns: how many.
    package func redeliver(_ ids: [PushID]?, of id: PushID, limit: Int) throws -> Int {
        guard let ids else { return try session.execute(Self.redeliverFailed, [.id(id), .int64(Int64(limit))]).affected }
        return try session.execute(Self.redeliver, [.id(id), .ids(ids)]).affected
    }

    private static let last = PushID(high: .max, low: .max)

    private static func webhook(_ row: PostgresRow) throws -> Webhook {
        guard let url = WebhookURL(try row.text(1), allowsHTTP: true) else { throw CorruptRow(table: "webhooks") }
        return Webhook(
            id: try row.id(0), url: url, events: try row.textArray(2).compactMap { WebhookFilter($0) },
            description: try row.optionalText(3),
            disabledReason: try row.optionalText(4).flatMap(Webhook.DisabledReason.init(rawValue:)),
            disabledAt: try row.optionalTimestampMilliseconds(5), createdAt: try row.timestampMilliseconds(6),
            failingSince: try row.optionalTimestampMilliseconds(7), lastSuccessAt: try row.optionalTimestampMilliseconds(8),
            lastFailureAt: try row.optionalTimestampMilliseconds(9), lastFailure: try row.optionalText(10),
            previousSecretUntil: try row.optionalTimestampMilliseconds(11))
    }

    private static func message(_ row: PostgresRow) throws -> WebhookMessage {
        guard let state = WebhookMessage.State(rawValue: try row.text(2)) else { throw CorruptRow(table: "webhook_messages") }
        return WebhookMessage(
            id: try row.id(0), topic: try row.text(1), state: state, attempts: Int(try row.int32(3)),
            createdAt: try row.timestampMilliseconds(4), dueAt: try row.timestampMilliseconds(5),
            settledAt: try row.optionalTimestampMilliseconds(6), lastAt: try row.optionalTimestampMilliseconds(7),
            lastStatus: try row.optionalInt32(8).map { Int($0) }, lastError: try row.optionalText(9))
    }
}
