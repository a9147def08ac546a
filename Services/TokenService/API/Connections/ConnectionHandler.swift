import HTTPTypes
package import HummingbirdCore
package import Logging
package import NIOCore
package import NIOHTTP1
import NIOHTTPTypesHTTP1
import SystemIO
package import TokenServiceApps
import TokenServiceKit

/// Applies the rules of ``HTTPConnectionState`` to one connection. Stands right behind NIO's HTTP/1.1 parser. Confined to its connection's
/// event loop.
///
/// Where it can, it answers a request that is beyond the limits by its head. No task works on that request, and nothing behind this handler
/// learns of it: under overload, most requests are refused, and what they cost is taken from the others.
///
/// An ordinary request, whose body comes with its head, costs a few comparisons: a timer runs only while a body is incomplete.
final class ConnectionHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart
    /// Says what the limits say to a request with this head; nil if the request's task has to ask them.
    typealias Decide = (HTTPRequestHead) -> AdmissionDecision?

    /// How long the connection stays open after the service closed its side, and after each ``HTTPConnectionState/portion`` of a body that
    /// comes then. Closing the whole connection while the client's bytes are on their way could cost it the answer (RFC 9112 section 9.6).
    private static let lingering = TimeAmount.seconds(2)

    private var state: HTTPConnectionState
    private var bodyTimer: Scheduled<Void>?
    /// Runs while the client does not read the answer.
    private var drainTimer: Scheduled<Void>?
    private var lingerTimer: Scheduled<Void>?
    /// Bytes of a body since the timer began.
    private var lingeringBytes = 0

    private let decide: Decide?
    private let longestUnseen: TimeAmount
    /// When a request was last passed on.
    private var passedOn = NIODeadline.now()
    /// The decision on the request that was passed on last, until its task takes it.
    private var decision: AdmissionDecision?
    /// The place from which bytes go to the client as they are.
    private var wire: ChannelHandlerContext?
    /// The body that arrives is a refused request's.
    private var isRefused = false
    private var hasUnsentRefusals = false

    /// - Parameters:
    ///   - idleTimeout: If the server above sees no request for so long, it closes the connection.
    ///   - decide: Nil: no request is refused by its head.
    init(bodyTimeout: Duration, idleTimeout: Duration = .zero, decide: Decide? = nil) {
        state = HTTPConnectionState(bodyTimeout: TimeAmount(bodyTimeout))
        longestUnseen = TimeAmount(idleTimeout / 4)
        self.decide = decide
    }

    func handlerAdded(context: ChannelHandlerContext) {
        if decide != nil { wire = try? context.pipeline.syncOperations.context(handlerType: HTTPResponseEncoder.self) }
    }

    // MARK: Requests

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(var head):
            let actions = state.headArrived(HTTPConnectionState.Request(head))
            if actions == .forward, refuses(head, context) { return }
            guard actions.contains(.forwardAsLast) else { return read(data, actions, context) }
            head.headers.replaceOrAdd(name: "Connection", value: "close")
            read(wrapInboundOut(.head(head)), actions, context)
        case .body(let bytes):
            lingeringBytes += bytes.readableBytes
            if lingerTimer != nil, lingeringBytes >= HTTPConnectionState.portion { linger(context) }
            read(data, state.bodyArrived(bytes.readableBytes, at: .now()), context)
        case .end:
            read(data, state.bodyEnded(), context)
            isRefused = false
        }
    }

    private func read(_ part: NIOAny, _ actions: HTTPConnectionState.Actions, _ context: ChannelHandlerContext) {
        if actions.forwards, !isRefused { context.fireChannelRead(part) }
        perform(actions, context)
    }

    /// Answers the request if its head is enough to refuse it. Its body is thrown away.
    private func refuses(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) -> Bool {
        let now = NIODeadline.now()
        // The server above has to see now and then that the connection is in use. It also waits for a client that takes no answers.
        if now - passedOn < longestUnseen, context.channel.isWritable, state.mayRefuse, let decide, let wire, let made = decide(head) {
            if case .failure(let refusal) = made.result {
                state.refused()
                isRefused = true
                hasUnsentRefusals = true
                let bytes = PreparedRefusal.bytes(refusal, made.quota, context.channel.allocator)
                wire.write(NIOAny(IOData.byteBuffer(bytes)), promise: nil)
                return true
            }
            decision = made
        }
        passedOn = now
        return false
    }

    /// The decision on the request whose task begins on this channel now.
    static func takeDecision(on channel: any Channel) -> AdmissionDecision? {
        guard channel.eventLoop.inEventLoop, let handler = try? channel.pipeline.syncOperations.handler(type: ConnectionHandler.self)
        else { return nil }
        defer { handler.decision = nil }
        return handler.decision
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if hasUnsentRefusals {
            hasUnsentRefusals = false
            context.flush()
        }
        perform(state.readCompleted(at: .now()), context)
        context.fireChannelReadComplete()
    }

    func read(context: ChannelHandlerContext) {
        state.readWanted(at: .now())
        context.read()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? HTTPParserError else { return context.fireErrorCaught(error) }
        perform(state.parserFailed(), context, fault: error)
    }

    // MARK: Answers

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(var head):
            let actions = state.answerBegins(
                isSuccess: (200..<300).contains(head.status.code), hasCoding: head.headers.contains(name: "Transfer-Encoding"))
            if actions.contains(.sendContinue) { sendContinue(context) }
            guard actions.contains(.forwardAsLast) else { return context.write(data, promise: promise) }
            head.headers.replaceOrAdd(name: "Connection", value: "close")
            context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .body: context.write(data, promise: promise)
        case .end:
            decision = nil
            let actions = state.answerEnds()
            if actions.forwards { context.write(data, promise: promise) } else { promise?.succeed() }
            perform(actions, context)
        }
    }

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        guard event is BodyIsWanted else { return context.triggerUserOutboundEvent(event, promise: promise) }
        promise?.succeed()
        if state.bodyWanted().contains(.sendContinue) { sendContinue(context) }
    }

    private func sendContinue(_ context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: .continue))), promise: nil)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        drainTimer?.cancel()
        drainTimer = context.channel.isWritable ? nil : after(state.bodyTimeout, context) { _ in context.close(promise: nil) }
        context.fireChannelWritabilityChanged()
    }

    // MARK: Actions

    private func perform(_ actions: HTTPConnectionState.Actions, _ context: ChannelHandlerContext, fault: HTTPParserError = .unknown) {
        if actions.contains(.stopTimer) { stop(&bodyTimer) }
        if actions.contains(.startTimer) { bodyTimer = after(state.wait, context) { $0.bodyTimerFired(context) } }
        if actions.contains(.failBody) { context.fireErrorCaught(BodyTimedOut()) }
        if actions.contains(.refuse) { write(fault == .headerOverflow ? .headersTooLarge : .malformedHTTP, context) }
        if actions.contains(.passFault) { context.fireErrorCaught(fault) }
        if actions.contains(.closeOutput) { close(.output, context) }
        if actions.contains(.close) { close(.all, context) }
    }

    private func bodyTimerFired(_ context: ChannelHandlerContext) {
        bodyTimer = nil
        if context.channel.isActive { perform(state.timerFired(at: .now()), context) }
    }

    private func write(_ refusal: APIError, _ context: ChannelHandlerContext) {
        let problem = refusal.body()
        let headers: HTTPHeaders = [
            "Content-Type": "application/problem+json", "Content-Length": "\(problem.count)", "Connection": "close",
        ]
        let status = HTTPResponseStatus(statusCode: refusal.status.code, reasonPhrase: refusal.status.reasonPhrase)
        context.write(wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: status, headers: headers))), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(context.channel.allocator.buffer(bytes: problem)))), promise: nil)
        context.write(wrapOutboundOut(.end(nil)), promise: nil)
    }

    private func close(_ mode: CloseMode, _ context: ChannelHandlerContext) {
        context.flush()
        context.close(mode: mode, promise: nil)
    }

    // MARK: The end

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event as? ChannelEvent == .outputClosed { linger(context) }
        context.fireUserInboundEventTriggered(event)
    }

    private func linger(_ context: ChannelHandlerContext) {
        lingerTimer?.cancel()
        lingeringBytes = 0
        lingerTimer = after(Self.lingering, context) { _ in context.close(promise: nil) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        stopTimers()
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        stopTimers()
        wire = nil
    }

    private func stopTimers() {
        stop(&bodyTimer)
        stop(&drainTimer)
        stop(&lingerTimer)
    }

    private func stop(_ timer: inout Scheduled<Void>?) {
        timer?.cancel()
        timer = nil
    }

    private func after(
        _ amount: TimeAmount, _ context: ChannelHandlerContext, _ body: @escaping (ConnectionHandler) -> Void
    ) -> Scheduled<Void> {
        context.eventLoop.assumeIsolated().scheduleTask(in: amount) { [weak self] in
            if let self { body(self) }
        }
    }
}

extension HTTPConnectionState.Actions {
    fileprivate var forwards: Bool { !isDisjoint(with: [.forward, .forwardAsLast]) }
}

/// The client stopped sending in the middle of a body.
struct BodyTimedOut: ProblemError {
    var problem: APIError { APIError(.bodyTimeout, "the request's body did not arrive in time") }
}

/// The body of a request whose client waits for `100 Continue` with it (RFC 9110, section 10.1.1): the first read reports it to
/// ``ConnectionHandler``, which answers `100 Continue`. If the service refuses the request by its head, the client sends no body.
struct AwaitedBody: AsyncSequence, Sendable {
    typealias Element = ByteBuffer

    let base: HummingbirdCore.RequestBody
    let channel: any Channel

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(base: base.makeAsyncIterator(), channel: channel) }

    struct AsyncIterator: AsyncIteratorProtocol {
        var base: HummingbirdCore.RequestBody.AsyncIterator
        /// The channel, until the first read is reported.
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
    /// This request, except that reading its body sends `100 Continue` if the client waits for it.
    func askingForItsBody(on channel: any Channel) -> Request {
        guard head.awaitsContinue else { return self }
        var request = self
        request.body = HummingbirdCore.RequestBody(asyncSequence: AwaitedBody(base: body, channel: channel))
        return request
    }
}

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
