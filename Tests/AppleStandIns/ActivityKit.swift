public import Foundation

/// `ActivityKit`: only what `PushClient` calls, with the SDK's signatures.
public protocol ActivityAttributes: Decodable, Encodable {
    associatedtype ContentState: Decodable, Encodable, Hashable
}

public enum ActivityState: Codable, Hashable, Sendable {
    case active, ended, dismissed, stale
}

public final class ActivityAuthorizationInfo {
    public init() { fatalError() }
    public final var frequentPushesEnabled: Bool { fatalError() }
}

/// Not `Sendable`, as in the SDK.
public class Activity<Attributes: ActivityAttributes>: Identifiable {
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

    public final var id: String { fatalError() }
    public final var pushTokenUpdates: PushTokenUpdates { fatalError() }
    public final var activityStateUpdates: ActivityStateUpdates { fatalError() }
    public static var pushToStartTokenUpdates: PushTokenUpdates { fatalError() }
}
