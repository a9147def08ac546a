package import PushModel
package import TokenServiceRegistry

/// What updates go to, one after another: a Live Activity, or a broadcast channel.
package enum UpdateTarget: Equatable, Sendable {
    case activity(LiveActivity)
    case channel(ChannelQueue)

    /// Activities come before channels.
    package enum Key: Hashable, Sendable, Comparable {
        case activity(LiveActivity.Key)
        case channel(ChannelQueue.Key)
    }

    package var key: Key {
        switch self {
        case .activity(let activity): .activity(activity.key)
        case .channel(let channel): .channel(channel.key)
        }
    }

    package var queue: UpdateQueue {
        get {
            switch self {
            case .activity(let activity): activity.queue
            case .channel(let channel): channel.queue
            }
        }
        set {
            switch self {
            case .activity(var activity):
                activity.queue = newValue
                self = .activity(activity)
            case .channel(var channel):
                channel.queue = newValue
                self = .channel(channel)
            }
        }
    }

    /// - Parameter window: That of the app, for an activity.
    package func turn(of notification: PushID, window: Int64, now: Int64) -> UpdateQueue.Turn {
        switch self {
        case .activity(let activity): activity.turn(of: notification, window: window, now: now)
        case .channel(let channel): channel.turn(of: notification, now: now)
        }
    }

    /// An attempt failed, and another follows.
    /// - Parameter superseded: Gets the notification, if a newer one takes its place.
    /// - Returns: the notification that may go next.
    package mutating func failed(_ notification: PushID, superseded: inout [PushID]) -> PushID? {
        switch self {
        case .activity: return queue.failed(notification, superseded: &superseded)
        case .channel(var channel):
            defer { self = .channel(channel) }
            return channel.failed(notification, superseded: &superseded)
        }
    }

    /// - Parameter window: That of the app, for an activity.
    mutating func begin(_ notification: PushID, priority: Int, window: Int64, now: Int64) {
        switch self {
        case .activity(var activity):
            activity.begin(notification, priority: priority, window: window, now: now)
            self = .activity(activity)
        case .channel(var channel):
            channel.begin(notification, now: now)
            self = .channel(channel)
        }
    }
}
