package import HummingbirdCore
package import Logging
package import NIOCore
package import NIOHTTP1
import NIOHTTPTypesHTTP1
import SystemIO
package import TokenServiceApps

/// HTTP/1 whose requests run on the event loop that read them. On Swift's task threads, each request would go from the loop to another
/// thread and back, and both would be woken for it. Work that takes a processor for long leaves the loop (``offItsLoop(_:)``).
package struct LoopChannel: ServerChildChannel {
    package typealias Value = HTTP1Channel.Value

    private let base: HTTP1Channel
    private let limits: RequestLimits
    private let decide: @Sendable (HTTPRequestHead) -> AdmissionDecision?

    /// - Parameter decide: Decides on a request by its head (``ConnectionHandler/Decide``).
    package static func server(
        _ limits: RequestLimits, decide: @escaping @Sendable (HTTPRequestHead) -> AdmissionDecision?
    ) -> HTTPServerBuilder {
        let configuration = HTTP1Channel.Configuration(
            idleTimeout: TimeAmount(limits.idleTimeout),
            httpDecoderConfiguration: .init(
                maxHeaderFieldSize: RequestLimits.headerFieldBytes, maxHeaderListSize: RequestLimits.headerListBytes,
                maxHeaderFieldCount: RequestLimits.headerFields))
        return HTTPServerBuilder { responder in
            let base = HTTP1Channel(
                responder: { (request, writer: consuming ResponseWriter, channel) in
                    try await responder(request.askingForItsBody(on: channel), writer, channel)
                }, configuration: configuration)
            return LoopChannel(base: base, limits: limits, decide: decide)
        }
    }

    package func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        base.setup(channel: channel, logger: logger).flatMapThrowing { [limits, decide] value in
            let pipeline = channel.pipeline.syncOperations
            let codec = try pipeline.handler(type: HTTP1ToHTTPServerCodec.self)
            let handler = ConnectionHandler(bodyTimeout: limits.bodyTimeout, idleTimeout: limits.idleTimeout, decide: decide)
            try pipeline.addHandler(handler, position: .before(codec))
            return value
        }
    }

    package func handle(value: Value, logger: Logger) async {
        let loop = value.channel.eventLoop
        await withTaskExecutorPreference(EventLoopExecutor { loop.execute($0) }) { await base.handle(value: value, logger: logger) }
    }
}
