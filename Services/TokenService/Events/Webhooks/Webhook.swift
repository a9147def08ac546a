package import PushModel
package import StrictJSON
package import TokenServiceApps
import TokenServiceKit

/// An app's receiver of events by HTTP, as its owner sees it.
package struct Webhook: Equatable, Sendable {
    package static let maximumPerApp = 20
    package static let maximumDescriptionBytes = 200
    package static let overlapSeconds: ClosedRange<Int64> = 0...604_800
    package static let defaultOverlapSeconds: Int64 = 86_400

    /// Why no more messages are sent.
    package enum DisabledReason: String, CaseIterable, Sendable {
        case byRequest = "by_request"
        /// It answered 410.
        case gone
        /// No delivery succeeded for days.
        case failing
        /// More messages waited for it than the limit.
        case backlogFull = "backlog_full"
    }

    package var id: PushID
    package var url: WebhookURL
    package var events: [WebhookFilter]
    package var description: String?
    /// Nil while it is enabled.
    package var disabledReason: DisabledReason?
    /// UNIX milliseconds, as are the others.
    package var disabledAt: Int64?
    package var createdAt: Int64
    /// Since when no delivery has succeeded.
    package var failingSince: Int64?
    package var lastSuccessAt: Int64?
    package var lastFailureAt: Int64?
    package var lastFailure: String?
    /// Until when messages are signed with the previous secret too; nil where they are not.
    package var previousSecretUntil: Int64?

    /// An enabled webhook, and which events it gets.
    package struct Subscription: Equatable, Sendable {
        package var id: PushID
        package var app: App.ID
        package var slug: AppSlug
        package var events: [WebhookFilter]

        package func wants(_ topic: String) -> Bool { events.contains { $0.admits(topic) } }
        func wants(anyOf topics: [String]) -> Bool { topics.contains(where: wants) }
    }

    /// The properties of a new one, as its owner states them.
    package struct New: Equatable, Sendable {
        package var url: WebhookURL
        package var events: [WebhookFilter]
        package var description: String?
    }

    /// A merge patch: nil leaves as it is.
    package struct Change: Equatable, Sendable {
        package var url: WebhookURL?
        package var events: [WebhookFilter]?
        package var description: String??
        package var isEnabled: Bool?
    }
}

/// Which topics a webhook gets: a single one (`notification.completed`), all of a kind (`token.*`) or all (`*`).
package struct WebhookFilter: Hashable, Sendable {
    package static let maximumCount = 50
    package static let rule = "an event such as notification.completed, a kind such as token.*, or *"

    package let text: String

    /// - Returns: nil where no topic matches it.
    package init?(_ text: String) {
        self.text = text
        guard EventTopic.all.contains(where: admits) else { return nil }
    }

    package func admits(_ topic: String) -> Bool {
        if text == "*" || text == topic { return true }
        return text.hasSuffix(".*") && topic.hasPrefix(text.dropLast())
    }
}

extension JSONObjectReader {
    package mutating func newWebhook(allowsHTTP: Bool) -> Webhook.New? {
        let url = webhookURL(allowsHTTP: allowsHTTP)
        let events = webhookEvents()
        let description = optionalString("description", maximumBytes: Webhook.maximumDescriptionBytes)
        finish()
        guard let url, let events else { return nil }
        return Webhook.New(url: url, events: events, description: description)
    }

    /// A merge patch: a field that it does not name stays, and null means none, which only `description` may be.
    package mutating func webhookChange(allowsHTTP: Bool) -> Webhook.Change? {
        var change = Webhook.Change()
        if has("url") { change.url = webhookURL(allowsHTTP: allowsHTTP) }
        if has("events") { change.events = webhookEvents() }
        if has("description") {
            change.description = .some(optionalString("description", maximumBytes: Webhook.maximumDescriptionBytes))
        }
        if has("enabled") { change.isEnabled = bool("enabled") }
        finish()
        return change
    }

    /// - Returns: `.some(nil)` for all messages that were given up, which the caller has to ask for.
    package mutating func redelivery(maximumCount: Int) -> [PushID]?? {
        let isNamed = has("messages")
        let texts = isNamed ? strings("messages", maximumCount: maximumCount, maximumBytes: 36) : nil
        let areFailed = optionalBool("failed") ?? false
        finish()
        if isNamed == areFailed { problem("messages", "conflict", "either messages, or failed: true") }
        guard isNamed else { return .some(nil) }
        guard let texts else { return nil }
        if texts.isEmpty { problem("messages", "too_short", "at least one") }
        return texts.enumerated().compactMap { index, text in
            let id = PushID(text)
            if id == nil { problem("messages", step: "/\(index)", "invalid_id", "a UUID") }
            return id
        }
    }

    private mutating func webhookURL(allowsHTTP: Bool) -> WebhookURL? {
        guard let text = string("url", maximumBytes: WebhookURL.maximumBytes) else { return nil }
        let url = WebhookURL(text, allowsHTTP: allowsHTTP)
        if url == nil { problem("url", "invalid_url", WebhookURL.rule) }
        return url
    }

    private mutating func webhookEvents() -> [WebhookFilter]? {
        guard let texts = strings("events", maximumCount: WebhookFilter.maximumCount, maximumBytes: 64) else { return nil }
        if texts.isEmpty { problem("events", "too_short", "at least one") }
        return texts.enumerated().compactMap { index, text in
            let filter = WebhookFilter(text)
            if filter == nil { problem("events", step: "/\(index)", "unsupported_value", WebhookFilter.rule) }
            return filter
        }
    }
}

extension Webhook {
    static let new = JSONSchema.request(
        "NewWebhook", [.required("url", address), .required("events", filters), .omissible("description", purpose)])
    static let change = JSONSchema.request(
        "WebhookChange",
        [
            .optional("url", address), .optional("events", filters), .optional("description", purpose.orNull),
            .optional("enabled", .boolean, "Enabling it again sends what waits for it: for a day, twice as many messages may wait."),
        ])
    static let rotation = JSONSchema.request(
        "WebhookRotation",
        [
            .omissible(
                "overlap_seconds", .integer(overlapSeconds).standard(.integer(defaultOverlapSeconds)),
                "How long the older secret is signed with too.")
        ])
    static let redelivery = JSONSchema.request(
        "WebhookRedelivery",
        [
            .optional("messages", .array(.uuid, minimum: 1, maximum: 1000), "These, whatever became of them."),
            .optional("failed", .boolean, "Instead: everything that was given up, at most 1000 a call."),
        ])

    static let list = ResponseSchema<[Webhook]>.object(
        "Webhooks", [.required("webhooks", .array(response)) { $0.map { ($0, nil) } }])
    static let ping = ResponseSchema<PushID>.object("WebhookPing", [.required("message", .uuid, "Its `webhook-id`.") { $0 }])
    static let redelivered = ResponseSchema<Int>.object("WebhookRedeliveryResult", [.required("redelivered", .count) { $0 }])

    static let response = ResponseSchema<(webhook: Webhook, secret: WebhookSecret?)>.object(
        "Webhook",
        [
            .required("id", .uuid) { $0.webhook.id },
            .required("url", .text(address)) { $0.webhook.url.text },
            .required("events", .array(.text(), filters)) { $0.webhook.events.map(\.text) },
            .optional("description", .text(purpose)) { $0.webhook.description },
            .required("enabled", .boolean) { $0.webhook.disabledReason == nil },
            .optional("secret", .text(secret), "What messages are signed with; only in the answers that made it.") { $0.secret?.text },
            .optional("previous_secret_until", .time, "Until then messages are signed with the older secret too.") {
                $0.webhook.previousSecretUntil
            },
            .optional(
                "disabled_reason", .word,
                "`gone`: it answered 410; `failing`: nothing succeeded for days; `backlog_full`: too much waited for it."
            ) { $0.webhook.disabledReason },
            .optional("disabled_at", .time) { $0.webhook.disabledAt },
            .required("created_at", .time) { $0.webhook.createdAt },
            .optional("failing_since", .time, "Since when no attempt has succeeded.") { $0.webhook.failingSince },
            .optional("last_success_at", .time) { $0.webhook.lastSuccessAt },
            .optional("last_failure_at", .time) { $0.webhook.lastFailureAt },
            .optional("last_failure", .text(.string().example("status_500"))) { $0.webhook.lastFailure },
        ])

    private static let address = JSONSchema.string(WebhookURL.maximumBytes).example("https://hooks.example.com/push")
        .described("https, a host name, no user and no fragment; its addresses must be on the public internet.")
    private static let filters = JSONSchema.array(
        .string(64).example("notification.completed"), minimum: 1, maximum: WebhookFilter.maximumCount
    ).described("Events such as `notification.completed`, kinds such as `token.*`, or `*`.")
        .example(.texts(["notification.completed", "token.*"]))
    private static let purpose = JSONSchema.string(maximumDescriptionBytes).example("orders team")
    private static let secret = JSONSchema.string(pattern: "^whsec_[A-Za-z0-9+/=]+$")
        .example("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
}

extension WebhookMessage {
    static let page = PageResponse.schema("WebhookMessages", "messages", of: response)
    private static let response = ResponseSchema<WebhookMessage>.object(
        "WebhookMessage",
        [
            .required("id", .uuid, "The event's id, and the message's `webhook-id`.") { $0.id },
            .required("event", .text(.string().example("notification.completed"))) { $0.topic },
            .required("state", .word) { $0.state },
            .required("attempts", .count) { $0.attempts },
            .required("created_at", .time) { $0.createdAt },
            .optional("due_at", .time, "Of a pending one: not before when it is tried again.") { $0.state == .pending ? $0.dueAt : nil },
            .optional("settled_at", .time) { $0.settledAt },
            .optional("last_attempt_at", .time) { $0.lastAt },
            .optional("last_status", .integer(.integer(100...599))) { $0.lastStatus },
            .optional("last_error", .text(.string().example("timeout"))) { $0.lastError },
        ])
}
