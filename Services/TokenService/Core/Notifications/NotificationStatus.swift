package import PushModel
package import StrictJSON

/// What became of a notification, delivery by delivery. Times are UNIX milliseconds.
package struct NotificationStatus: Equatable, Sendable {
    package var receipt: NotificationReceipt
    /// Deliveries so far.
    package var total: Int
    package var state: String
    package var completedAt: Int64?
    /// Exact at the moment of asking: counted from the deliveries.
    package var counts: [String: Int]
    package var pending: Int
    /// At most ``maximumDeliveries``, pending ones first.
    package var deliveries: [Delivery]

    package static let maximumDeliveries = 1000

    package struct Delivery: Equatable, Sendable {
        package var id: PushID
        package var installation: PushID
        package var hint: String
        package var environment: String
        /// Nil while it is pending.
        package var outcome: String?
        package var status: Int?
        package var reason: String?
        package var attempts: Int
        package var lastAttempt: Attempt?
        package var updatedAt: Int64
    }

    package struct Attempt: Equatable, Sendable {
        package var outcome: String
        package var status: Int?
        package var reason: String?
        package var at: Int64?
        package var retryAt: Int64?
    }
}

extension NotificationStatus {
    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field("id", receipt.id.description)
            object.field("app", receipt.app.text)
            object.field("state", state)
            object.field("lane", receipt.lane.rawValue)
            object.field("push_type", receipt.pushType.rawValue)
            object.time("accepted_at", receipt.acceptedAt)
            object.time("expires_at", receipt.expiresAt)
            object.time("completed_at", completedAt)
            object.object("counts") { counts in
                counts.field("total", total)
                counts.field("pending", pending)
                for outcome in OutcomeClass.allCases { counts.field(outcome.rawValue, self.counts[outcome.rawValue] ?? 0) }
            }
            if deliveries.count < total { object.field("deliveries_truncated", true) }
            object.array("deliveries") { array in
                for delivery in deliveries { delivery.write(to: &array) }
            }
        }
    }
}

extension NotificationStatus.Delivery {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field("id", id.description)
            object.field("installation", installation.description)
            object.field("hint", hint)
            object.field("environment", environment)
            object.field("state", outcome ?? "pending")
            object.field("status", status)
            object.field("reason", reason)
            object.field("attempts", attempts)
            if let lastAttempt {
                object.object("last_attempt") { attempt in
                    attempt.field("class", lastAttempt.outcome)
                    attempt.field("status", lastAttempt.status)
                    attempt.field("reason", lastAttempt.reason)
                    attempt.time("at", lastAttempt.at)
                    attempt.time("retry_at", lastAttempt.retryAt)
                }
            }
            object.time("updated_at", updatedAt)
        }
    }
}
