import NIOCore
import NIOHTTP1

/// What a request of HTTP/1.0 cannot mean. Stands before the types that know no versions any more, and leaves the refusing to
/// ``ConnectionGuard``.
final class OldVersionGuard: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(var head) = unwrapInboundIn(data), head.version != .http1_1 else { return context.fireChannelRead(data) }
        // Its framing is to be taken for faulty (RFC 9112, section 6.1): a server of that time in between has seen another end.
        if head.headers.contains(name: "Transfer-Encoding") {
            head.headers.replaceOrAdd(name: "Transfer-Encoding", value: RequestFraming.codingOfOldVersion)
        }
        // It may leave the host out, which a request of HTTP/1.1 may not (RFC 9112, section 3.2).
        if !head.headers.contains(name: "Host") { head.headers.add(name: "Host", value: "") }
        // Such a client knows no answer before the answer (RFC 9110, section 10.1.1).
        head.headers.remove(name: "Expect")
        context.fireChannelRead(wrapInboundOut(.head(head)))
    }
}
