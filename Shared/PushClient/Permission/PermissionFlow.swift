public import Foundation

/// When to ask for the permission to show notifications.
///
/// The system asks a person once in the life of an install. So the app first shows its own screen, at a moment when the person sees a
/// use, and lets the system ask only after a yes. Pure: the app stores ``History`` and passes the date.
public struct PermissionFlow: Sendable, Hashable {
    /// What the app wants to reach.
    public enum Goal: Sendable, Hashable {
        /// Quiet notifications without any question first; a question later, when the person has seen some.
        case quietFirst
        /// Full notifications, by the app's own screen and then the system's question.
        case full
    }

    /// What has happened so far. Codable, so that the app can store it.
    public struct History: Sendable, Hashable, Codable {
        /// When the person said "not now" on the app's own screen, oldest first.
        public var postponed: [Date]
        /// When the app offered the way to the Settings, oldest first.
        public var offeredSettings: [Date]

        /// Without arguments, nothing has happened yet.
        public init(postponed: [Date] = [], offeredSettings: [Date] = []) {
            self.postponed = postponed
            self.offeredSettings = offeredSettings
        }
    }

    /// What the app does now: the answer of ``PermissionFlow/nextStep(_:history:isGoodMoment:now:)``.
    public enum Step: Sendable, Hashable {
        case nothing
        /// Ask the system for provisional permission. It shows no question.
        case requestProvisional
        /// Show the app's own screen; on yes call the system's question, on no note the date in ``History/postponed``.
        case showOwnScreen
        /// Show what the person misses, with a button that opens the Settings: the system does not ask again.
        case offerSettings
    }

    /// It counts only while the permission is ``PushPermission/notDetermined``.
    public var goal: Goal
    /// How long a "not now" and a way to the Settings rest before the next.
    public var rest: TimeInterval
    /// How often in all the app shows its own screen, and how often it offers the Settings.
    public var attempts: Int

    /// - Parameter rest: The rest in seconds; 30 days by itself.
    public init(goal: Goal = .full, rest: TimeInterval = 30 * 86_400, attempts: Int = 3) {
        self.goal = goal
        self.rest = rest
        self.attempts = attempts
    }

    /// - Parameter isGoodMoment: The person has just done something for which a notification is useful, such as placing an order.
    public func nextStep(_ permission: PushPermission, history: History, isGoodMoment: Bool, now: Date) -> Step {
        switch permission {
        case .authorized, .ephemeral: .nothing
        case .notDetermined where goal == .quietFirst: .requestProvisional
        case .notDetermined, .provisional: isGoodMoment && mayRepeat(history.postponed, now) ? .showOwnScreen : .nothing
        case .denied: isGoodMoment && mayRepeat(history.offeredSettings, now) ? .offerSettings : .nothing
        }
    }

    private func mayRepeat(_ dates: [Date], _ now: Date) -> Bool {
        guard dates.count < attempts else { return false }
        // A date in the future comes from a clock that was wrong: it does not count against the person's next good moment.
        return dates.last.map { $0 > now || now.timeIntervalSince($0) >= rest } ?? true
    }
}

/// Whether the person lets the app show notifications (Apple, "UNAuthorizationStatus"). The raw values are those of the HTTP API.
public enum PushPermission: String, Codable, Sendable, Hashable, CaseIterable {
    /// The system has not asked the person yet.
    case notDetermined = "not_determined"
    /// Notifications appear quietly, in the notification centre only. The system has not asked the person yet.
    case provisional
    case denied
    case authorized
    /// An App Clip, for a limited time.
    case ephemeral
}
