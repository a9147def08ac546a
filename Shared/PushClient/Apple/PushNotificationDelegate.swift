// On tvOS `UNNotificationContent` has a badge and no `userInfo`, and there is no `UNNotificationResponse`.
#if canImport(UserNotifications) && !os(tvOS)
    public import Foundation
    #if compiler(>=6.2)
        public import UserNotifications
    #else
        // Swift 6.1 does not import the completion handlers as `@Sendable`, though they may be called on any thread.
        @preconcurrency public import UserNotifications
    #endif

    /// The delegate of the notification centre: it puts taps and notifications into the inbox.
    ///
    /// It answers a notification before it returns, and a tap on the main actor once the app's handler has returned, or after 10 seconds.
    public final class PushNotificationDelegate: NSObject, UNUserNotificationCenterDelegate, Sendable {
        /// The centre holds its delegate weakly, so this one lives as long as the process.
        public static let shared = PushNotificationDelegate()

        private let presentation = Guarded<@Sendable (APS) -> ForegroundPresentation> { .decide($0, visibleThread: nil) }

        /// Decides how notifications appear while the app is in front, instead of ``ForegroundPresentation/decide(_:visibleThread:)``.
        public func decidePresentation(_ decide: @escaping @Sendable (APS) -> ForegroundPresentation) {
            // The earlier one, and what it alone holds, goes outside the lock.
            _ = presentation.withLock { presentation -> @Sendable (APS) -> ForegroundPresentation in
                defer { presentation = decide }
                return presentation
            }
        }

        /// `UNUserNotificationCenterDelegate`'s callback in the foreground: puts the notification into the inbox and decides how it looks.
        public func userNotificationCenter(
            _ center: UNUserNotificationCenter, willPresent notification: UNNotification,
            withCompletionHandler completionHandler: @escaping @Sendable (UNNotificationPresentationOptions) -> Void
        ) {
            guard let received = try? PushNotification(userInfo: notification.request.content.userInfo) else {
                completionHandler([.banner, .list, .sound])
                return
            }
            PushInbox.shared.put(.notification(received))
            let decide = presentation.withLock { $0 }
            let decided = decide(received.aps)
            var options: UNNotificationPresentationOptions = []
            if decided.showsBanner { options.insert(.banner) }
            if decided.isListed { options.insert(.list) }
            if decided.playsSound { options.insert(.sound) }
            if decided.setsBadge { options.insert(.badge) }
            completionHandler(options)
        }

        /// `UNUserNotificationCenterDelegate`'s callback for a response: puts a ``PushTap`` into the inbox, which answers the system
        /// (``PushInbox/put(_:budget:clock:answer:)``). It ignores a malformed payload.
        public func userNotificationCenter(
            _ center: UNUserNotificationCenter, didReceive response: UNNotificationResponse,
            withCompletionHandler completionHandler: @escaping @Sendable () -> Void
        ) {
            guard let received = try? PushNotification(userInfo: response.notification.request.content.userInfo) else {
                Task { @MainActor in completionHandler() }
                return
            }
            let action: PushTap.Action =
                switch response.actionIdentifier {
                case UNNotificationDefaultActionIdentifier: .open
                case UNNotificationDismissActionIdentifier: .dismiss
                default: .custom(response.actionIdentifier)
                }
            let text = (response as? UNTextInputNotificationResponse)?.userText
            PushInbox.shared.put(PushTap(notification: received, action: action, text: text)) { completionHandler() }
        }
    }
#endif
