package import PushModel
package import TokenServiceApps

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
