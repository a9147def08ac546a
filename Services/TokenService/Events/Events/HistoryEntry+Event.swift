package import PushModel
import StrictJSON
package import TokenServiceRegistry

extension HistoryEntry {
    /// The event of a row of `installation_history`. It does not name the user.
    package func event(id: PushID, slug: AppSlug) -> PushEvent {
        PushEvent(id: id, topic: event.topic, app: app, slug: slug, subject: "installations/\(installation)", time: at) { writer in
            writer.plainField("installation", installation.append)
            writer.field("owner_epoch", ownerEpoch)
            if let token {
                writer.object("token") { object in
                    object.field("hint", token.hint)
                    object.field("environment", token.environment)
                    object.field("purpose", token.purpose)
                }
            }
            if let otherInstallation { writer.plainField("other_installation", otherInstallation.append) }
            writer.field("status", status)
            writer.field("reason", reason)
            writer.field("apns_timestamp_ms", apnsTimestamp)
            if let delivery { writer.plainField("delivery", delivery.append) }
        }
    }
}
