package import PushModel

/// The states of one Live Activity, or of one broadcast channel, on their way to the devices. At most one notification is under way. The
/// newest one waits for it, and takes the place of those that were waiting. Times are UNIX milliseconds.
package struct UpdateQueue: Equatable, Sendable {
    /// A waiting notification is looked at again after so long, whatever it waits for.
    static let recheck: Int64 = 5 * 60_000
    /// Clocks of two processes may differ by so much.
    private static let tolerance: Int64 = 5_000

    /// The notification with the newest state that was accepted.
    package var newest: PushID?
    /// The `timestamp` of that state, UNIX seconds.
    package var newestTimestamp: Int64?
    /// It waits for its turn.
    package var isWaiting = false
    /// The notification whose pushes are under way.
    package var sending: PushID?
    /// It is sent again later.
    package var isRetrying = false
    /// The window of the last notification ends then.
    package var freeAt: Int64?

    package init() {}

    /// What becomes of a notification.
    package enum Turn: Equatable, Sendable {
        case send
        /// The notification waits until then, or until what it waits for happens.
        case wait(until: Int64)
        /// A newer state was accepted before.
        case outdated
    }

    /// Takes a state into the queue.
    /// - Parameters:
    ///   - replacesRetry: It also replaces one under way whose attempt failed.
    ///   - superseded: Gets the notifications that it replaces.
    /// - Returns: false if a newer state was accepted before.
    package mutating func accept(
        _ notification: PushID, timestamp: Int64, replacesRetry: Bool = true, superseded: inout [PushID]
    ) -> Bool {
        if let newestTimestamp, timestamp < newestTimestamp { return false }
        if isWaiting, let newest { superseded.append(newest) }
        if isRetrying, replacesRetry, let sending {
            superseded.append(sending)
            self.sending = nil
            isRetrying = false
        }
        newest = notification
        isWaiting = true
        newestTimestamp = timestamp
        return true
    }

    /// Whether a notification may be sent now. Fan-out asks again when it takes up one that waited.
    /// - Parameters:
    ///   - isReady: There is a device to send to.
    ///   - window: How long the window of the one before it lasts, for whose end it waits; nil: it waits for none.
    package func turn(of notification: PushID, isReady: Bool, window: Int64?, now: Int64) -> Turn {
        #if PUSH_DELIBERATE_FAULTS
            if DeliberateFault.chosen == .activityOutOfTurn { return .send }
        #endif
        if sending == notification { return .send }
        guard newest == notification else { return .outdated }
        let later = now + Self.recheck
        if sending != nil || !isReady { return .wait(until: later) }
        // A process whose clock was ahead opened a window that ends later than that.
        if let window, let freeAt, freeAt > now, freeAt - now <= window + Self.tolerance { return .wait(until: min(freeAt, later)) }
        return .send
    }

    /// - Parameter window: The window that it opens, in milliseconds; nil: it opens none.
    package mutating func begin(_ notification: PushID, window: Int64?, now: Int64) {
        sending = notification
        isRetrying = false
        if newest == notification { isWaiting = false }
        if let window { freeAt = now + window }
    }

    /// There is no device to send it to.
    package mutating func drop(_ notification: PushID) {
        if newest == notification { isWaiting = false }
    }

    /// The notification has all its outcomes.
    /// - Returns: the notification that may go next.
    package mutating func ended(_ notification: PushID) -> PushID? {
        guard sending == notification else { return nil }
        sending = nil
        isRetrying = false
        #if PUSH_DELIBERATE_FAULTS
            if DeliberateFault.chosen == .activityTurnLost { return nil }
        #endif
        return isWaiting ? newest : nil
    }

    /// The notification that waits though none is under way.
    package var free: PushID? { sending == nil && isWaiting ? newest : nil }

    /// An attempt failed, and another follows.
    /// - Parameters:
    ///   - mayBeReplaced: A newer one need not wait for it.
    ///   - superseded: Gets the notification, if a newer one takes its place.
    /// - Returns: the notification that may go next.
    package mutating func failed(_ notification: PushID, mayBeReplaced: Bool = true, superseded: inout [PushID]) -> PushID? {
        guard sending == notification else { return nil }
        guard mayBeReplaced, isWaiting, let newest else {
            isRetrying = true
            return nil
        }
        superseded.append(notification)
        sending = nil
        return newest
    }
}
