import Postgres
import PushModel

/// Decides about the Live Activities among the notifications that are accepted together, one after another, on rows that are locked.
struct ActivityAdmission {
    /// With their addressees, in the order of the items; without ``refused``.
    private(set) var items: [NotificationStore.Item] = []
    /// Starts of activities that exist and are not over.
    private(set) var refused: Set<PushID> = []
    private var activities: [LiveActivity.Key: LiveActivity] = [:]
    private var changed: Set<LiveActivity.Key> = []
    /// The notifications that start an activity.
    private var starts: [LiveActivity.Key: (notification: PushID, channelID: String?)] = [:]
    private var superseded: [PushID] = []

    init(_ items: [NotificationStore.Item], in session: PostgresSession) throws {
        let keys = items.compactMap(\.activityKey)
        if !keys.isEmpty {
            let store = ActivityStore(session: session)
            let hasStart = items.contains { $0.notification.request.activity?.event == .start }
            activities = try hasStart ? store.lockOrReserve(keys) : store.lock(keys)
        }
        self.items.reserveCapacity(items.count)
        for item in items { admit(item) }
    }

    private mutating func admit(_ item: NotificationStore.Item) {
        guard let key = item.activityKey, let change = item.notification.request.activity else { return items.append(item) }
        guard change.event != .start else { return start(item, key, change) }
        // An activity that is not known has no device, so the acceptance finds none.
        guard var activity = activities[key] else { return items.append(item) }
        let notification = item.notification
        let admission = activity.accept(
            change, as: notification.id, priority: notification.request.priority, window: item.app.activityWindow,
            maySend: notification.request.isOnePayload, now: notification.acceptedAt, superseded: &superseded)
        switch admission {
        case .over: items.append(item)
        case .outdated:
            superseded.append(notification.id)
            items.append(item.addressed(to: activity.owner, waitingUntil: notification.request.expiresAt))
        case .send:
            store(activity)
            items.append(item.addressed(to: activity.owner, waitingUntil: nil))
        case .wait(let moment):
            store(activity)
            items.append(item.addressed(to: activity.owner, waitingUntil: min(moment, notification.request.expiresAt)))
        }
    }

    private mutating func start(_ item: NotificationStore.Item, _ key: LiveActivity.Key, _ change: ActivityChange) {
        let (notification, owner) = (item.notification, LiveActivity.Owner(item.notification.request.target))
        guard let owner else { return items.append(item) }
        if let activity = activities[key], !activity.isOver(at: notification.acceptedAt) {
            refused.insert(notification.id)
            return
        }
        if let earlier = activities[key], earlier.isWaiting, let newest = earlier.newest { superseded.append(newest) }
        var activity = LiveActivity(
            key: key, owner: owner, attributesType: change.attributesType,
            startedAt: notification.request.timing.notBefore ?? notification.acceptedAt)
        activity.newestTimestamp = change.timestamp
        activity.staleAt = change.staleDate.map { $0 * 1000 }
        starts[key] = (notification.id, change.channelID)
        store(activity)
        items.append(item)
    }

    private mutating func store(_ activity: LiveActivity) {
        activities[activity.key] = activity
        changed.insert(activity.key)
    }

    /// To run in the same transaction, once the notifications are written.
    var writes: [PostgresQuery] {
        let rows = changed.sorted().compactMap { activities[$0] }
        return CancellationStore.supersede(superseded) + ActivityStore.save(rows)
            + ActivityStore.settleStarts(starts)
            + NotificationStore.forgetKeys(of: refused)
    }
}

extension NotificationStore.Item {
    var activityKey: LiveActivity.Key? {
        notification.request.activity.map { LiveActivity.Key(app: app.id, id: $0.id) }
    }

    fileprivate func addressed(to owner: LiveActivity.Owner, waitingUntil moment: Int64?) -> NotificationStore.Item {
        var notification = notification
        switch owner {
        case .user(let name): notification.request.target = .user(name)
        case .installation(let id): notification.request.target = .installation(id)
        }
        return NotificationStore.Item(
            notification: notification, app: app, idempotency: idempotency, leaseSeconds: leaseSeconds, waitsUntil: moment)
    }
}

extension LiveActivity.Owner {
    fileprivate init?(_ target: NotificationRequest.Target) {
        switch target {
        case .user(let name): self = .user(name)
        case .installation(let id): self = .installation(id)
        case .users, .installations, .tokens, .tags, .all, .activity: return nil
        }
    }
}

extension App {
    /// Milliseconds.
    var activityWindow: Int64 { Int64(activityWindowSeconds) * 1000 }
}
