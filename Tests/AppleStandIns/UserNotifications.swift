public import Foundation

// `UserNotifications`: only what `PushClient` calls, with the SDK's signatures and the availability of its headers (`API_AVAILABLE`,
// `API_UNAVAILABLE`). visionOS has what iOS has. The framework itself is older than each version that PushClient supports.

// swift-format-ignore
@available(tvOS, unavailable)
public let UNNotificationDefaultActionIdentifier = "com.apple.UNNotificationDefaultActionIdentifier"
// swift-format-ignore
@available(tvOS, unavailable)
public let UNNotificationDismissActionIdentifier = "com.apple.UNNotificationDismissActionIdentifier"

public enum UNAuthorizationStatus: Int, Sendable {
    case notDetermined, denied, authorized, provisional
    @available(iOS 14.0, visionOS 1.0, *)
    @available(macOS, unavailable)
    @available(tvOS, unavailable)
    @available(watchOS, unavailable)
    case ephemeral
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
    @available(iOS 14.0, macOS 11.0, tvOS 14.0, watchOS 7.0, *)
    public static var list: UNNotificationPresentationOptions { fatalError() }
    @available(iOS 14.0, macOS 11.0, tvOS 14.0, watchOS 7.0, *)
    public static var banner: UNNotificationPresentationOptions { fatalError() }
}

open class UNNotificationSettings: NSObject {
    open var authorizationStatus: UNAuthorizationStatus { fatalError() }
}

open class UNUserNotificationCenter: NSObject {
    open class func current() -> UNUserNotificationCenter { fatalError() }
    weak open var delegate: (any UNUserNotificationCenterDelegate)?
    open func notificationSettings() async -> UNNotificationSettings { fatalError() }
    @available(tvOS, unavailable)
    open func setNotificationCategories(_ categories: Set<UNNotificationCategory>) { fatalError() }
    open func requestAuthorization(options: UNAuthorizationOptions = []) async throws -> Bool { fatalError() }
    @available(iOS 16.0, macOS 13.0, tvOS 16.0, *)
    @available(watchOS, unavailable)
    open func setBadgeCount(_ newBadgeCount: Int) async throws { fatalError() }
}

/// The SDK's requirements are optional, which only Objective-C has. Since Swift 6.2 their completion handlers are `@Sendable` (SE-0463).
public protocol UNUserNotificationCenterDelegate: NSObjectProtocol {
    func userNotificationCenter(
        _ center: UNUserNotificationCenter, willPresent notification: UNNotification,
        withCompletionHandler completionHandler: @escaping @Sendable (UNNotificationPresentationOptions) -> Void)
    #if !os(tvOS)
        func userNotificationCenter(
            _ center: UNUserNotificationCenter, didReceive response: UNNotificationResponse,
            withCompletionHandler completionHandler: @escaping @Sendable () -> Void)
    #endif
}

open class UNNotificationContent: NSObject, NSCopying, NSMutableCopying {
    @available(tvOS, unavailable)
    open var attachments: [UNNotificationAttachment] { fatalError() }
    open var badge: NSNumber? { fatalError() }
    @available(tvOS, unavailable)
    open var body: String { fatalError() }
    @available(tvOS, unavailable)
    open var categoryIdentifier: String { fatalError() }
    @available(tvOS, unavailable)
    open var subtitle: String { fatalError() }
    @available(tvOS, unavailable)
    open var threadIdentifier: String { fatalError() }
    @available(tvOS, unavailable)
    open var title: String { fatalError() }
    @available(tvOS, unavailable)
    open var userInfo: [AnyHashable: Any] { fatalError() }
    open func copy(with zone: NSZone? = nil) -> Any { fatalError() }
    open func mutableCopy(with zone: NSZone? = nil) -> Any { fatalError() }
}

open class UNMutableNotificationContent: UNNotificationContent {
    @available(tvOS, unavailable)
    override open var attachments: [UNNotificationAttachment] {
        get { fatalError() }
        set { fatalError() }
    }
    override open var badge: NSNumber? {
        get { fatalError() }
        set { fatalError() }
    }
    @available(tvOS, unavailable)
    override open var body: String {
        get { fatalError() }
        set { fatalError() }
    }
    @available(tvOS, unavailable)
    override open var categoryIdentifier: String {
        get { fatalError() }
        set { fatalError() }
    }
    @available(tvOS, unavailable)
    override open var subtitle: String {
        get { fatalError() }
        set { fatalError() }
    }
    @available(tvOS, unavailable)
    override open var threadIdentifier: String {
        get { fatalError() }
        set { fatalError() }
    }
    @available(tvOS, unavailable)
    override open var title: String {
        get { fatalError() }
        set { fatalError() }
    }
}

@available(tvOS, unavailable)
open class UNNotificationAttachment: NSObject {
    public convenience init(identifier: String, url URL: URL, options: [AnyHashable: Any]? = nil) throws { fatalError() }
}

open class UNNotificationRequest: NSObject {
    open var content: UNNotificationContent { fatalError() }
}

open class UNNotification: NSObject {
    open var request: UNNotificationRequest { fatalError() }
}

@available(tvOS, unavailable)
open class UNNotificationResponse: NSObject {
    open var notification: UNNotification { fatalError() }
    open var actionIdentifier: String { fatalError() }
}

@available(tvOS, unavailable)
open class UNTextInputNotificationResponse: UNNotificationResponse {
    open var userText: String { fatalError() }
}

@available(tvOS, unavailable)
open class UNNotificationServiceExtension: NSObject {
    open func didReceive(
        _ request: UNNotificationRequest, withContentHandler contentHandler: @escaping (UNNotificationContent) -> Void
    ) { fatalError() }
    open func serviceExtensionTimeWillExpire() { fatalError() }
}

@available(tvOS, unavailable)
public struct UNNotificationActionOptions: OptionSet, Sendable {
    public let rawValue: UInt
    public init(rawValue: UInt) { fatalError() }
    public static var foreground: UNNotificationActionOptions { fatalError() }
}

@available(tvOS, unavailable)
open class UNNotificationAction: NSObject {
    public convenience init(identifier: String, title: String, options: UNNotificationActionOptions = []) { fatalError() }
}

@available(tvOS, unavailable)
open class UNTextInputNotificationAction: UNNotificationAction {
    public convenience init(
        identifier: String, title: String, options: UNNotificationActionOptions = [], textInputButtonTitle: String,
        textInputPlaceholder: String
    ) { fatalError() }
}

@available(tvOS, unavailable)
public struct UNNotificationCategoryOptions: OptionSet, Sendable {
    public let rawValue: UInt
    public init(rawValue: UInt) { fatalError() }
    public static var customDismissAction: UNNotificationCategoryOptions { fatalError() }
}

@available(tvOS, unavailable)
open class UNNotificationCategory: NSObject {
    public convenience init(
        identifier: String, actions: [UNNotificationAction], intentIdentifiers: [String], options: UNNotificationCategoryOptions = []
    ) { fatalError() }
}
