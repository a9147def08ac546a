public import Foundation

/// `AppKit`: only what `PushClient` calls, with the SDK's signatures.
// On Mac Catalyst the module is there, for little more than toolbars.
@available(macCatalyst, unavailable)
@MainActor open class NSResponder: NSObject {}

@available(macCatalyst, unavailable)
@MainActor open class NSApplication: NSResponder {
    public class var shared: NSApplication { fatalError() }
    nonisolated public class var didBecomeActiveNotification: Notification.Name { fatalError() }
    open func registerForRemoteNotifications() { fatalError() }
}

/// The SDK's requirements are optional, which only Objective-C has.
@available(macCatalyst, unavailable)
@MainActor public protocol NSApplicationDelegate: NSObjectProtocol {
    func applicationDidFinishLaunching(_ notification: Notification)
    func application(_ application: NSApplication, didRegisterForRemoteNotificationsWithDeviceToken deviceToken: Data)
    func application(_ application: NSApplication, didFailToRegisterForRemoteNotificationsWithError error: any Error)
    func application(_ application: NSApplication, didReceiveRemoteNotification userInfo: [String: Any])
}
