import HummingbirdCore
import Logging
import NIOCore
import NIOHTTPTypesHTTP1
import SystemIO

/// HTTP/1 whose requests are worked on by the event loop that read them. On the pool of tasks' threads each request would go from the loop to
/// a thread of the pool and back, and both would be woken for it. What takes a processor for long leaves it (``offItsLoop(_:)``).
struct LoopChannel: ServerChildChannel {
    typealias Value = HTTP1Channel.Value

    private let base: HTTP1Channel

    init(_ base: HTTP1Channel) { self.base = base }

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        base.setup(channel: channel, logger: logger).flatMapThrowing { value in
            let pipeline = channel.pipeline.syncOperations
            try pipeline.addHandler(OldVersionGuard(), position: .before(pipeline.handler(type: HTTP1ToHTTPServerCodec.self)))
            return value
        }
    }

    func handle(value: Value, logger: Logger) async {
        let loop = value.channel.eventLoop
        await withTaskExecutorPreference(EventLoopExecutor { loop.execute($0) }) { await base.handle(value: value, logger: logger) }
    }
}

extension LoopChannel {
    static func server(_ limits: RequestLimits) -> HTTPServerBuilder {
        HTTPServerBuilder { responder in
            LoopChannel(
                HTTP1Channel(
                    responder: { (request, writer: consuming ResponseWriter, channel) in
                        try await responder(request.askingForItsBody(on: channel), writer, channel)
                    }, configuration: limits.connection))
        }
    }
}

/// On the pool of tasks' threads: for what would keep an event loop from its other connections.
func offItsLoop<Result, Failure: Error>(
    _ work: @concurrent () async throws(Failure) -> Result
) async throws(Failure) -> Result {
    try await withTaskExecutorPreference(globalConcurrentExecutor) { () async throws(Failure) -> Result in try await work() }
}
