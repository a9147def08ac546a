public import Foundation

/// `UserNotifications`: only what `PushClient` calls, with the SDK's signatures.
// swift-format-ignore: AlwaysUseLowerCamelCase
// swift-format-ignore
public let UNNotificationDefaultActionIdentifier = "com.apple.UNNotificationDefaultActionIdentifier"
// swift-format-ignore: AlwaysUseLowerCamelCase
// swift-format-ignore
public let UNNotificationDismissActionIdentifier = "com.apple.UNNotificationDismissActionIdentifier"

public enum UNAuthorizationStatus: Int, Sendable {
    case notDetermined, denied, authorized, provisional
}

public struct UNAuthorizationOptions: OptionSet, Sendable {
    public let rawValue: UInt
    public init(rawValue: UInt) { fatalError() }
    public static var badge: UNAuthorizationOptions { fatalError() }
    public static var sound: UNAuthorizationOptions { fatalError() }
    public static var alert: UNAuthorizationOptions { fatalError() }
    public static var provisional: UNAuthorizationOptions { fatalError() }
}

public struct UNNotificationPresentationOptions: OptionSet, Sendable {
    public let rawValue: UInt
    public init(rawValue: UInt) { fatalError() }
    public static var badge: UNNotificationPresentationOptions { fatalError() }
    public static var sound: UNNotificationPresentationOptions { fatalError() }
    public static var list: UNNotificationPresentationOptions { fatalError() }
    public static var banner: UNNotificationPresentationOptions { fatalError() }
}

public final class UNNotificationSettings: NSObject, @unchecked Sendable {
    public var authorizationStatus: UNAuthorizationStatus { fatalError() }
}

public final class UNUserNotificationCenter: NSObject, @unchecked Sendable {
    public class func current() -> UNUserNotificationCenter { fatalError() }
    public weak var delegate: (any UNUserNotificationCenterDelegate)?
    public func notificationSettings() async -> UNNotificationSettings { fatalError() }
    public func requestAuthorization(options: UNAuthorizationOptions = []) async throws -> Bool { fatalError() }
    public func setBadgeCount(_ newBadgeCount: Int) async throws { fatalError() }
}

/// The SDK's requirements are optional, which only Objective-C has: here each has an implementation that does nothing.
public protocol UNUserNotificationCenterDelegate: NSObjectProtocol {
    func userNotificationCenter(
        _ center: UNUserNotificationCenter, willPresent notification: UNNotification,
        withCompletionHandler completionHandler: @escaping (UNNotificationPresentationOptions) -> Void)
    func userNotificationCenter(
        _ center: UNUserNotificationCenter, didReceive response: UNNotificationResponse,
        withCompletionHandler completionHandler: @escaping () -> Void)
}

open class UNNotificationContent: NSObject, NSCopying, NSMutableCopying {
    open var userInfo: [AnyHashable: Any] { fatalError() }
    open func copy(with zone: NSZone? = nil) -> Any { fatalError() }
    open func mutableCopy(with zone: NSZone? = nil) -> Any { fatalError() }
}

open class UNMutableNotificationContent: UNNotificationContent {
    open var attachments: [UNNotificationAttachment] = []
    open var badge: NSNumber?
    open var body = ""
    open var categoryIdentifier = ""
    open var subtitle = ""
    open var threadIdentifier = ""
    open var title = ""
}

open class UNNotificationAttachment: NSObject {
    public convenience init(identifier: String, url URL: URL, options: [AnyHashable: Any]? = nil) throws { fatalError() }
}

open class UNNotificationRequest: NSObject {
    open var content: UNNotificationContent { fatalError() }
}

open class UNNotification: NSObject {
    open var request: UNNotificationRequest { fatalError() }
}

open class UNNotificationResponse: NSObject {
    open var notification: UNNotification { fatalError() }
    open var actionIdentifier: String { fatalError() }
}

open class UNTextInputNotificationResponse: UNNotificationResponse {
    open var userText: String { fatalError() }
}

open class UNNotificationServiceExtension: NSObject {
    open func didReceive(
        _ request: UNNotificationRequest, withContentHandler contentHandler: @escaping (UNNotificationContent) -> Void
    ) { fatalError() }
    open func serviceExtensionTimeWillExpire() { fatalError() }
}
