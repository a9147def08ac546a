/// A device with an app on it, as the simulator knows it.
package struct Device: Sendable, Equatable {
    package enum State: Sendable, Equatable {
        case installed
        /// Pushes are answered 410 `Unregistered` with this moment, UNIX milliseconds.
        case uninstalled(since: Int64)
    }

    /// The device token in lower-case hex.
    package let token: String
    /// In the other environment the token is answered `BadDeviceToken`, like garbage (APNS.md 1.1).
    package let environment: SimulatorEnvironment
    /// Topics other than these are answered `DeviceTokenNotForTopic`; nil takes any.
    package let topics: [String]?
    package let state: State
    /// For people.
    package let name: String?
}

/// Everything the simulator knows about one token: the device, the script, or both. Lives behind the world's lock.
struct TokenRecord {
    struct Installation {
        var environment: SimulatorEnvironment
        var topics: [[UInt8]]?
        var state: Device.State
        var name: String?
        var inbox = Inbox()
        /// What the app's icon shows.
        var badge: Int64?
        /// Pushes accepted for this device, shown or not.
        var accepted: Int64 = 0
    }

    var installation: Installation?
    var script: AnswerScript?

    var isEmpty: Bool { installation == nil && script == nil }
}

extension TokenRecord.Installation {
    /// What the state of this device alone answers (APNS.md 4.2).
    func answer(to environment: SimulatorEnvironment, topic: [UInt8]) -> Answer {
        guard environment == self.environment else { return Answer(.badDeviceToken) }
        if case .uninstalled(let since) = state { return Answer(.unregistered, timestamp: since) }
        if let topics, !topics.contains(topic) { return Answer(.deviceTokenNotForTopic) }
        return .accepted
    }
}
