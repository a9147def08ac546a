import Postgres
import PushModel
import TokenServiceApps
import TokenServiceRegistry

/// Decides about the notifications of Live Activities and channels among those that are accepted together, one after another, on rows that
/// are locked.
struct UpdateAdmission {
    /// The items that go on, with their addressees, in their order; without ``refused``.
    private(set) var items: [NotificationStore.Item] = []
    /// Starts of activities that their users have and that are not over.
    private(set) var refused: Set<PushID> = []
    private var targets: [UpdateTarget.Key: UpdateTarget] = [:]
    private var changed: Set<UpdateTarget.Key> = []
    /// Who is signed in on the installations to which an activity is started.
    private let users: [InstallationKey: String]
    /// The notifications that start an activity.
    private var starts: [UpdateTarget.Key: (notification: PushID, channelID: String?)] = [:]
    /// Notifications that a newer state replaces before they are sent.
    private(set) var superseded: [PushID] = []

    init(_ items: [NotificationStore.Item], in session: PostgresSession) throws {
        users = try UpdateTargetStore(session: session).users(of: items.compactMap(\.startedOn))
        let keys = items.compactMap { key(of: $0) }
        if !keys.isEmpty {
            let store = UpdateTargetStore(session: session)
            let hasStart = items.contains { $0.notification.request.activity?.event == .start }
            targets = try store.lockForTurns(keys, mayMakeActivities: hasStart)
        }
        self.items.reserveCapacity(items.count)
        for item in items { admit(item) }
    }

    private mutating func admit(_ item: NotificationStore.Item) {
        guard let key = self.key(of: item) else { return items.append(item) }
        // Another process's clock may be ahead: what comes later is not older.
        let restamped = targets[key]?.queue.newestTimestamp.flatMap { item.stamped(atLeast: $0) }
        let item = restamped ?? item
        let notification = item.notification
        guard let change = notification.request.activity else { return items.append(item) }
        if change.event == .start { return start(item, key, change) }
        guard var target = targets[key] else { return items.append(key.isChannel ? item : item.toNoDevice()) }
        let admission = target.accept(
            change, as: notification.id, priority: notification.request.priority, window: item.app.activityWindow,
            // Acceptance publishes the payload that it was given.
            maySend: notification.request.isOnePayload && restamped == nil, now: notification.acceptedAt, superseded: &superseded)
        guard case .turn(let turn) = admission else { return items.append(item.toNoDevice()) }
        admit(item, turn, of: target)
    }

    private mutating func admit(_ item: NotificationStore.Item, _ turn: UpdateQueue.Turn, of target: UpdateTarget) {
        let expiry = item.notification.request.expiresAt
        switch turn {
        case .outdated:
            superseded.append(item.notification.id)
            items.append(item.waiting(until: expiry))
        case .send:
            store(target)
            items.append(item)
        case .wait(let moment):
            store(target)
            items.append(item.waiting(until: min(moment, expiry)))
        }
    }

    private mutating func start(_ item: NotificationStore.Item, _ key: UpdateTarget.Key, _ change: ActivityChange) {
        let notification = item.notification
        if let earlier = targets[key] {
            guard earlier.isOver(at: notification.acceptedAt) else {
                refused.insert(notification.id)
                return
            }
            if earlier.queue.isWaiting, let newest = earlier.queue.newest { superseded.append(newest) }
        }
        let timing = notification.request.timing
        var activity = UpdateTarget(
            key: key, attributesType: change.attributesType,
            startedAt: max(timing.notBefore ?? timing.localTime?.earliest ?? 0, notification.acceptedAt))
        activity.startsUntil = timing.localTime?.latest
        activity.isStartedForUser = notification.request.target.user != nil
        activity.queue.newestTimestamp = change.timestamp
        activity.staleAt = change.staleDate.map { $0 * 1000 }
        starts[key] = (notification.id, change.channelID)
        store(activity)
        items.append(item)
    }

    /// The key of what an item updates; nil if it neither starts nor updates an activity that it names.
    private func key(of item: NotificationStore.Item) -> UpdateTarget.Key? {
        guard let change = item.notification.request.activity else { return nil }
        switch change.subject {
        case .activity(let id):
            guard let owner = owner(of: item, change.event) else { return nil }
            return UpdateTarget.Key(app: item.app.id, owner: owner, id: id)
        case .channel(let name): return UpdateTarget.Key(app: item.app.id, owner: .channel, id: name)
        case .type: return nil
        }
    }

    /// A start on an installation makes an activity of the user who is signed in there. An update names the owner itself.
    private func owner(of item: NotificationStore.Item, _ event: ActivityChange.Event) -> UpdateTarget.Owner? {
        switch item.notification.request.target {
        case .user(let name): .user(name)
        case .installation(let id) where event == .start:
            UpdateTarget.Owner(user: users[InstallationKey(app: item.app.id, id: id)], installation: id)
        case .installation(let id): .installation(id)
        case .users, .installations, .tokens, .tags, .all, .channel: nil
        }
    }

    private mutating func store(_ target: UpdateTarget) {
        targets[target.key] = target
        changed.insert(target.key)
    }

    /// The statements to run in the same transaction, once the notifications are written.
    var writes: [PostgresQuery] {
        let rows = changed.sorted().compactMap { targets[$0] }
        return CancellationOutbox.supersede(superseded) + UpdateTargetStore.save(rows) + UpdateTargetStore.removeUnreached(starts)
            + NotificationStore.forgetKeys(of: refused)
    }
}

extension NotificationStore.Item {
    /// The installation to which it starts an activity.
    fileprivate var startedOn: InstallationKey? {
        guard notification.request.activity?.event == .start else { return nil }
        return notification.request.target.installation.map { InstallationKey(app: app.id, id: $0) }
    }

    /// Makes the item reach no device, because its activity is not known, or over.
    fileprivate func toNoDevice() -> NotificationStore.Item {
        NotificationStore.Item(
            notification: notification, app: app, idempotency: idempotency, leaseSeconds: leaseSeconds, reachesNoDevice: true)
    }

    /// Gives the item a later timestamp, if it is the platform's and earlier than this one; nil if it need not or cannot be changed.
    /// - Parameter seconds: UNIX seconds.
    fileprivate func stamped(atLeast seconds: Int64) -> NotificationStore.Item? {
        guard let change = notification.request.activity, change.event != .start, change.isStamped, change.timestamp < seconds,
            let content = notification.request.content.stamped(with: seconds)
        else { return nil }
        var notification = notification
        notification.request.content = content
        notification.request.activity?.timestamp = seconds
        return NotificationStore.Item(notification: notification, app: app, idempotency: idempotency, leaseSeconds: leaseSeconds)
    }

    fileprivate func waiting(until moment: Int64) -> NotificationStore.Item {
        NotificationStore.Item(
            notification: notification, app: app, idempotency: idempotency, leaseSeconds: leaseSeconds, waitsUntil: moment)
    }
}

extension App {
    /// Milliseconds.
    var activityWindow: Int64 { Int64(properties.activityWindowSeconds) * 1000 }
}
