package import PushModel
package import StrictJSON

extension JSONObjectReader {
    package mutating func newWebhook(allowsHTTP: Bool) -> Webhook.New? {
        let url = webhookURL(allowsHTTP: allowsHTTP)
        let events = webhookEvents()
        let description = optionalString("description", maximumBytes: Webhook.maximumDescriptionBytes)
        finish()
        guard let url, let events else { return nil }
        return Webhook.New(url: url, events: events, description: description)
    }

    /// A merge patch: what it does not name stays, and null means none, which only `description` may be.
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

    /// - Returns: `.some(nil)` for all that were given up, which has to be said.
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
    /// The fields of its object.
    package func write(secret: WebhookSecret?, to object: inout JSONWriter) {
        object.field("id", id.description)
        object.field("url", url.text)
        object.field("events", events.map(\.text))
        object.field("description", description)
        object.field("enabled", disabledReason == nil)
        object.field("secret", secret?.text)
        object.time("previous_secret_until", previousSecretUntil)
        object.field("disabled_reason", disabledReason?.rawValue)
        object.time("disabled_at", disabledAt)
        object.time("created_at", createdAt)
        object.time("failing_since", failingSince)
        object.time("last_success_at", lastSuccessAt)
        object.time("last_failure_at", lastFailureAt)
        object.field("last_failure", lastFailure)
    }
}

extension WebhookMessage {
    /// The fields of its object.
    package func write(to object: inout JSONWriter) {
        object.field("id", id.description)
        object.field("event", topic)
        object.field("state", state.rawValue)
        object.field("attempts", attempts)
        object.time("created_at", createdAt)
        if state == .pending { object.time("due_at", dueAt) }
        object.time("settled_at", settledAt)
        object.time("last_attempt_at", lastAt)
        object.field("last_status", lastStatus)
        object.field("last_error", lastError)
    }
}
