package import PushModel
package import TokenServiceApps

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
    /// Of a pending one: the time before which it is not tried (again).
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
