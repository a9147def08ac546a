package import PushModel
import StrictJSON
package import TokenServiceApps

/// A row of `notification_events`, with the notification's present state.
package struct NotificationChange: Sendable {
    package var notification: PushID
    /// A ``NotificationState``, or `superseded`.
    package var event: String
    package var lane: String
    package var pushType: String
    /// UNIX milliseconds, as are the others.
    package var acceptedAt: Int64
    package var expiresAt: Int64
    /// Deliveries that exist; nil before the notification has any.
    package var total: Int?
    /// Final deliveries by class, where the event is the last.
    package var counts: [String: Int]?

    package init(
        notification: PushID, event: String, lane: String, pushType: String, acceptedAt: Int64, expiresAt: Int64, total: Int? = nil,
        counts: [String: Int]? = nil
    ) {
        self.notification = notification
        self.event = event
        self.lane = lane
        self.pushType = pushType
        self.acceptedAt = acceptedAt
        self.expiresAt = expiresAt
        self.total = total
        self.counts = counts
    }

    /// Whether no event follows, so that the counts are final.
    package static func isLast(_ event: String) -> Bool { ["completed", "expired", "no_targets"].contains(event) }

    package func event(id: PushID, app: App.ID, slug: AppSlug, at time: Int64) -> PushEvent {
        PushEvent(id: id, topic: "notification.\(event)", app: app, slug: slug, subject: "notifications/\(notification)", time: time) {
            writer in
            writer.plainField("notification", notification.append)
            writer.field("state", event == "superseded" ? "cancelled" : event)
            writer.field("lane", lane)
            writer.field("push_type", pushType)
            writer.field("accepted_at_ms", acceptedAt)
            writer.field("expires_at_ms", expiresAt)
            writer.field("total", total)
            guard let counts else { return }
            writer.object("counts") { object in
                for (name, number) in counts.sorted(by: { $0.key < $1.key }) { object.field(name, number) }
            }
        }
    }
}
