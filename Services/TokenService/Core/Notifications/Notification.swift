package import PushModel
package import StrictJSON

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

/// `accepted → sending → completed`, or one of the ends where nothing is sent (DESIGN.md section 4).
package enum NotificationState: String, CaseIterable, Sendable {
    case accepted, scheduled, expanding, sending, completed, cancelled, expired
    case noTargets = "no_targets"
}

/// What a sender is told with the 202. A function of the row, so that a replay says the same bytes.
package struct NotificationReceipt: Equatable, Sendable {
    package var id: PushID
    package var app: AppSlug
    package var lane: Lane
    package var pushType: PushType
    /// Nil where the targets are found later.
    package var deliveries: Int?
    /// It is due later than it was accepted.
    package var isScheduled = false
    package var acceptedAt: Int64
    package var expiresAt: Int64
    package var warnings: [NotificationWarning] = []

    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.plainField("id") { id.append(to: &$0) }
            object.field("app", app.text)
            object.field("state", (deliveries == 0 ? NotificationState.noTargets : isScheduled ? .scheduled : .accepted).rawValue)
            object.field("lane", lane.rawValue)
            object.field("push_type", pushType.rawValue)
            object.field("deliveries", deliveries)
            object.time("accepted_at", acceptedAt)
            object.time("expires_at", expiresAt)
            object.array("warnings") { array in
                for warning in warnings { warning.write(to: &array) }
            }
        }
    }
}
