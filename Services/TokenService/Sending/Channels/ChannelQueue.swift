package import PushModel
package import TokenServiceApps
package import TokenServiceRegistry

/// The broadcasts of one channel on their way (``UpdateQueue``). Times are UNIX milliseconds.
package struct ChannelQueue: Equatable, Sendable {
    /// Broadcasts of a channel are as far apart. Apple publishes no limit; beyond about one a second it answers `TooManyRequests`
    /// (docs/apns.md, Broadcasts).
    static let window: Int64 = 1000

    package let key: Key
    let channel: BroadcastChannel.ID
    package var queue = UpdateQueue()
    /// The newest state is an end.
    package var isEnd = false
    /// The broadcast under way is an end. No update takes its place, also if an attempt fails.
    package var isSendingEnd = false
    /// When the last end was sent: activities that had started before are over.
    package var endedAt: Int64?
    /// When the newest state becomes stale.
    package var staleAt: Int64?
    package var dismissedAt: Int64?

    package struct Key: Hashable, Sendable, Comparable {
        package let app: App.ID
        package let name: String

        package static func < (left: Key, right: Key) -> Bool {
            left.app == right.app ? left.name.utf8.lexicographicallyPrecedes(right.name.utf8) : left.app < right.app
        }
    }

    /// Fan-out makes the broadcast when it may go.
    /// - Parameter superseded: Gets the notifications that it replaces.
    package mutating func accept(_ change: ActivityChange, as notification: PushID, now: Int64, superseded: inout [PushID])
        -> UpdateQueue.Turn
    {
        // No update replaces an end that waits. A channel outlives its activities: after the end, new ones may follow it.
        if isEnd, queue.isWaiting, change.event != .end { return .outdated }
        let replacesRetry = !isSendingEnd || change.event == .end
        guard queue.accept(notification, timestamp: change.timestamp, replacesRetry: replacesRetry, superseded: &superseded)
        else { return .outdated }
        isEnd = change.event == .end
        staleAt = change.staleDate.map { $0 * 1000 }
        dismissedAt = isEnd ? change.dismissalDate.map { max($0 * 1000, now) } : dismissedAt
        let turn = turn(of: notification, now: now)
        return turn == .send ? .wait(until: now) : turn
    }

    package func turn(of notification: PushID, now: Int64) -> UpdateQueue.Turn {
        queue.turn(of: notification, isReady: true, window: Self.window, now: now)
    }

    package mutating func begin(_ notification: PushID, now: Int64) {
        queue.begin(notification, window: Self.window, now: now)
        isSendingEnd = isEnd && queue.newest == notification
        if isSendingEnd { endedAt = now }
    }

    /// An attempt failed, and another follows (``UpdateQueue/failed(_:mayBeReplaced:superseded:)``).
    mutating func failed(_ notification: PushID, superseded: inout [PushID]) -> PushID? {
        queue.failed(notification, mayBeReplaced: !isSendingEnd || isEnd, superseded: &superseded)
    }
}
