public import Foundation

/// `ActivityKit`: only what `PushClient` calls, with the SDK's signatures.
public protocol ActivityAttributes: Decodable, Encodable {
    associatedtype ContentState: Decodable, Encodable, Hashable
}

public class Activity<Attributes: ActivityAttributes>: Identifiable, @unchecked Sendable {
    public struct PushTokenUpdates: AsyncSequence, Sendable {
        public typealias Element = Data

        public struct Iterator: AsyncIteratorProtocol {
            public mutating func next() async -> Data? { fatalError() }
        }

        public func makeAsyncIterator() -> Iterator { fatalError() }
    }

    public final var id: String { fatalError() }
    public final var pushTokenUpdates: PushTokenUpdates { fatalError() }
    public static var pushToStartTokenUpdates: PushTokenUpdates { fatalError() }
}
