public import Foundation

/// `UIKit`: only what `PushClient` calls, with the SDK's signatures.
public enum UIBackgroundFetchResult: UInt, Sendable {
    case newData, noData, failed
}

@MainActor open class UIResponder: NSObject {}

@MainActor open class UIApplication: UIResponder {
    public struct LaunchOptionsKey: Hashable, RawRepresentable, Sendable {
        public let rawValue: String
        public init(rawValue: String) { fatalError() }
    }

    nonisolated public class var didBecomeActiveNotification: Notification.Name { fatalError() }
    open func registerForRemoteNotifications() { fatalError() }
}

/// The SDK's requirements are optional, which only Objective-C has: a requirement that an adaptor forgets is not found here.
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
