/// What the person did with a notification.
public struct PushTap: Sendable, Hashable {
    /// `UNNotificationResponse.actionIdentifier`, typed.
    public enum Action: Sendable, Hashable {
        /// Tapped it (`UNNotificationDefaultActionIdentifier`).
        case open
        /// Dismissed it (`UNNotificationDismissActionIdentifier`). The system says so only for a category with `customDismissAction`.
        case dismiss
        /// Chose an action of the category, by its identifier.
        case custom(String)
    }

    /// The notification that the person answered.
    public var notification: PushNotification
    /// For a notification with a source, the client reports ``Action/dismiss`` as `dismissed`, and any other action as `opened`.
    public var action: Action
    /// What the person typed into a text action.
    public var text: String?

    /// For tests. The adaptor makes it from a `UNNotificationResponse`.
    public init(notification: PushNotification, action: Action, text: String? = nil) {
        self.notification = notification
        self.action = action
        self.text = text
    }
}

/// Which handler gets which tap. The app gives all of them at once, so that no tap reaches a general handler too early.
public struct PushRoutes: Sendable {
    /// It gets each tap once. The system's answer waits until it returns (``PushInbox/put(_:budget:clock:answer:)``): an app that an
    /// action has started in the background may be suspended after that.
    public typealias Handler = @MainActor @Sendable (PushTap) async -> Void

    private let byCategory: [String: Handler]
    private let otherwise: Handler

    /// - Parameters:
    ///   - byCategory: A handler for each category (`aps.category`).
    ///   - otherwise: For taps of other categories, and of none.
    public init(_ byCategory: [String: Handler] = [:], otherwise: @escaping Handler) {
        self.byCategory = byCategory
        self.otherwise = otherwise
    }

    @MainActor func handle(_ tap: PushTap) async {
        let handler = tap.notification.aps.category.flatMap { byCategory[$0] } ?? otherwise
        await handler(tap)
    }
}
