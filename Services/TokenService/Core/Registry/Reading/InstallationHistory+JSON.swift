import PushModel
package import StrictJSON

extension InstallationHistory.Page {
    package func write(to writer: inout JSONWriter, list: HistoryList, app: App) {
        writer.object { object in
            object.field("app", app.slug.text)
            object.field("id", list.installation.description)
            object.field("reachable", reachability.isReachable)
            object.field("reachable_purposes", reachability.purposes)
            object.field("explanation", reachability.explanation)
            object.array("entries") { array in
                for entry in entries { entry.write(to: &array) }
            }
            if let next { object.field("next_cursor", list.cursor(after: next, app: app)) } else { object.null("next_cursor") }
        }
    }
}

extension HistoryEntry {
    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.time("at", at)
            object.field("event", event.rawValue)
            object.field("user", owner)
            object.field("owner_epoch", ownerEpoch)
            if let token {
                object.object("token") { object in
                    object.field("hint", token.hint)
                    object.field("environment", token.environment)
                    object.field("purpose", token.purpose)
                }
            }
            object.field("other_installation", otherInstallation?.description)
            object.field("status", status)
            object.field("reason", reason)
            object.time("apns_timestamp", apnsTimestamp)
            object.field("delivery", delivery?.description)
        }
    }
}
