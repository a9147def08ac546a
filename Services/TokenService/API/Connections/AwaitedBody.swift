import HTTPTypes
import HummingbirdCore
import NIOCore

/// The body of a request whose client waits for `100 Continue` with it (RFC 9110, section 10.1.1): the first read reports it to
/// ``ConnectionHandler``, which answers `100 Continue`. If the service refuses the request by its head, the client sends no body.
struct AwaitedBody: AsyncSequence, Sendable {
    typealias Element = ByteBuffer

    let base: HummingbirdCore.RequestBody
    let channel: any Channel

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(base: base.makeAsyncIterator(), channel: channel) }

    struct AsyncIterator: AsyncIteratorProtocol {
        var base: HummingbirdCore.RequestBody.AsyncIterator
        /// Until the first read is reported.
        var channel: (any Channel)?

        @concurrent mutating func next() async throws -> ByteBuffer? {
            channel?.triggerUserOutboundEvent(BodyIsWanted(), promise: nil)
            channel = nil
            return try await base.next()
        }
    }
}

/// The service reads the body of the request that it is answering.
struct BodyIsWanted: Sendable {}

extension HTTPRequest {
    /// Whether its client waits for `100 Continue` before it sends the body.
    var awaitsContinue: Bool { headerFields[.expect]?.lowercased() == "100-continue" }
}

extension Request {
    /// The same request; reading its body sends `100 Continue` if the client waits for it.
    func askingForItsBody(on channel: any Channel) -> Request {
        guard head.awaitsContinue else { return self }
        var request = self
        request.body = HummingbirdCore.RequestBody(asyncSequence: AwaitedBody(base: body, channel: channel))
        return request
    }
}
