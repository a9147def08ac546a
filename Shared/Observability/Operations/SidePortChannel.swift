package import HummingbirdCore
package import Logging
package import NIOCore
import NIOHTTP1
import NIOHTTPTypesHTTP1

/// HTTP/1 for a port beside a service's work: small heads, and a connection that ends with the answer to a request of HTTP/1.0.
///
/// Hummingbird alone keeps such a connection open until it is idle, and its client waits for the end (RFC 9112 section 9.3).
package struct SidePortChannel: ServerChildChannel {
    package typealias Value = HTTP1Channel.Value

    private let base: HTTP1Channel

    /// - Parameter idleTimeout: The limit for a request's head, between two requests, and between two parts of a body.
    package static func server(idleTimeout: Duration) -> HTTPServerBuilder {
        let configuration = HTTP1Channel.Configuration(
            idleTimeout: TimeAmount(idleTimeout),
            httpDecoderConfiguration: .init(maxHeaderFieldSize: 8192, maxHeaderListSize: 16_384, maxHeaderFieldCount: 100))
        return HTTPServerBuilder { responder in
            SidePortChannel(base: HTTP1Channel(responder: responder, configuration: configuration))
        }
    }

    package func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        base.setup(channel: channel, logger: logger).flatMapThrowing { value in
            let pipeline = channel.pipeline.syncOperations
            // The codec behind it drops the version.
            try pipeline.addHandler(LastOfHTTP10(), position: .before(pipeline.handler(type: HTTP1ToHTTPServerCodec.self)))
            return value
        }
    }

    package func handle(value: Value, logger: Logger) async { await base.handle(value: value, logger: logger) }
}

/// Marks a request of HTTP/1.0, and its answer, as the last on the connection, also if it asks for more: the answer may say so. Confined to
/// its connection's event loop.
private final class LastOfHTTP10: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    private var requestsBegun = 0
    private var answersBegun = 0
    private var last = Int.max

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(var head) = unwrapInboundIn(data) else { return context.fireChannelRead(data) }
        requestsBegun += 1
        guard head.version != .http1_1 else { return context.fireChannelRead(data) }
        last = min(last, requestsBegun)
        head.headers.replaceOrAdd(name: "Connection", value: "close")
        context.fireChannelRead(wrapInboundOut(.head(head)))
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard case .head(var head) = unwrapOutboundIn(data) else { return context.write(data, promise: promise) }
        answersBegun += 1
        if answersBegun >= last { head.headers.replaceOrAdd(name: "Connection", value: "close") }
        context.write(wrapOutboundOut(.head(head)), promise: promise)
    }
}
