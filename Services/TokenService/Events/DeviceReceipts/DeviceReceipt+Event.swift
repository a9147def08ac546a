import Postgres
import PushModel
import StrictJSON
import TokenServiceApps
package import TokenServiceSending

extension DeviceReceipt {
    /// A row of `device_receipts`, for its event. It does not name the user.
    struct Stored {
        let app: App.ID
        let slug: AppSlug
        let delivery: PushID
        let notification: PushID
        let installation: PushID
        let event: Event
        /// UNIX milliseconds.
        let at: Int64

        /// - Parameter row: A row with the columns `slug` and `delivery` beside those of the table.
        init(_ row: PostgresRow) throws {
            app = try row["app_id"]
            slug = try row["slug"]
            delivery = try row["delivery"]
            notification = try row["notification"]
            installation = try row["installation"]
            event = try row["event"]
            at = try row.milliseconds("at")
        }

        func event(id: PushID) -> PlatformEvent {
            PlatformEvent(id: id, topic: event.topic, app: app, slug: slug, subject: "deliveries/\(delivery)", time: at) { writer in
                writer.plainField("delivery", delivery.append)
                writer.plainField("notification", notification.append)
                writer.plainField("installation", installation.append)
            }
        }
    }
}

extension DeviceReceipt.Event {
    package var topic: String { "delivery.\(rawValue)" }
}
