import Hummingbird
package import Postgres
import PushModel
import StrictJSON
package import TokenServiceApps
import TokenServiceKit

/// `/v1/apps/{app}/webhooks`
package struct WebhooksController: Sendable {
    /// Messages that one request sends again.
    static let maximumRedelivered = 1000

    package let pool: PostgresPool
    package let events: EventStream
    package let settings: WebhookSettings

    package init(pool: PostgresPool, events: EventStream, settings: WebhookSettings) {
        self.pool = pool
        self.events = events
        self.settings = settings
    }

    package func bind(to router: some RouteBinder) {
        router.on(.createWebhook, create)
        router.on(.listWebhooks, list)
        router.on(.readWebhook, read)
        router.on(.changeWebhook, change)
        router.on(.deleteWebhook, delete)
        router.on(.rotateWebhook, rotate)
        router.on(.pingWebhook, ping)
        router.on(.listWebhookMessages, messages)
        router.on(.redeliverWebhookMessages, redeliver)
    }

    @Sendable private func create(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let new = try await call.body().object { $0.newWebhook(allowsHTTP: settings.isInsecure) }
        try await check(new.url, of: app)
        let secret = WebhookSecret.generate()
        do {
            let webhook = try await pool.transaction { session in
                try WebhookStore(session: session, app: app).create(new, secret: secret, by: call.actor)
            }
            events.subscriptions.forget()
            return JSONAnswer.response(.created, Webhook.response, (webhook, secret))
        } catch is WebhookStore.TooMany {
            throw APIError(.tooManyWebhooks, "an app may have \(Webhook.maximumPerApp) webhooks; delete one first")
        }
    }

    /// Uses the rule of the sending side: a webhook whose every message would be refused is refused here.
    private func check(_ url: WebhookURL, of app: App) async throws {
        guard let refusal = await events.addresses.refusal(of: url, for: app.id) else { return }
        throw APIError.invalid([JSONProblem(pointer: "/url", code: "address_not_allowed", detail: refusal.words)])
    }

    @Sendable private func list(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let all = try await pool.session { session in try WebhookStore(session: session, app: app).all() }
        return JSONAnswer.response(.ok, Webhook.list, all)
    }

    @Sendable private func read(_ call: APICall) async throws -> Response {
        let (app, id) = (try call.app(), try call.id("id"))
        let webhook = try await pool.session { session in try WebhookStore(session: session, app: app).find(id) }
        guard let webhook else { throw APIError.notFound }
        return Self.answer(webhook)
    }

    @Sendable private func change(_ call: APICall) async throws -> Response {
        let (app, id) = (try call.app(), try call.id("id"))
        let change = try await call.body().object { $0.webhookChange(allowsHTTP: settings.isInsecure) }
        if let url = change.url { try await check(url, of: app) }
        let changed = try await pool.transaction { session in
            try WebhookStore(session: session, app: app).change(id, change, by: call.actor)
        }
        events.subscriptions.forget()
        if changed.isEnabledAgain {
            // If this process dies here, the rest is due when its next attempt is.
            var last: Int64? = 0
            while let moment = last {
                last = try await pool.session { session in try WebhookStore(session: session, app: app).hasten(id, after: moment) }
            }
        }
        events.wakeUp.signal()
        return Self.answer(changed.webhook)
    }

    @Sendable private func delete(_ call: APICall) async throws -> Response {
        let (app, id) = (try call.app(), try call.id("id"))
        try await pool.transaction { session in
            try WebhookStore(session: session, app: app).beginDeletion(id, by: call.actor)
        }
        events.subscriptions.forget()
        // If this process dies here, a dispatcher of webhooks removes the rest.
        try await WebhookRemoval(pool: pool).finish(id)
        return JSONAnswer.noContent
    }

    @Sendable private func rotate(_ call: APICall) async throws -> Response {
        let (app, id) = (try call.app(), try call.id("id"))
        let overlap = try await call.body().object(allowsEmpty: true) { body -> Int64? in
            let overlap = body.optionalInteger("overlap_seconds", in: Webhook.overlapSeconds)
            body.finish()
            return overlap ?? Webhook.defaultOverlapSeconds
        }
        let secret = WebhookSecret.generate()
        let webhook = try await pool.transaction { session in
            try WebhookStore(session: session, app: app).rotate(id, to: secret, overlapSeconds: overlap, by: call.actor)
        }
        return Self.answer(webhook, secret: secret)
    }

    /// The ping takes the way of every event, so that its result holds for them too.
    @Sendable private func ping(_ call: APICall) async throws -> Response {
        let (app, id) = (try call.app(), try call.id("id"))
        let now = UnixTime.milliseconds()
        let event = PushEvent.ping(id: .timeOrdered(milliseconds: now), webhook: id, app: app.id, slug: app.slug, at: now)
        try await pool.transaction { session in
            try WebhookStore(session: session, app: app).ping(id, with: event, by: call.actor)
        }
        events.wakeUp.signal()
        return JSONAnswer.response(.accepted, Webhook.ping, event.id)
    }

    private static func answer(_ webhook: Webhook, secret: WebhookSecret? = nil) -> Response {
        JSONAnswer.response(.ok, Webhook.response, (webhook, secret))
    }

    // MARK: Messages

    @Sendable private func messages(_ call: APICall) async throws -> Response {
        let (app, id) = (try call.app(), try call.id("id"))
        let state = try call.choice("state", of: WebhookMessage.State.self)
        let limit = try PageQuery.limit(call)
        let list = ["webhook_messages", "\(app.id)", id.description, state?.rawValue]
        let before = try PageQuery.position(call) { text throws(PageCursor.Fault) in
            guard let id = PushID(bytes: try PageCursor.decode(text, list: list)) else { throw .unreadable }
            return id
        }
        let found = try await pool.session { session in
            let store = WebhookStore(session: session, app: app)
            return try store.find(id) == nil ? nil : try store.messages(of: id, state: state, before: before, limit: limit)
        }
        guard let found else { throw APIError.notFound }
        return JSONAnswer.response(
            .ok, WebhookMessage.page,
            PageResponse(elements: found.messages, nextCursor: found.next.map { PageCursor.encode($0.bytes, list: list) }))
    }

    @Sendable private func redeliver(_ call: APICall) async throws -> Response {
        let (app, id) = (try call.app(), try call.id("id"))
        let ids = try await call.body().object { $0.redelivery(maximumCount: Self.maximumRedelivered) }
        let redelivered = try await pool.transaction { session in
            try WebhookStore(session: session, app: app).redeliver(ids, of: id, limit: Self.maximumRedelivered, by: call.actor)
        }
        events.wakeUp.signal()
        return JSONAnswer.response(.ok, Webhook.redelivered, redelivered)
    }
}
