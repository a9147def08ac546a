/// A device's record of its Live Activities beyond its display: also of those that have ended or left the lock screen.
struct SeenActivities {
    private static let maximum = 1000

    /// One activity: a topic has one for pushes and one for each broadcast channel, or one for each collapse id.
    private struct Key: Hashable {
        let topic: [UInt8]
        let channelID: String?
        let collapseID: [UInt8]?

        init(_ entry: Inbox.Entry) {
            topic = entry.topic
            channelID = entry.channelID
            collapseID = entry.collapseID
        }
    }

    private struct Latest {
        let timestamp: Int64
        let hasEnded: Bool
    }

    private var activities: [Key: Latest] = [:]

    /// Whether a state is outdated: older than one that was seen, or after the end. A `start` begins another activity.
    func isOutdated(_ entry: Inbox.Entry, _ activity: ActivityState) -> Bool {
        guard activity.event != .start, let latest = activities[Key(entry)] else { return false }
        return latest.hasEnded || latest.timestamp > activity.timestamp
    }

    func has(_ entry: Inbox.Entry) -> Bool {
        guard let activity = entry.content.content?.activity else { return false }
        return activities[Key(entry)]?.timestamp == activity.timestamp
    }

    mutating func note(_ entry: Inbox.Entry, _ activity: ActivityState) {
        let key = Key(entry)
        // Bounded; a device has a handful.
        if activities.count >= Self.maximum, activities[key] == nil, let other = activities.keys.first { activities[other] = nil }
        activities[key] = Latest(timestamp: activity.timestamp, hasEnded: activity.event == .end)
    }
}
