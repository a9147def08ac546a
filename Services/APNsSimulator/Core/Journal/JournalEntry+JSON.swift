package import StrictJSON

extension JournalEntry {
    /// As the control API and `apns-simulator journal` show it.
    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field("sequence", sequence)
            object.field("time", rfc3339(time))
            object.field("environment", environment.rawValue)
            object.field("connection", connection)
            object.field("stream", stream)
            object.field("token", token)
            object.field("apns_id", apnsID)
            object.field("uuid", uuid)
            object.field("topic", topic)
            object.field("push_type", pushType)
            object.field("action", action.rawValue)
            object.field("status", status)
            object.field("reason", reason)
            object.field("timestamp_ms", timestamp)
            object.field("shown", isShown)
            object.field("answered_at", answeredAt.map { rfc3339($0) })
            object.field("lost", loss?.rawValue)
            if let marker { object.field("marker", marker) }
            object.field("activity_result", activity?.rawValue)
        }
    }
}

extension JournalNote {
    /// As `apns-simulator journal` shows it.
    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field("sequence", sequence)
            if let loss {
                object.field("lost", loss.rawValue)
            } else {
                object.field("answered_at", rfc3339(time))
            }
        }
    }
}
