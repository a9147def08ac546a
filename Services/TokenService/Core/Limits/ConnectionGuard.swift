import HTTPTypes
import NIOCore
import NIOHTTP1
import NIOHTTPTypes

/// Watches one connection: what is too large, or not plainly one request, is refused, and a client that is too slow to send or to take is
/// not waited for.
///
/// Costs an ordinary request, whose body comes with its head, a few comparisons: a timer runs only while a body is incomplete. Time in
/// which the service itself does not read does not count. Confined to its connection's event loop.
final class ConnectionGuard: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    /// So many bytes must arrive within each ``bodyTimeout``.
    static let portion = 65_536
    /// So much of a body is thrown away after its answer: closing earlier could cost a client the answer that it is about to read.
    static let maximumThrownAway = 16 << 20

    /// For how long the client may go on sending after its connection was closed towards it. A close while bytes of it are on their way could
    /// cost it the answer (RFC 9112 section 9.6).
    static let lingering = TimeAmount.seconds(2)

    private let bodyTimeout: TimeAmount
    private var requestsBegun = 0
    private var answersEnded = 0
    private var isBodyArriving = false
    private var portionBytes = 0
    private var thrownAway = 0
    private var deadline = NIODeadline.distantFuture
    /// Since when the service does not want to read.
    private var pausedAt: NIODeadline?
    private var bodyTimer: Scheduled<Void>?
    private var drainTimer: Scheduled<Void>?
    private var lingerTimer: Scheduled<Void>?
    /// The answer that is being written is to HEAD and of a stream: the encoder would end it with a chunk.
    private var endsWithHead = false
    /// The client was told to go; the connection ends with the answer.
    private var isEnding = false
    /// The request after whose answer nothing is read.
    private var lastRequest = Int.max
    /// The request whose client waits for `100 Continue`, as long as nothing of its body has come.
    private var hesitant: Int?
    /// The last request was refused before its body, which may still come, or not: what the client does next is the connection's end.
    private var endsWithBody = false
    /// What comes after a fault in the framing is no request.
    private var isDeaf = false

    init(bodyTimeout: Duration) { self.bodyTimeout = TimeAmount(bodyTimeout) }

    // MARK: Requests

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if isDeaf { return }
        switch unwrapInboundIn(data) {
        case .head(let head):
            if RequestFraming.isAmbiguous(head) {
                errorCaught(context: context, error: HTTPParserError.unknown)
                isDeaf = true
                return
            }
            requestsBegun += 1
            hesitant = head.awaitsContinue ? requestsBegun : nil
            isBodyArriving = true
            portionBytes = 0
            thrownAway = 0
            deadline = .distantFuture
            if RequestFraming.isLast(head) { return lastRequestArrived(head, context) }
        case .body(let bytes): bodyArrived(bytes.readableBytes, context)
        case .end:
            bodyEnded()
            context.fireChannelRead(data)
            if endsWithBody, requestsBegun == answersEnded { context.close(promise: nil) }
            return
        }
        context.fireChannelRead(data)
    }

    private func lastRequestArrived(_ head: HTTPRequest, _ context: ChannelHandlerContext) {
        lastRequest = min(lastRequest, requestsBegun)
        var head = head
        // The only way to say it that the server above understands.
        head.headerFields[.connection] = "close"
        context.fireChannelRead(wrapInboundOut(.head(head)))
    }

    private func bodyEnded() {
        hesitant = nil
        isBodyArriving = false
        isDeaf = endsWithBody
        bodyTimer?.cancel()
        bodyTimer = nil
    }

    private func bodyArrived(_ bytes: Int, _ context: ChannelHandlerContext) {
        hesitant = nil
        if requestsBegun == answersEnded {
            thrownAway += bytes
            if thrownAway > Self.maximumThrownAway { context.close(promise: nil) }
        }
        portionBytes += bytes
        guard portionBytes >= Self.portion else { return }
        portionBytes = 0
        if deadline != .distantFuture { deadline = .now() + bodyTimeout }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if isBodyArriving {
            let now = NIODeadline.now()
            pausedAt = now
            if deadline == .distantFuture { deadline = now + bodyTimeout }
            if bodyTimer == nil { startBodyTimer(context, in: bodyTimeout) }
        }
        context.fireChannelReadComplete()
    }

    func read(context: ChannelHandlerContext) {
        if let pausedAt {
            if deadline != .distantFuture { deadline = deadline + (NIODeadline.now() - pausedAt) }
            self.pausedAt = nil
        }
        context.read()
    }

    private func startBodyTimer(_ context: ChannelHandlerContext, in amount: TimeAmount) {
        bodyTimer = context.eventLoop.assumeIsolated().scheduleTask(in: amount) { [weak self] in self?.bodyTimerFired(context) }
    }

    private func bodyTimerFired(_ context: ChannelHandlerContext) {
        bodyTimer = nil
        guard isBodyArriving, context.channel.isActive else { return }
        let now = NIODeadline.now()
        if pausedAt != nil { return startBodyTimer(context, in: bodyTimeout) }
        if now < deadline { return startBodyTimer(context, in: deadline - now) }
        isEnding = true
        if requestsBegun == answersEnded { return context.close(promise: nil) }
        // Whoever reads the body gets this error, and answers.
        context.fireErrorCaught(BodyTimedOut())
    }

    // MARK: Answers

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let part = unwrapOutboundIn(data)
        if case .head(let head) = part {
            if hesitant == answersEnded + 1 { answered(head.status, context) }
            endsWithHead = head.headerFields.text(.transferEncoding) != nil
        }
        switch part {
        case .head(var head) where answersEnded + 1 >= (isEnding ? requestsBegun : lastRequest):
            head.headerFields[.connection] = "close"
            return context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .end: break
        default: return context.write(data, promise: promise)
        }
        answersEnded += 1
        if endsWithHead { promise?.succeed() } else { context.write(data, promise: promise) }
        guard isEnding || endsWithBody, answersEnded == requestsBegun else { return }
        context.flush()
        context.close(mode: isEnding || !isBodyArriving ? .all : .output, promise: nil)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event as? ChannelEvent == .outputClosed {
            lingerTimer = context.eventLoop.assumeIsolated().scheduleTask(in: Self.lingering) { context.close(promise: nil) }
        }
        context.fireUserInboundEventTriggered(event)
    }

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        guard event is BodyIsWanted else { return context.triggerUserOutboundEvent(event, promise: promise) }
        promise?.succeed()
        if hesitant == answersEnded + 1 { sayContinue(context) }
    }

    private func sayContinue(_ context: ChannelHandlerContext) {
        hesitant = nil
        context.writeAndFlush(wrapOutboundOut(.head(HTTPResponse(status: .continue))), promise: nil)
    }

    /// The answer begins, and nobody has asked for the body. One that means well is written while the body is read.
    private func answered(_ status: HTTPResponse.Status, _ context: ChannelHandlerContext) {
        if status.kind == .successful { return sayContinue(context) }
        hesitant = nil
        lastRequest = min(lastRequest, requestsBegun)
        endsWithBody = true
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        drainTimer?.cancel()
        drainTimer = nil
        if !context.channel.isWritable {
            drainTimer = context.eventLoop.assumeIsolated().scheduleTask(in: bodyTimeout) { context.close(promise: nil) }
        }
        context.fireChannelWritabilityChanged()
    }

    // MARK: The end

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? HTTPParserError, !isEnding else {
            // What follows a refusal is not even a fault.
            return isDeaf && error is HTTPParserError ? () : context.fireErrorCaught(error)
        }
        // Requests that came whole are answered first; the server above then says 400 and closes.
        guard requestsBegun == answersEnded else {
            isEnding = true
            return context.fireErrorCaught(error)
        }
        if endsWithBody { return context.close(promise: nil) }
        refuse(error == .headerOverflow ? .headersTooLarge : .malformedHTTP, context)
    }

    private func refuse(_ error: APIError, _ context: ChannelHandlerContext) {
        isEnding = true
        isDeaf = true
        let problem = error.body()
        let head = HTTPResponse(
            status: error.status,
            headerFields: [.contentType: "application/problem+json", .contentLength: "\(problem.count)", .connection: "close"])
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(context.channel.allocator.buffer(bytes: problem))), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        stop()
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) { stop() }

    private func stop() {
        bodyTimer?.cancel()
        bodyTimer = nil
        drainTimer?.cancel()
        drainTimer = nil
        lingerTimer?.cancel()
        lingerTimer = nil
    }
}

/// The client stopped sending in the middle of a body.
struct BodyTimedOut: Error {}
