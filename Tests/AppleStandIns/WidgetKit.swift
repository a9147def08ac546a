public import Foundation

// `WidgetKit`: only what `PushClient` and its guide call, with the SDK's signatures. Apple's pages of WidgetKit name no version of Mac
// Catalyst, and those of controls no visionOS. Not `Sendable` where a page does not say so.

@available(iOS 14.0, macOS 11.0, watchOS 9.0, visionOS 26.0, *)
@available(macCatalyst, unavailable)
@available(tvOS, unavailable)
public class WidgetCenter {
    public static var shared: WidgetCenter { fatalError() }
    @available(iOS 26.0, macOS 26.0, watchOS 26.0, visionOS 26.0, *)
    public final var currentPushInfo: WidgetPushInfo? { get async { fatalError() } }
}

@available(iOS 26.0, macOS 26.0, watchOS 26.0, visionOS 26.0, *)
@available(macCatalyst, unavailable)
@available(tvOS, unavailable)
public struct WidgetPushInfo: Sendable {
    public let token: Data
}

@available(iOS 14.0, macOS 11.0, watchOS 9.0, visionOS 26.0, *)
@available(macCatalyst, unavailable)
@available(tvOS, unavailable)
public struct WidgetInfo {}

@available(iOS 26.0, macOS 26.0, watchOS 26.0, visionOS 26.0, *)
@available(macCatalyst, unavailable)
@available(tvOS, unavailable)
public protocol WidgetPushHandler {
    init()
    func pushTokenDidChange(_ pushInfo: WidgetPushInfo, widgets: [WidgetInfo])
}

@available(iOS 18.0, macOS 26.0, watchOS 26.0, *)
@available(macCatalyst, unavailable)
@available(tvOS, unavailable)
@available(visionOS, unavailable)
public class ControlCenter {
    public static var shared: ControlCenter { fatalError() }
    public final func currentControls() async throws -> [ControlInfo] { fatalError() }
}

@available(iOS 18.0, macOS 26.0, watchOS 26.0, *)
@available(macCatalyst, unavailable)
@available(tvOS, unavailable)
@available(visionOS, unavailable)
public struct ControlInfo: Identifiable {
    public let kind: String
    public var pushInfo: ControlPushInfo?
    public var id: String { fatalError() }
}

@available(iOS 18.0, macOS 26.0, watchOS 26.0, *)
@available(macCatalyst, unavailable)
@available(tvOS, unavailable)
@available(visionOS, unavailable)
public struct ControlPushInfo {
    public let token: Data
}

@available(iOS 18.0, macOS 26.0, watchOS 26.0, *)
@available(macCatalyst, unavailable)
@available(tvOS, unavailable)
@available(visionOS, unavailable)
public protocol ControlPushHandler {
    init()
    func pushTokensDidChange(controls: [ControlInfo])
}
