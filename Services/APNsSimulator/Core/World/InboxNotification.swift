/// One entry of a device's display.
package struct InboxNotification: Sendable, Equatable {
    /// UNIX milliseconds.
    package let receivedAt: Int64
    /// The id as the sender wrote it, or as the simulator made it.
    package let apnsID: String
    package let topic: String
    /// nil where the sender named none.
    package let pushType: String?
    package let collapseID: String?
    package let content: DeviceContent
    /// Until when APNs would have kept it for a device that is off, UNIX milliseconds; nil if it would not.
    package let expiresAt: Int64?
    /// The broadcast channel that a Live Activity's state came from.
    package let channelID: String?
    /// The Live Activity whose state it shows.
    package let activityID: String?
}

/// The entries of a device's lock screen. Bounded: the oldest go.
struct Inbox {
    static let maximumEntries = 1000

    /// Compact: texts are made only when they are read.
    struct Entry {
        let receivedAt: Int64
        let id: MessageID
        let topic: [UInt8]
        let type: ServerPushType?
        let collapseID: [UInt8]?
        let content: PayloadReader.Reading
        var target = PushTarget.device
        var priority = 10
        var expiresAt: Int64?
        /// The Live Activity whose state it shows.
        var activityID: String?
        /// From this moment a Live Activity is gone from the lock screen.
        var dismissAt: Int64?

        func isGone(now: Int64) -> Bool { dismissAt.map { $0 <= now } ?? false }

        /// Whether this newer entry replaces an older one.
        fileprivate func replaces(_ other: Entry) -> Bool {
            if let activityID { return activityID == other.activityID }
            guard topic == other.topic, let collapseID else { return false }
            return collapseID == other.collapseID && other.activityID == nil
        }
    }

    private var entries: [Entry] = []
    private var oldest = 0

    private var count: Int { entries.count - oldest }

    /// How many the lock screen shows.
    /// - Parameter now: UNIX milliseconds.
    func count(now: Int64) -> Int { count - entries[oldest...].count { $0.isGone(now: now) } }

    /// Shows an entry; it replaces one with the same collapse id and topic.
    mutating func show(_ entry: Entry) {
        if entry.collapseID != nil || entry.activityID != nil {
            entries.removeSubrange(..<oldest)
            oldest = 0
            entries.removeAll { entry.replaces($0) }
        }
        entries.append(entry)
        if count > Self.maximumEntries { oldest += 1 }
        if oldest == Self.maximumEntries {
            entries.removeFirst(oldest)
            oldest = 0
        }
    }

    /// The entry of a Live Activity leaves.
    mutating func dismiss(activity id: String) {
        entries.removeSubrange(..<oldest)
        oldest = 0
        entries.removeAll { $0.activityID == id }
    }

    func notifications(now: Int64) -> [InboxNotification] {
        entries[oldest...].compactMap { entry in
            guard !entry.isGone(now: now) else { return nil }
            return entry.content.content.map { content in
                InboxNotification(
                    receivedAt: entry.receivedAt,
                    apnsID: String(decoding: entry.id.text, as: UTF8.self),
                    topic: String(decoding: entry.topic, as: UTF8.self), pushType: entry.type?.name,
                    collapseID: entry.collapseID.map { String(decoding: $0, as: UTF8.self) }, content: content,
                    expiresAt: entry.expiresAt, channelID: entry.target.channelID, activityID: entry.activityID)
            }
        }
    }
}

/// Notifications that a lock screen stacks: those of one topic and one `thread-id`. A Live Activity stands alone.
struct NotificationGroup {
    let newest: InboxNotification
    let count: Int

    /// The group of the newest notification comes last.
    /// - Parameter notifications: Oldest first.
    static func groups(of notifications: [InboxNotification]) -> [NotificationGroup] {
        var groups: [[String?]: (newest: Int, count: Int)] = [:]
        for (index, notification) in notifications.enumerated() where notification.activityID == nil {
            let key = [notification.topic, notification.content.threadID]
            groups[key] = (index, (groups[key]?.count ?? 0) + 1)
        }
        return groups.values.sorted { $0.newest < $1.newest }.map { NotificationGroup(newest: notifications[$0.newest], count: $0.count) }
    }
}
