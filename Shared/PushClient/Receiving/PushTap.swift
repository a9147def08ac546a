/// What the person did with a notification.
public struct PushTap: Sendable, Hashable {
    public enum Action: Sendable, Hashable {
        /// Tapped it (`UNNotificationDefaultActionIdentifier`).
        case open
        /// Dismissed it (`UNNotificationDismissActionIdentifier`). The system says so only for a category with `customDismissAction`.
        case dismiss
        /// Chose an action of the category, by its identifier.
        case custom(String)
    }

    public var notification: PushNotification
    public var action: Action
    /// What the person typed into a text action.
    public var text: String?

    public init(notification: PushNotification, action: Action, text: String? = nil) {
        self.notification = notification
        self.action = action
        self.text = text
    }
}

/// Which handler gets which tap. The app gives all of them at once, so that no tap reaches a general handler too early.
public struct PushRoutes: Sendable {
    public typealias Handler = @Sendable (PushTap) -> Void

    private let byCategory: [String: Handler]
    private let otherwise: Handler

    /// - Parameters:
    ///   - byCategory: A handler for each category (`aps.category`).
    ///   - otherwise: For taps of other categories, and of none. Handlers run on any thread.
    public init(_ byCategory: [String: Handler] = [:], otherwise: @escaping Handler) {
        self.byCategory = byCategory
        self.otherwise = otherwise
    }

    func handle(_ tap: PushTap) {
        let handler = tap.notification.aps.category.flatMap { byCategory[$0] } ?? otherwise
        handler(tap)
    }
}
