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
    #if os(iOS)
        case ephemeral
    #endif
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

open class UNNotificationSettings: NSObject {
    open var authorizationStatus: UNAuthorizationStatus { fatalError() }
}

open class UNUserNotificationCenter: NSObject {
    open class func current() -> UNUserNotificationCenter { fatalError() }
    weak open var delegate: (any UNUserNotificationCenterDelegate)?
    open func notificationSettings() async -> UNNotificationSettings { fatalError() }
    open func requestAuthorization(options: UNAuthorizationOptions = []) async throws -> Bool { fatalError() }
    open func setBadgeCount(_ newBadgeCount: Int) async throws { fatalError() }
}

/// The SDK's requirements are optional, which only Objective-C has. Since Swift 6.2 their completion handlers are `@Sendable` (SE-0463).
public protocol UNUserNotificationCenterDelegate: NSObjectProtocol {
    func userNotificationCenter(
        _ center: UNUserNotificationCenter, willPresent notification: UNNotification,
        withCompletionHandler completionHandler: @escaping @Sendable (UNNotificationPresentationOptions) -> Void)
    func userNotificationCenter(
        _ center: UNUserNotificationCenter, didReceive response: UNNotificationResponse,
        withCompletionHandler completionHandler: @escaping @Sendable () -> Void)
}

open class UNNotificationContent: NSObject, NSCopying, NSMutableCopying {
    open var attachments: [UNNotificationAttachment] { fatalError() }
    open var badge: NSNumber? { fatalError() }
    open var body: String { fatalError() }
    open var categoryIdentifier: String { fatalError() }
    open var subtitle: String { fatalError() }
    open var threadIdentifier: String { fatalError() }
    open var title: String { fatalError() }
    open var userInfo: [AnyHashable: Any] { fatalError() }
    open func copy(with zone: NSZone? = nil) -> Any { fatalError() }
    open func mutableCopy(with zone: NSZone? = nil) -> Any { fatalError() }
}

open class UNMutableNotificationContent: UNNotificationContent {
    override open var attachments: [UNNotificationAttachment] {
        get { fatalError() }
        set { fatalError() }
    }
    override open var badge: NSNumber? {
        get { fatalError() }
        set { fatalError() }
    }
    override open var body: String {
        get { fatalError() }
        set { fatalError() }
    }
    override open var categoryIdentifier: String {
        get { fatalError() }
        set { fatalError() }
    }
    override open var subtitle: String {
        get { fatalError() }
        set { fatalError() }
    }
    override open var threadIdentifier: String {
        get { fatalError() }
        set { fatalError() }
    }
    override open var title: String {
        get { fatalError() }
        set { fatalError() }
    }
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
