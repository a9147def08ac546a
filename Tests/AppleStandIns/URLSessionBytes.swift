public import Foundation
public import FoundationNetworking

// What Apple's Foundation has of `URLSession` and the one for Linux lacks: only what `PushClient` calls.

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
