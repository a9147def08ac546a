public import Foundation

// `UIKit`: only what `PushClient` calls, with the SDK's signatures. On watchOS the module is there, for images and colours; it has no
// application.

@available(watchOS, unavailable)
public enum UIBackgroundFetchResult: UInt, Sendable {
    case newData, noData, failed
}

@available(watchOS, unavailable)
public struct UIBackgroundTaskIdentifier: Hashable, RawRepresentable, Sendable {
    public let rawValue: Int
    public init(rawValue: Int) { fatalError() }
    public static let invalid = UIBackgroundTaskIdentifier(rawValue: 0)
}

@available(watchOS, unavailable)
@MainActor open class UIResponder: NSObject {}

@available(watchOS, unavailable)
@MainActor open class UIApplication: UIResponder {
    public struct LaunchOptionsKey: Hashable, RawRepresentable, Sendable {
        public let rawValue: String
        public init(rawValue: String) { fatalError() }
    }

    nonisolated public class var didBecomeActiveNotification: Notification.Name { fatalError() }
    @available(iOS 16.0, *)
    nonisolated public static let openNotificationSettingsURLString = ""
    open func registerForRemoteNotifications() { fatalError() }
    nonisolated open func beginBackgroundTask(
        withName taskName: String?, expirationHandler handler: (@MainActor @Sendable () -> Void)? = nil
    ) -> UIBackgroundTaskIdentifier { fatalError() }
    nonisolated open func endBackgroundTask(_ identifier: UIBackgroundTaskIdentifier) { fatalError() }
}

/// The SDK's requirements are optional, which only Objective-C has: a requirement that an adaptor forgets is not found here.
@available(watchOS, unavailable)
@MainActor public protocol UIApplicationDelegate: NSObjectProtocol {
    func application(
        _ application: UIApplication, didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
    ) -> Bool
    func application(_ application: UIApplication, didRegisterForRemoteNotificationsWithDeviceToken deviceToken: Data)
    func application(_ application: UIApplication, didFailToRegisterForRemoteNotificationsWithError error: any Error)
    func application(
        _ application: UIApplication, didReceiveRemoteNotification userInfo: [AnyHashable: Any]
    ) async -> UIBackgroundFetchResult
}
