import FoundationEssentials
import HTTPTypes
import Hummingbird
import OpenSSL
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
        let event = PlatformEvent.ping(id: .timeOrdered(milliseconds: now), webhook: id, app: app.id, slug: app.slug, at: now)
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

extension APIRoute {
    package static let createWebhook = APIRoute(.post, "/v1/apps/{app}/webhooks", .admin, audit: .webhookCreated)
    package static let listWebhooks = APIRoute(.get, "/v1/apps/{app}/webhooks", .admin)
    package static let readWebhook = APIRoute(.get, "/v1/apps/{app}/webhooks/{id}", .admin)
    package static let changeWebhook = APIRoute(.patch, "/v1/apps/{app}/webhooks/{id}", .admin, audit: .webhookChanged)
    package static let deleteWebhook = APIRoute(.delete, "/v1/apps/{app}/webhooks/{id}", .admin, audit: .webhookDeleted)
    package static let rotateWebhook = APIRoute(.post, "/v1/apps/{app}/webhooks/{id}/rotate", .admin, audit: .webhookRotated)
    package static let pingWebhook = APIRoute(.post, "/v1/apps/{app}/webhooks/{id}/ping", .admin, audit: .webhookPinged)
    package static let listWebhookMessages = APIRoute(.get, "/v1/apps/{app}/webhooks/{id}/messages", .admin)
    package static let redeliverWebhookMessages = APIRoute(
        .post, "/v1/apps/{app}/webhooks/{id}/redeliver", .admin, audit: .webhookRedelivered)
}

extension Resource {
    package static let webhooks = Resource(
        "Webhooks",
        """
        Events by HTTP, signed as Standard Webhooks says. Each message is one CloudEvents event; at least once, in no promised order, \
        under the same `webhook-id` every time.
        """,
        [create, list, read, change, delete, rotate, ping, messages, redeliver])

    private static let create = Operation(
        .createWebhook, "createWebhook", "Make a webhook",
        "The answer, and that of a rotation, are the only places where the secret is shown. An app may have \(Webhook.maximumPerApp).",
        request: .json(Webhook.new), answers: [Answer(201, "Made.", .json(Webhook.response))], problems: [.tooManyWebhooks])

    private static let list = Operation(
        .listWebhooks, "listWebhooks", "All webhooks of the app", "Without their secrets.",
        answers: [Answer(200, "By age, the oldest first.", .json(Webhook.list))])

    private static let read = Operation(
        .readWebhook, "readWebhook", "One webhook", answers: [Answer(200, "The webhook.", .json(Webhook.response))], problems: [.notFound])

    private static let change = Operation(
        .changeWebhook, "changeWebhook", "Change a webhook", "A merge patch (RFC 7396): what the body does not name stays as it is.",
        request: .mergePatch(Webhook.change), answers: [Answer(200, "The webhook as it is now.", .json(Webhook.response))],
        problems: [.notFound])

    private static let delete = Operation(
        .deleteWebhook, "deleteWebhook", "Delete a webhook", "With everything that waits for it.",
        answers: [Answer(204, "It is gone.")], problems: [.notFound])

    private static let rotate = Operation(
        .rotateWebhook, "rotateWebhook", "Make a new secret",
        "For a while every message is signed with both; a still older one is signed with no more.",
        request: .json(Webhook.rotation, isRequired: false),
        answers: [Answer(200, "Made; `secret` is shown here only.", .json(Webhook.response))], problems: [.notFound])

    private static let ping = Operation(
        .pingWebhook, "pingWebhook", "Send a test message", "It goes the way of every event; the list of messages shows what came of it.",
        answers: [Answer(202, "It waits to be sent.", .json(Webhook.ping))], problems: [.notFound, .webhookDisabled])

    private static let messages = Operation(
        .listWebhookMessages, "listWebhookMessages", "What was sent, and what waits",
        parameters: [.query("state", .words(WebhookMessage.State.self), "Only those in this state.")] + Parameter.page,
        answers: [Answer(200, "One page, the newest first.", .json(WebhookMessage.page))], problems: ProblemCode.page)

    private static let redeliver = Operation(
        .redeliverWebhookMessages, "redeliverWebhookMessages", "Send messages again",
        "Under the same ids, from the first attempt on.", request: .json(Webhook.redelivery),
        answers: [Answer(200, "They are due now.", .json(Webhook.redelivered))], problems: [.notFound])

}

/// The key that signs a webhook's messages, as Standard Webhooks wants it: `whsec_` and base 64 of 24 to 64 bytes.
package struct WebhookSecret: Equatable, Sendable {
    package static let prefix = "whsec_"

    package let bytes: [UInt8]

    package init(bytes: [UInt8]) { self.bytes = bytes }

    package static func generate() -> WebhookSecret { WebhookSecret(bytes: SecureRandom.bytes(32)) }

    package var text: String { Self.prefix + Data(bytes).base64EncodedString() }

    /// The value of `webhook-signature`: HMAC-SHA256 of `id.timestamp.body`, once for each secret that is valid now.
    /// - Parameter timestamp: UNIX seconds.
    package static func signature(of body: [UInt8], id: String, timestamp: Int64, secrets: [WebhookSecret]) -> String {
        let content = Array("\(id).\(timestamp).".utf8) + body
        return secrets.map { secret in
            "v1," + Data(Digest.hmacSHA256(key: secret.bytes, content)).base64EncodedString()
        }.joined(separator: " ")
    }
}

/// A log line or an error must never show it, also not as a part of another value.
extension WebhookSecret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "WebhookSecret" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}
