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
