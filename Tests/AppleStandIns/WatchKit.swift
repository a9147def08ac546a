public import Foundation

/// `WatchKit`: only what `PushClient` calls, with the SDK's signatures (Apple, "WKApplication" and "WKApplicationDelegate": watchOS 7.0).
@available(watchOS 6.0, *)
public enum WKBackgroundFetchResult: UInt, Sendable {
    case newData, noData, failed
}

@available(watchOS 7.0, *)
@MainActor open class WKApplication: NSObject {
    open class func shared() -> WKApplication { fatalError() }
    open class var didBecomeActiveNotification: Notification.Name { fatalError() }
    open func registerForRemoteNotifications() { fatalError() }
}

/// The SDK's requirements are optional, which only Objective-C has.
@available(watchOS 7.0, *)
@MainActor public protocol WKApplicationDelegate: NSObjectProtocol {
    func applicationDidFinishLaunching()
    func didRegisterForRemoteNotifications(withDeviceToken deviceToken: Data)
    func didFailToRegisterForRemoteNotificationsWithError(_ error: any Error)
    func didReceiveRemoteNotification(_ userInfo: [AnyHashable: Any]) async -> WKBackgroundFetchResult
}
