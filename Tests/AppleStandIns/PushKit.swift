public import Dispatch
public import Foundation

// `PushKit`: only what `PushClient` and its guide call, with the SDK's signatures (Apple's pages, and PKPushRegistry.h). The header names
// tvOS for the registry, and no push type there.

public struct PKPushType: RawRepresentable, Hashable, Sendable {
    public let rawValue: String
    public init(rawValue: String) { fatalError() }

    @available(iOS 9.0, macCatalyst 14.0, watchOS 9.0, visionOS 1.0, *)
    @available(macOS, unavailable)
    @available(tvOS, unavailable)
    public static let voIP = PKPushType(rawValue: "")
    @available(watchOS 6.0, *)
    @available(iOS, introduced: 9.0, deprecated: 13.0)
    @available(macCatalyst, introduced: 9.0, deprecated: 13.0)
    @available(macOS, unavailable)
    @available(tvOS, unavailable)
    @available(visionOS, unavailable)
    public static let complication = PKPushType(rawValue: "")
    @available(iOS 11.0, macCatalyst 13.0, macOS 10.15, visionOS 1.0, *)
    @available(tvOS, unavailable)
    @available(watchOS, unavailable)
    public static let fileProvider = PKPushType(rawValue: "")
}

@available(iOS 8.0, macCatalyst 13.0, macOS 10.15, tvOS 13.0, watchOS 6.0, visionOS 1.0, *)
open class PKPushRegistry: NSObject {
    weak open var delegate: (any PKPushRegistryDelegate)?
    open var desiredPushTypes: Set<PKPushType>?
    public init(queue: DispatchQueue?) { fatalError() }
}

open class PKPushCredentials: NSObject {
    open var type: PKPushType { fatalError() }
    open var token: Data { fatalError() }
}

open class PKPushPayload: NSObject {
    open var type: PKPushType { fatalError() }
    open var dictionaryPayload: [AnyHashable: Any] { fatalError() }
}

/// The last two of the SDK's requirements are optional, which only Objective-C has.
public protocol PKPushRegistryDelegate: NSObjectProtocol {
    func pushRegistry(_ registry: PKPushRegistry, didUpdate pushCredentials: PKPushCredentials, for type: PKPushType)
    func pushRegistry(
        _ registry: PKPushRegistry, didReceiveIncomingPushWith payload: PKPushPayload, for type: PKPushType,
        completion: @escaping @Sendable () -> Void)
    func pushRegistry(_ registry: PKPushRegistry, didInvalidatePushTokenFor type: PKPushType)
}
