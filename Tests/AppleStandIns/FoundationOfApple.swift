public import Foundation
public import FoundationNetworking

// What Apple's Foundation has and the one for Linux lacks: only what `PushClient` and its example call.

extension ProcessInfo {
    @available(iOS 8.2, tvOS 9.0, watchOS 2.0, *)
    @available(macOS, unavailable)
    public func performExpiringActivity(withReason reason: String, using block: @escaping @Sendable (Bool) -> Void) { fatalError() }
}

extension FileManager {
    public func containerURL(forSecurityApplicationGroupIdentifier groupIdentifier: String) -> URL? { fatalError() }
}

extension URL {
    @available(iOS 16.0, macOS 13.0, tvOS 16.0, watchOS 9.0, *)
    public static var applicationSupportDirectory: URL { fatalError() }
}

extension URLSession {
    @available(iOS 15.0, macOS 12.0, tvOS 15.0, watchOS 8.0, *)
    public struct AsyncBytes: AsyncSequence, Sendable {
        public typealias Element = UInt8

        public struct Iterator: AsyncIteratorProtocol {
            public mutating func next() async throws -> UInt8? { fatalError() }
        }

        public var task: URLSessionDataTask { fatalError() }
        public func makeAsyncIterator() -> Iterator { fatalError() }
    }

    @available(iOS 15.0, macOS 12.0, tvOS 15.0, watchOS 8.0, *)
    public func bytes(from url: URL, delegate: (any URLSessionTaskDelegate)? = nil) async throws -> (AsyncBytes, URLResponse) {
        fatalError()
    }
}
