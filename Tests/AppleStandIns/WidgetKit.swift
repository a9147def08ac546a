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
    @available(iOS 18.0, macOS 15.0, watchOS 11.0, visionOS 26.0, *)
    public final func currentConfigurations() async throws -> [WidgetInfo] { fatalError() }
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
public struct WidgetInfo {
    public let kind: String
}

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

#if os(iOS) && !targetEnvironment(macCatalyst)
    public import ActivityKit
    public import SwiftUI

    // Of a Live Activity's views: only what PushClient's example calls. Apple's pages name iOS and iPadOS alone.

    @available(iOS 16.1, *)
    public struct ActivityViewContext<Attributes: ActivityAttributes> {
        public let attributes: Attributes
        public let state: Attributes.ContentState
        @available(iOS 16.2, *)
        public var isStale: Bool { fatalError() }
    }

    @available(iOS 16.1, *)
    @MainActor @preconcurrency public struct ActivityConfiguration<Attributes: ActivityAttributes>: WidgetConfiguration {
        @MainActor @preconcurrency public init<Content: View>(
            for attributesType: Attributes.Type, @ViewBuilder content: @escaping (ActivityViewContext<Attributes>) -> Content,
            dynamicIsland: @escaping (ActivityViewContext<Attributes>) -> DynamicIsland
        ) { fatalError() }
        public var body: Never { fatalError() }
    }

    @available(iOS 16.1, *)
    public struct DynamicIsland {
        public init<Expanded: View, CompactLeading: View, CompactTrailing: View, Minimal: View>(
            @DynamicIslandExpandedContentBuilder expanded: @escaping () -> DynamicIslandExpandedContent<Expanded>,
            @ViewBuilder compactLeading: @escaping () -> CompactLeading, @ViewBuilder compactTrailing: @escaping () -> CompactTrailing,
            @ViewBuilder minimal: @escaping () -> Minimal
        ) { fatalError() }
    }

    @available(iOS 16.1, *)
    public struct DynamicIslandExpandedContent<Content: View> {}

    @available(iOS 16.1, *)
    public struct DynamicIslandExpandedRegion<Content: View> {
        public init(
            _ position: DynamicIslandExpandedRegionPosition, priority: Double = 0, @ViewBuilder content: @escaping () -> Content
        ) { fatalError() }
    }

    @available(iOS 16.1, *)
    public struct DynamicIslandExpandedRegionPosition: Sendable {
        public static let bottom = DynamicIslandExpandedRegionPosition()
    }

    @available(iOS 16.1, *)
    @resultBuilder public struct DynamicIslandExpandedContentBuilder {
        public static func buildPartialBlock<Content: View>(
            first: DynamicIslandExpandedRegion<Content>
        ) -> DynamicIslandExpandedContent<some View> { DynamicIslandExpandedContent<Content>() }

        public static func buildPartialBlock<C0: View, C1: View>(
            accumulated: DynamicIslandExpandedContent<C0>, next: DynamicIslandExpandedRegion<C1>
        ) -> DynamicIslandExpandedContent<some View> { DynamicIslandExpandedContent<C0>() }
    }
#endif
