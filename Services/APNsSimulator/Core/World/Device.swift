/// A device with an app on it, in the simulator's state.
package struct Device: Sendable, Equatable {
    package enum State: Sendable, Equatable {
        case installed
        /// Pushes are answered 410 `Unregistered` with this moment, UNIX milliseconds.
        case uninstalled(since: Int64)
        /// Pushes are answered the same way with `ExpiredToken`: the token is over, not the app.
        case expired(since: Int64)

        var hasApp: Bool {
            if case .uninstalled = self { false } else { true }
        }
    }

    /// The device token in lower-case hex.
    package let token: String
    /// The environment in which the token works; in the other one it is answered `BadDeviceToken`, like garbage (docs/apns.md,
    /// Environments).
    package let environment: SimulatorEnvironment
    /// Topics other than these are answered `DeviceTokenNotForTopic`; nil takes any.
    package let topics: [String]?
    package let state: State
    /// The name that people read.
    package let name: String?
    /// Off: pushes are accepted, and wait (docs/apns.md, Devices; ``Readings/Stored``).
    package let isOnline: Bool
    package let throttle: Throttle?
    /// Broadcast channels that its Live Activities listen to.
    package let channels: [String]
    package let startTokens: [StartToken]
    /// The person allows the app more updates of its Live Activities.
    package let hasFrequentUpdates: Bool
}

/// The state of one token: the device, the script, or both. Lives behind the world's lock.
struct TokenRecord {
    struct Installation {
        var environment: SimulatorEnvironment
        var topics: [[UInt8]]?
        var state: Device.State
        var name: String?
        var inbox = Inbox()
        var activities = Activities()
        var startTokens: [(token: TokenKey, attributesType: String)] = []
        var hasFrequentUpdates = false
        /// The number on the app's icon.
        var badge: Int64?
        /// Pushes accepted for this device, shown or not.
        var accepted: Int64 = 0
        var isOnline = true
        /// Pushes that wait for the device to come online, oldest first (``Readings/Stored``).
        var stored: [StoredPush] = []
        var throttle: Throttle?
        /// How many pushes are still accepted after the uninstallation, because APNs learns of it late (docs/apns.md, Answers).
        var pushesUntilGone = 0
        /// Named over the control API: the first broadcast of each begins an activity.
        var channels: Set<String> = []
        /// These and the channels of its activities: where the device is a subscriber.
        var following: Set<String> = []
        /// Broadcasts that it did not get because it was off.
        var missed: Int64 = 0
        /// Channels whose newest broadcast is among the missed ones.
        var awaited: Set<String> = []
    }

    var installation: Installation?
    /// The purpose of a token that belongs to a device beside the device's own.
    var purpose: ActivityTokenUse?
    var script: AnswerScript?

    var isEmpty: Bool { installation == nil && purpose == nil && script == nil }
}

extension TokenRecord.Installation {
    /// The answer by the state of this device alone.
    mutating func answer(to environment: SimulatorEnvironment, topic: [UInt8], now: Int64) -> StatusAnswer {
        guard environment == self.environment else { return StatusAnswer(.badDeviceToken) }
        switch state {
        case .installed: break
        case .uninstalled where pushesUntilGone > 0:
            pushesUntilGone -= 1
            return .accepted
        case .uninstalled(let since): return StatusAnswer(.unregistered, timestamp: since)
        case .expired(let since): return StatusAnswer(.expiredToken, timestamp: since)
        }
        if let topics, !topics.contains(topic) { return StatusAnswer(.deviceTokenNotForTopic) }
        return throttle?.admits(now) ?? true ? .accepted : StatusAnswer(.tooManyRequests)
    }
}

/// How many pushes a device takes in a time; further ones are answered `TooManyRequests`.
package struct Throttle: Sendable, Equatable {
    package internal(set) var pushes: Int64
    package let milliseconds: Int64
    private var windowStart: Int64?
    private var used: Int64 = 0

    package init(pushes: Int64, per duration: Duration) {
        self.init(pushes: pushes, milliseconds: duration / .milliseconds(1) < 1 ? 1 : Int64(duration / .milliseconds(1)))
    }

    init(pushes: Int64, milliseconds: Int64) {
        self.pushes = pushes
        self.milliseconds = milliseconds
    }

    /// Counts a push. The window begins with the first push after the one before has ended.
    mutating func admits(_ now: Int64) -> Bool {
        if windowStart.map({ now - $0 >= milliseconds }) ?? true { (windowStart, used) = (now, 0) }
        used += 1
        return used <= pushes
    }

    /// How many more it admits now.
    func left(_ now: Int64) -> Int64 {
        if windowStart.map({ now - $0 >= milliseconds }) ?? true { return pushes }
        return max(0, pushes - used)
    }
}
