package import PushModel

/// One Live Activity as the platform follows it. Times are UNIX milliseconds.
///
/// The rules of its updates (`docs/guides/live-activities.md`): at most one is under way, the newest state waits for it, and of those that
/// wait the newest is sent. An update also waits until a device has reported its update token.
package struct LiveActivity: Equatable, Sendable {
    /// The system ends an activity eight hours after its start (Apple, "Displaying live data with Live Activities").
    package static let longestLife: Int64 = 8 * 3_600_000
    /// A waiting update is looked at again after so long, whatever it waits for.
    static let recheck: Int64 = 5 * 60_000

    package let key: Key
    package var owner: Owner
    package var attributesType: String?
    package var startedAt: Int64
    /// When a device first reported an update token.
    package var reportedAt: Int64?
    package var hasFrequentUpdates = false
    package var endedAt: Int64?
    package var staleAt: Int64?
    package var dismissedAt: Int64?
    /// The newest state that was accepted.
    package var newest: PushID?
    /// It waits for its turn.
    package var isWaiting = false
    /// The `timestamp` of that state, UNIX seconds.
    package var newestTimestamp: Int64?
    /// The notification whose pushes are under way.
    package var sending: PushID?
    /// It is sent again later.
    package var isRetrying = false
    /// The window of the last update ends then.
    package var freeAt: Int64?

    package struct Key: Hashable, Sendable, Comparable {
        package let app: App.ID
        package let id: String

        package static func < (left: Key, right: Key) -> Bool {
            left.app == right.app ? left.id.utf8.lexicographicallyPrecedes(right.id.utf8) : left.app < right.app
        }
    }

    package enum Owner: Equatable, Sendable {
        case user(String)
        /// The installation has no user.
        case installation(PushID)

        /// By bytes (``ExactText``).
        package static func == (left: Owner, right: Owner) -> Bool {
            switch (left, right) {
            case (.user(let left), .user(let right)): left.hasSameBytes(as: right)
            case (.installation(let left), .installation(let right)): left == right
            default: false
            }
        }
    }

    package init(key: Key, owner: Owner, attributesType: String?, startedAt: Int64) {
        self.key = key
        self.owner = owner
        self.attributesType = attributesType
        self.startedAt = startedAt
    }
}

/// A start, an update or an end of one Live Activity, as a request states it.
package struct ActivityChange: Equatable, Sendable {
    package enum Event: String, Sendable { case start, update, end }

    package var id: String
    package var event: Event
    /// UNIX seconds: a device shows the newest state.
    package var timestamp: Int64
    /// UNIX seconds.
    package var staleDate: Int64?
    package var dismissalDate: Int64?
    package var attributesType: String?
    /// Apple's id of the broadcast channel that the started activity follows.
    package var channelID: String?
}

extension LiveActivity {
    /// What becomes of an update when it is accepted.
    package enum Admission: Equatable, Sendable {
        case send
        /// Until then, UNIX milliseconds, or until what it waits for happens.
        case wait(until: Int64)
        /// A newer state was accepted before.
        case outdated
        /// The activity is over.
        case over
    }

    package func isOver(at now: Int64) -> Bool { endedAt != nil || now >= startedAt + Self.longestLife }

    /// Accepts an update or an end.
    /// - Parameters:
    ///   - maySend: Its pushes can be made in the acceptance.
    ///   - superseded: Gets the notifications that it replaces.
    package mutating func accept(
        _ change: ActivityChange, as notification: PushID, priority: Int, window: Int64, maySend: Bool, now: Int64,
        superseded: inout [PushID]
    ) -> Admission {
        // After an end only another end counts: it may move the dismissal.
        if isOver(at: now), change.event != .end { return .over }
        if let newestTimestamp, change.timestamp < newestTimestamp { return .outdated }
        if isWaiting, let newest { superseded.append(newest) }
        if isRetrying, let sending {
            superseded.append(sending)
            self.sending = nil
        }
        let wasRetrying = isRetrying
        isRetrying = false
        newest = notification
        isWaiting = true
        newestTimestamp = change.timestamp
        staleAt = change.staleDate.map { $0 * 1000 }
        if change.event == .end {
            endedAt = endedAt ?? now
            dismissedAt = change.dismissalDate.map { max($0 * 1000, now) }
        }
        let turn = turn(of: notification, now: now)
        guard case .wait = turn else {
            // The control stream must have the end of the older one first: the relay sees to that.
            guard maySend, !wasRetrying else { return .wait(until: now) }
            begin(notification, priority: priority, window: window, now: now)
            return .send
        }
        return turn
    }

    /// Whether a notification may be sent now. Fan-out asks again when it takes up one that waited.
    package func turn(of notification: PushID, now: Int64) -> Admission {
        if sending == notification { return .send }
        guard newest == notification else { return .outdated }
        let later = now + Self.recheck
        if sending != nil || reportedAt == nil { return .wait(until: later) }
        // An end waits for no window.
        if let freeAt, freeAt > now, endedAt == nil { return .wait(until: min(freeAt, later)) }
        return .send
    }

    package mutating func begin(_ notification: PushID, priority: Int, window: Int64, now: Int64) {
        sending = notification
        isRetrying = false
        if newest == notification { isWaiting = false }
        if priority == 10, !hasFrequentUpdates { freeAt = now + window }
    }

    /// Its notification has all its outcomes.
    /// - Returns: the notification that may go next.
    package mutating func settled(_ notification: PushID) -> PushID? {
        guard sending == notification else { return nil }
        sending = nil
        isRetrying = false
        return isWaiting ? newest : nil
    }

    /// An attempt failed, and another follows.
    /// - Parameter superseded: Gets the notification, if a newer one need not wait for it.
    /// - Returns: the notification that may go next.
    package mutating func failed(_ notification: PushID, superseded: inout [PushID]) -> PushID? {
        guard sending == notification else { return nil }
        guard isWaiting, let newest else {
            isRetrying = true
            return nil
        }
        superseded.append(notification)
        sending = nil
        return newest
    }

    /// A device has reported an update token.
    /// - Returns: whether the activity is this owner's and goes on there; else it ends on the device.
    package mutating func reported(by owner: Owner, hasFrequentUpdates: Bool?, now: Int64) -> Bool {
        guard owner == self.owner else { return false }
        let isFirst = reportedAt == nil
        reportedAt = reportedAt ?? now
        self.hasFrequentUpdates = hasFrequentUpdates ?? self.hasFrequentUpdates
        // The end that was accepted while it was starting waits for this token.
        return isFirst || !isOver(at: now)
    }
}

/// A start names an activity that exists and is not over.
package struct ActivityExists: Error {}
