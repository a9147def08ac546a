/// How a notification appears that arrives while the app is in front.
public struct ForegroundPresentation: Sendable, Hashable {
    /// `UNNotificationPresentationOptions.banner`
    public var showsBanner: Bool
    /// `UNNotificationPresentationOptions.list`: it stays in the notification centre.
    public var isListed: Bool
    /// `UNNotificationPresentationOptions.sound`: the sound that the payload names.
    public var playsSound: Bool
    /// `UNNotificationPresentationOptions.badge`: the number that the payload names.
    public var setsBadge: Bool

    /// Without arguments, the notification does not appear.
    public init(showsBanner: Bool = false, isListed: Bool = false, playsSound: Bool = false, setsBadge: Bool = false) {
        self.showsBanner = showsBanner
        self.isListed = isListed
        self.playsSound = playsSound
        self.setsBadge = setsBadge
    }

    /// The person sees and hears nothing. ``PushClient/onNotification(_:)`` gets the notification all the same.
    public static let nothing = ForegroundPresentation()
    /// Banner, list, sound and badge.
    public static let everything = ForegroundPresentation(showsBanner: true, isListed: true, playsSound: true, setsBadge: true)

    /// The library's own decision; an app may give another function to the adaptor.
    ///
    /// - Parameter visibleThread: The `thread-id` of what the person looks at now, such as a conversation. Its own notifications only set
    ///   the badge: the app shows the news itself.
    public static func decide(_ aps: APS, visibleThread: String?) -> ForegroundPresentation {
        if aps.interruptionLevel == .critical { return .everything }
        if let visibleThread, aps.threadID == visibleThread { return ForegroundPresentation(setsBadge: true) }
        if aps.interruptionLevel == .passive { return ForegroundPresentation(isListed: true, setsBadge: true) }
        return .everything
    }
}
