public import Foundation

// `ActivityKit`: only what `PushClient` calls, with the SDK's signatures. Apple's pages name iOS and iPadOS alone. On Mac Catalyst the
// module is there, and all it declares is unavailable. Here it is there on every platform, which is stricter.

@available(iOS 16.1, *)
@available(macOS, unavailable)
@available(macCatalyst, unavailable)
@available(tvOS, unavailable)
@available(visionOS, unavailable)
@available(watchOS, unavailable)
public protocol ActivityAttributes: Decodable, Encodable {
    associatedtype ContentState: Decodable, Encodable, Hashable
}

@available(iOS 16.1, *)
@available(macOS, unavailable)
@available(macCatalyst, unavailable)
@available(tvOS, unavailable)
@available(visionOS, unavailable)
@available(watchOS, unavailable)
public enum ActivityState: Codable, Hashable, Sendable {
    @available(iOS 26.0, *)
    case pending
    case active, ended, dismissed
    @available(iOS 16.2, *)
    case stale
}

@available(iOS 16.1, *)
@available(macOS, unavailable)
@available(macCatalyst, unavailable)
@available(tvOS, unavailable)
@available(visionOS, unavailable)
@available(watchOS, unavailable)
public final class ActivityAuthorizationInfo {
    public struct ActivityEnablementUpdates: AsyncSequence {
        public typealias Element = Bool

        public struct Iterator: AsyncIteratorProtocol {
            public mutating func next() async -> Bool? { fatalError() }
        }

        public func makeAsyncIterator() -> Iterator { fatalError() }
    }

    public init() { fatalError() }
    public final var areActivitiesEnabled: Bool { fatalError() }
    public final let activityEnablementUpdates: ActivityEnablementUpdates
    @available(iOS 16.2, *)
    public final var frequentPushesEnabled: Bool { fatalError() }
}

@available(iOS 16.2, *)
@available(macOS, unavailable)
@available(macCatalyst, unavailable)
@available(tvOS, unavailable)
@available(visionOS, unavailable)
@available(watchOS, unavailable)
public struct ActivityContent<State: Decodable & Encodable & Hashable> {}

@available(iOS 16.1, *)
@available(macOS, unavailable)
@available(macCatalyst, unavailable)
@available(tvOS, unavailable)
@available(visionOS, unavailable)
@available(watchOS, unavailable)
public struct ActivityUIDismissalPolicy: Sendable {
    public static let immediate = ActivityUIDismissalPolicy()
}

/// Not `Sendable`, as in the SDK.
@available(iOS 16.1, *)
@available(macOS, unavailable)
@available(macCatalyst, unavailable)
@available(tvOS, unavailable)
@available(visionOS, unavailable)
@available(watchOS, unavailable)
public class Activity<Attributes: ActivityAttributes>: Identifiable {
    public struct ActivityUpdates: AsyncSequence {
        public typealias Element = Activity<Attributes>

        public struct Iterator: AsyncIteratorProtocol {
            public func next() async -> Activity<Attributes>? { fatalError() }
        }

        public func makeAsyncIterator() -> Iterator { fatalError() }
    }

    public struct PushTokenUpdates: AsyncSequence {
        public typealias Element = Data

        public struct Iterator: AsyncIteratorProtocol {
            public mutating func next() async -> Data? { fatalError() }
        }

        public func makeAsyncIterator() -> Iterator { fatalError() }
    }

    public struct ActivityStateUpdates: AsyncSequence {
        public typealias Element = ActivityState

        public struct Iterator: AsyncIteratorProtocol {
            public mutating func next() async -> ActivityState? { fatalError() }
        }

        public func makeAsyncIterator() -> Iterator { fatalError() }
    }

    public static var activities: [Activity<Attributes>] { fatalError() }
    public static var activityUpdates: ActivityUpdates { fatalError() }
    @available(iOS 17.2, *)
    public static var pushToStartToken: Data? { fatalError() }
    @available(iOS 17.2, *)
    public static var pushToStartTokenUpdates: PushTokenUpdates { fatalError() }

    public final let id: String
    public final let attributes: Attributes
    public var activityState: ActivityState { fatalError() }
    public var activityStateUpdates: ActivityStateUpdates { fatalError() }
    public var pushToken: Data? { fatalError() }
    public var pushTokenUpdates: PushTokenUpdates { fatalError() }

    @available(iOS 16.2, *)
    public func end(_ content: ActivityContent<Attributes.ContentState>?, dismissalPolicy: ActivityUIDismissalPolicy) async { fatalError() }

    init() { fatalError() }
}
