// By platform: watchOS has UIKit without an application, and Mac Catalyst has AppKit without one.
#if os(iOS) || os(tvOS) || os(visionOS)
    public import Foundation
    public import UIKit
    import UserNotifications

    /// The app delegate of an app on iOS, iPadOS, Mac Catalyst, visionOS or tvOS. It puts everything into the inbox, and decides nothing.
    ///
    /// A SwiftUI app declares it: `@UIApplicationDelegateAdaptor(PushAppDelegate.self) var push`. An app with a delegate of its own makes
    /// it a subclass, and calls `super` where it overrides.
    open class PushAppDelegate: NSObject, UIApplicationDelegate {
        private let watch = NetworkWatch()

        /// `UIApplicationDelegate`'s callback at launch: sets the notification centre's delegate, and asks the system for a token.
        open func application(
            _ application: UIApplication, didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]? = nil
        ) -> Bool {
            #if !os(tvOS)
                // Before this returns, or the tap that started the app is lost (Apple, "UNUserNotificationCenterDelegate").
                UNUserNotificationCenter.current().delegate = PushNotificationDelegate.shared
            #endif
            PushInbox.shared.backgroundTime = ApplicationTime(application: application)
            watch.start(appBecomesActive: UIApplication.didBecomeActiveNotification)
            application.registerForRemoteNotifications()
            return true
        }

        /// `UIApplicationDelegate`'s callback: puts the token into ``PushInbox/shared``, for ``PushTokenPurpose/alert``.
        open func application(_ application: UIApplication, didRegisterForRemoteNotificationsWithDeviceToken deviceToken: Data) {
            PushInbox.shared.put(.token(deviceToken, purpose: .alert))
        }

        /// `UIApplicationDelegate`'s callback: puts ``PushEvent/tokenFailed(purpose:message:)`` into ``PushInbox/shared``.
        open func application(_ application: UIApplication, didFailToRegisterForRemoteNotificationsWithError error: any Error) {
            PushInbox.shared.put(.tokenFailed(purpose: .alert, message: "\(error)"))
        }

        /// `UIApplicationDelegate`'s callback: runs ``receiveSilently(_:)``, waits for the client's requests, and answers within
        /// 25 seconds: `.failed` if ``receiveSilently(_:)`` has not returned then.
        open func application(
            _ application: UIApplication, didReceiveRemoteNotification userInfo: [AnyHashable: Any]
        ) async -> UIBackgroundFetchResult {
            guard let notification = try? PushNotification(userInfo: userInfo) else { return .failed }
            let result = await SilentPushWork().run {
                [weak self] in
                try await self?.receiveSilently(notification) ?? .noData
            } finish: {
                await PushInbox.shared.settled()
            }
            return switch result {
            case .newData: .newData
            case .noData: .noData
            case .failed: .failed
            }
        }

        /// The work of a silent push. The system gets its answer in time, also if this does not return.
        open func receiveSilently(_ notification: PushNotification) async throws -> SilentPushResult { .noData }
    }

    /// `UIApplication.beginBackgroundTask(withName:expirationHandler:)`, for an app with a delegate of its own:
    /// `PushInbox.shared.backgroundTime = ApplicationTime(application: application)` at launch.
    public struct ApplicationTime: BackgroundTime {
        // No `UIApplication.shared`: a service extension must be able to link this library.
        private let application: UIApplication

        /// - Parameter application: The one that the app delegate gets at launch.
        public init(application: UIApplication) { self.application = application }

        /// See ``BackgroundTime/begin(expired:)``.
        public func begin(expired: @escaping @MainActor @Sendable () -> Void) -> (@MainActor @Sendable () -> Void)? {
            let task = application.beginBackgroundTask(withName: "PushClient", expirationHandler: expired)
            guard task != .invalid else { return nil }
            return { application.endBackgroundTask(task) }
        }
    }
#elseif os(macOS)
    public import AppKit
    public import Foundation
    import UserNotifications

    /// The app delegate of an app on macOS. It puts everything into the inbox, and decides nothing.
    ///
    /// A SwiftUI app declares it: `@NSApplicationDelegateAdaptor(PushAppDelegate.self) var push`. An app with a delegate of its own makes
    /// it a subclass, and calls `super` where it overrides.
    open class PushAppDelegate: NSObject, NSApplicationDelegate {
        private let watch = NetworkWatch()

        /// `NSApplicationDelegate`'s callback at launch: sets the notification centre's delegate, and asks the system for a token.
        open func applicationDidFinishLaunching(_ notification: Notification) {
            UNUserNotificationCenter.current().delegate = PushNotificationDelegate.shared
            watch.start(appBecomesActive: NSApplication.didBecomeActiveNotification)
            NSApplication.shared.registerForRemoteNotifications()
        }

        /// `NSApplicationDelegate`'s callback: puts the token into ``PushInbox/shared``, for ``PushTokenPurpose/alert``.
        open func application(_ application: NSApplication, didRegisterForRemoteNotificationsWithDeviceToken deviceToken: Data) {
            PushInbox.shared.put(.token(deviceToken, purpose: .alert))
        }

        /// `NSApplicationDelegate`'s callback: puts ``PushEvent/tokenFailed(purpose:message:)`` into ``PushInbox/shared``.
        open func application(_ application: NSApplication, didFailToRegisterForRemoteNotificationsWithError error: any Error) {
            PushInbox.shared.put(.tokenFailed(purpose: .alert, message: "\(error)"))
        }

        /// `NSApplicationDelegate`'s callback: begins ``receiveSilently(_:)`` and returns at once. It ignores a malformed payload.
        open func application(_ application: NSApplication, didReceiveRemoteNotification userInfo: [String: Any]) {
            guard let notification = try? PushNotification(userInfo: userInfo) else { return }
            Task { _ = await SilentPushWork().run { [weak self] in try await self?.receiveSilently(notification) ?? .noData } }
        }

        /// The work of a silent push.
        open func receiveSilently(_ notification: PushNotification) async throws -> SilentPushResult { .noData }
    }
#elseif os(watchOS)
    public import Foundation
    import UserNotifications
    public import WatchKit

    /// The app delegate of an app on watchOS that gets pushes of its own. It puts everything into the inbox, and decides nothing.
    ///
    /// A SwiftUI app declares it: `@WKApplicationDelegateAdaptor(PushAppDelegate.self) var push`. An app with a delegate of its own makes
    /// it a subclass, and calls `super` where it overrides.
    open class PushAppDelegate: NSObject, WKApplicationDelegate {
        private let watch = NetworkWatch()

        /// `WKApplicationDelegate`'s callback at launch: sets the notification centre's delegate, and asks the system for a token.
        open func applicationDidFinishLaunching() {
            UNUserNotificationCenter.current().delegate = PushNotificationDelegate.shared
            PushInbox.shared.backgroundTime = ExpiringActivity()
            watch.start(appBecomesActive: WKApplication.didBecomeActiveNotification)
            WKApplication.shared().registerForRemoteNotifications()
        }

        /// `WKApplicationDelegate`'s callback: puts the token into ``PushInbox/shared``, for ``PushTokenPurpose/alert``.
        open func didRegisterForRemoteNotifications(withDeviceToken deviceToken: Data) {
            PushInbox.shared.put(.token(deviceToken, purpose: .alert))
        }

        /// `WKApplicationDelegate`'s callback: puts ``PushEvent/tokenFailed(purpose:message:)`` into ``PushInbox/shared``.
        open func didFailToRegisterForRemoteNotificationsWithError(_ error: any Error) {
            PushInbox.shared.put(.tokenFailed(purpose: .alert, message: "\(error)"))
        }

        /// `WKApplicationDelegate`'s callback: runs ``receiveSilently(_:)``, waits for the client's requests, and answers within
        /// 25 seconds: `.failed` if ``receiveSilently(_:)`` has not returned then.
        open func didReceiveRemoteNotification(_ userInfo: [AnyHashable: Any]) async -> WKBackgroundFetchResult {
            guard let notification = try? PushNotification(userInfo: userInfo) else { return .failed }
            let result = await SilentPushWork().run {
                [weak self] in
                try await self?.receiveSilently(notification) ?? .noData
            } finish: {
                await PushInbox.shared.settled()
            }
            return switch result {
            case .newData: .newData
            case .noData: .noData
            case .failed: .failed
            }
        }

        /// The work of a silent push. The system gets its answer in time, also if this does not return.
        open func receiveSilently(_ notification: PushNotification) async throws -> SilentPushResult { .noData }
    }

    /// `ProcessInfo.performExpiringActivity(withReason:using:)`, for an app with a delegate of its own:
    /// `PushInbox.shared.backgroundTime = ExpiringActivity()` at launch.
    public struct ExpiringActivity: BackgroundTime {
        /// It holds no state.
        public init() {}

        /// See ``BackgroundTime/begin(expired:)``.
        public func begin(expired: @escaping @MainActor @Sendable () -> Void) -> (@MainActor @Sendable () -> Void)? {
            // The system gives time until the block returns, so the block waits. It calls the block again when the time is over.
            let isOver = DispatchSemaphore(value: 0)
            ProcessInfo.processInfo.performExpiringActivity(withReason: "PushClient") { isExpired in
                guard isExpired else { return isOver.wait() }
                isOver.signal()
                Task { @MainActor in expired() }
            }
            return { isOver.signal() }
        }
    }
#endif
