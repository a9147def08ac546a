package import PushModel
package import StrictJSON

/// What became of a notification, delivery by delivery. Times are UNIX milliseconds.
package struct NotificationStatus: Equatable, Sendable {
    package var receipt: NotificationReceipt
    package var target: NotificationAddress
    /// What is kept of each delivery.
    package var receipts: NotificationRequest.Receipts
    /// Deliveries so far.
    package var total: Int
    package var state: String
    package var notBefore: Int64?
    /// As it was asked for, without a zone: it is each device's own.
    package var localTime: String?
    package var completedAt: Int64?
    package var cancelledAt: Int64?
    package var cancelReason: String?
    /// Exact at the moment of asking: counted from the deliveries.
    package var counts: [String: Int]
    /// The same, told apart by what APNs said; the most frequent first.
    package var reasons: [Reason]
    package var pending: Int
    /// At most ``maximumDeliveries``, pending ones first.
    package var deliveries: [Delivery]

    package static let maximumDeliveries = 1000

    /// How many deliveries ended in one way.
    package struct Reason: Equatable, Sendable {
        package var outcome: String
        /// APNs' status; nil where it was not asked or did not answer.
        package var status: Int?
        /// APNs' word, or ours where APNs was not asked or did not answer.
        package var reason: String?
        package var count: Int
    }

    package struct Delivery: Equatable, Sendable {
        package var id: PushID
        package var installation: PushID
        /// Nil where it was erased, or removed since.
        package var token: DeviceToken?
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

        /// A request left: APNs answered it, or left it unanswered.
        var wasTried: Bool { status != nil || outcome == OutcomeClass.unknown.rawValue }
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
            object.name("to")
            target.write(to: &object)
            object.field("receipts", receipts.rawValue)
            object.time("accepted_at", receipt.acceptedAt)
            object.time("not_before", notBefore)
            object.field("local_time", localTime)
            object.time("expires_at", receipt.expiresAt)
            object.time("completed_at", completedAt)
            object.time("cancelled_at", cancelledAt)
            object.field("cancel_reason", cancelReason)
            object.object("counts") { counts in
                counts.field("total", total)
                counts.field("pending", pending)
                for outcome in OutcomeClass.allCases { counts.field(outcome.rawValue, self.counts[outcome.rawValue] ?? 0) }
            }
            object.array("reasons") { array in
                for reason in reasons { reason.write(to: &array) }
            }
            if deliveries.count < total { object.field("deliveries_truncated", true) }
            object.array("deliveries") { array in
                for delivery in deliveries { delivery.write(to: &array) }
            }
        }
    }
}

extension NotificationStatus.Reason {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field("class", outcome)
            object.field("status", status)
            object.field("reason", reason)
            object.field("count", count)
        }
    }
}

extension NotificationStatus.Delivery {
    package func write(to writer: inout JSONWriter, tokens shown: TokenDisplay = .hints) {
        writer.object { object in
            object.field("id", id.description)
            object.field("installation", installation.description)
            if shown == .full { object.field("token", token?.hex) }
            object.field("hint", token?.hint ?? "")
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
