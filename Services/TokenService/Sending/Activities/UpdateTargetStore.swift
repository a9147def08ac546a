package import Postgres
import PushModel
import TokenServiceApps
import TokenServiceRegistry

/// The SQL of Live Activities and channels as updates see them. Their rows are locked before those of jobs and notifications, activities
/// before channels, each in ascending order of app and name.
package struct UpdateTargetStore {
    package let session: PostgresSession

    package init(session: PostgresSession) {
        self.session = session
    }

    /// Locks the rows that exist; missing keys are absent from the result.
    package func lock(_ keys: some Sequence<UpdateTarget.Key>) throws -> [UpdateTarget.Key: UpdateTarget] {
        let (activities, channels) = Self.split(keys)
        return Self.merged(
            activities.isEmpty ? [:] : try ActivityStore(session: session).lock(activities),
            channels.isEmpty ? [:] : try ChannelQueueStore(session: session).lock(channels))
    }

    /// Locks the rows to decide whose turn it is. A notification that has expired, or that a caller cancelled between two pages of its
    /// fan-out, has no outcome to come for which another one waits: it is not ``UpdateQueue/sending`` any more.
    /// - Parameter mayMakeActivities: The transaction may make those that do not exist.
    func lockForTurns(
        _ keys: some Sequence<UpdateTarget.Key>, mayMakeActivities: Bool = false
    ) throws -> [UpdateTarget.Key: UpdateTarget] {
        var targets = try mayMakeActivities ? lockOrReserve(keys) : lock(keys)
        let sending = targets.values.compactMap(\.queue.sending)
        guard !sending.isEmpty else { return targets }
        // A statement of its own: one that waited for a lock sees the notifications as they were before.
        let open: [PushID] = try session.execute(
            "SELECT id FROM notifications WHERE id = ANY (\(sending)) AND completed_at IS NULL AND expires_at > now()"
        ).column("id")
        for (key, target) in targets {
            if let sending = target.queue.sending, !open.contains(sending) { targets[key]?.queue.sending = nil }
        }
        return targets
    }

    private func lockOrReserve(_ keys: some Sequence<UpdateTarget.Key>) throws -> [UpdateTarget.Key: UpdateTarget] {
        let (activities, channels) = Self.split(keys)
        return Self.merged(
            try ActivityStore(session: session).lockOrReserve(activities),
            channels.isEmpty ? [:] : try ChannelQueueStore(session: session).lock(channels))
    }

    /// Writes rows that are locked or new.
    /// - Parameter targets: The rows in ascending order of key.
    package static func save(_ targets: [UpdateTarget]) -> [PostgresQuery] {
        ActivityStore.save(targets.compactMap { if case .activity(let activity) = $0 { activity } else { nil } })
            + ChannelQueueStore.save(targets.compactMap { if case .channel(let channel) = $0 { channel } else { nil } })
    }

    private static func split(_ keys: some Sequence<UpdateTarget.Key>) -> (activities: [LiveActivity.Key], channels: [ChannelQueue.Key]) {
        (
            keys.compactMap { if case .activity(let key) = $0 { key } else { nil } },
            keys.compactMap { if case .channel(let key) = $0 { key } else { nil } }
        )
    }

    private static func merged(
        _ activities: [LiveActivity.Key: LiveActivity], _ channels: [ChannelQueue.Key: ChannelQueue]
    ) -> [UpdateTarget.Key: UpdateTarget] {
        var targets: [UpdateTarget.Key: UpdateTarget] = [:]
        for (key, activity) in activities { targets[.activity(key)] = .activity(activity) }
        for (key, channel) in channels { targets[.channel(key)] = .channel(channel) }
        return targets
    }

    // MARK: Waiting notifications

    /// Fan-out takes the notification up again then, or when it expires; it is not due before.
    static func putBack(_ notification: PushID, until moment: Int64) -> PostgresQuery {
        """
        UPDATE fan_outs f SET free_from = greatest(now(), least(n.expires_at, \(milliseconds: moment))),
            due_at = greatest(now(), least(n.expires_at, \(milliseconds: moment)))
        FROM notifications n
        WHERE f.notification = \(notification) AND n.id = f.notification AND f.free_from IS NOT NULL
        """
    }
}

extension UpdateTarget.Key {
    /// What a notification updates.
    /// Nil for a start, and for all that is of no activity.
    /// - Parameter row: A row of `notifications`, with purpose, app_id, target_user and target_installation.
    package init?(_ row: PostgresRow) throws {
        let (purpose, app): (Purpose, App.ID) = (try row["purpose"], try row["app_id"])
        switch purpose {
        case .activity(let id):
            guard let owner = LiveActivity.Owner(user: try row["target_user"], orInstallation: try row["target_installation"]) else {
                return nil
            }
            self = .activity(LiveActivity.Key(app: app, owner: owner, id: id))
        case .channel(let name): self = .channel(ChannelQueue.Key(app: app, name: name))
        default: return nil
        }
    }
}
