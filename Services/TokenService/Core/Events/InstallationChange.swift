package import PushModel
import StrictJSON

/// A row of `installation_history`, without the user.
package struct InstallationChange: Sendable {
    package var entry: HistoryEntry

    package init(_ entry: HistoryEntry) { self.entry = entry }

    package func event(id: PushID, slug: AppSlug) -> PushEvent {
        let entry = entry
        return PushEvent(
            id: id, topic: entry.event.topic, app: entry.app, slug: slug, subject: "installations/\(entry.installation)", time: entry.at
        ) { writer in
            writer.plainField("installation", entry.installation.append)
            writer.field("owner_epoch", entry.ownerEpoch)
            if let token = entry.token {
                writer.object("token") { object in
                    object.field("hint", token.hint)
                    object.field("environment", token.environment)
                    object.field("purpose", token.purpose)
                }
            }
            if let other = entry.otherInstallation { writer.plainField("other_installation", other.append) }
            writer.field("status", entry.status)
            writer.field("reason", entry.reason)
            writer.field("apns_timestamp_ms", entry.apnsTimestamp)
            if let delivery = entry.delivery { writer.plainField("delivery", delivery.append) }
        }
    }
}
