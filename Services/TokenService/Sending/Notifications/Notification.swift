package import PushModel
import TokenServiceKit

/// One accepted send request with everything that its jobs need.
package struct Notification: Equatable, Sendable {
    package var id: PushID
    package var app: AppSlug
    package var topic: String
    package var request: NotificationRequest
    /// UNIX milliseconds.
    package var acceptedAt: Int64
    /// W3C trace context: the sender's, or our own.
    package var traceparent: String
}

/// `accepted → sending → completed`, or an end without a push.
package enum NotificationState: String, CaseIterable, Sendable {
    case accepted, scheduled, expanding, sending, completed, cancelled, expired
    case noTargets = "no_targets"
}

/// The sender's answer with the 202. A function of the row, so that a replay gives the same bytes.
package struct NotificationReceipt: Equatable, Sendable {
    package var id: PushID
    package var app: AppSlug
    package var lane: Lane
    package var pushType: PushType
    /// Nil where the targets are found later.
    package var deliveries: Int?
    /// It was not due yet in any time zone when it was accepted.
    package var isScheduled = false
    package var acceptedAt: Int64
    package var expiresAt: Int64
    package var warnings: [NotificationWarning] = []

    /// As its row shows it.
    var state: NotificationState { deliveries == 0 ? .noTargets : isScheduled ? .scheduled : .accepted }

    static let response = ResponseSchema<NotificationReceipt>.object("Receipt", fields)

    static let fields: [ResponseSchema<NotificationReceipt>.Field] = [
        .required("id", .uuid) { $0.id },
        .required("app", .slug) { $0.app },
        .required("state", .word) { $0.state },
        .required("lane", .word) { $0.lane },
        .required("push_type", .word) { $0.pushType },
        .optional("deliveries", .count, "To how many tokens; absent where they are found after the answer.") { $0.deliveries },
        .required("accepted_at", .time) { $0.acceptedAt },
        .required("expires_at", .time) { $0.expiresAt },
        .required("warnings", .array(NotificationWarning.response), "Legal but doubtful.") { $0.warnings },
    ]
}
