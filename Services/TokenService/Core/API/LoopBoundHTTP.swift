import HTTPTypes
import HummingbirdCore
import Logging
import NIOCore
import NIOHTTPTypes
import SystemIO

/// HTTP/1.1 as Hummingbird serves it, but with each connection's requests answered on the connection's own event loop: the way from the
/// socket to the commit queue and back changes no thread, and changing threads costs more than most requests do.
struct LoopBoundHTTP: ServerChildChannel {
    typealias Value = HTTP1Channel.Value

    let channel: HTTP1Channel

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> { self.channel.setup(channel: channel, logger: logger) }

    func handle(value: Value, logger: Logger) async {
        let loop = value.channel.eventLoop
        await withTaskExecutorPreference(BorrowedThreadExecutor { loop.execute($0) }) {
            await channel.handle(value: value, logger: logger)
        }
    }
}

extension HTTPServerBuilder {
    static func loopBound(_ configuration: HTTP1Channel.Configuration) -> HTTPServerBuilder {
        HTTPServerBuilder { responder in LoopBoundHTTP(channel: HTTP1Channel(responder: responder, configuration: configuration)) }
    }
}
