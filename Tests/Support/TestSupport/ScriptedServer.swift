import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// An HTTP server that gives the answers of a test, and keeps the requests.
package final class ScriptedServer: Sendable {
    package struct Request: Sendable {
        package let method: String
        /// The path and the query.
        package let target: String
        /// Names in lower case.
        package let headers: [String: String]
        package let body: String
    }

    package enum Reply: Sendable {
        case answer(Int, String, headers: [(String, String)] = [])
        /// Closes the connection without an answer.
        case hangUp
        /// The head and half of the body, and nothing more.
        case half
        /// Takes the request and says nothing.
        case silence

        package static func problem(_ status: Int, _ code: String, retryAfter: Int? = nil, retryable: Bool = false) -> Reply {
            .answer(
                status, #"{"title":"t","status":\#(status),"code":"\#(code)","detail":"d","retryable":\#(retryable)}"#,
                headers: retryAfter.map { [("Retry-After", "\($0)")] } ?? [])
        }
    }

    private let kept = Mutex<[Request]>([])
    private let answer: @Sendable (Request) -> Reply
    /// A value for each request.
    package let arrivals = Signal<Void>()

    package var requests: [Request] { kept.withLock { $0 } }

    private init(_ answer: @escaping @Sendable (Request) -> Reply) { self.answer = answer }

    /// Gives these answers in order.
    package static func run<Result>(_ script: [Reply], _ body: (ScriptedServer, String) async throws -> Result) async throws -> Result {
        let rest = Mutex(script[...])
        return try await run(answering: { _ in rest.withLock { $0.popFirst() } ?? .answer(500, "the script has no answer left") }, body)
    }

    package static func run<Result>(
        answering answer: @escaping @Sendable (Request) -> Reply, _ body: (ScriptedServer, String) async throws -> Result
    ) async throws -> Result {
        let server = ScriptedServer(answer)
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(Handler(server))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let result: Swift.Result<Result, any Error>
        do { result = .success(try await body(server, "http://127.0.0.1:\(channel.localAddress?.port ?? 0)")) } catch {
            result = .failure(error)
        }
        try await channel.close()
        return try result.get()
    }

    private func reply(to request: Request) -> Reply {
        kept.withLock { $0.append(request) }
        let reply = answer(request)
        arrivals.send()
        return reply
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        private let server: ScriptedServer
        private var head: HTTPRequestHead?
        private var body = ByteBuffer()

        init(_ server: ScriptedServer) { self.server = server }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head(let head): (self.head, body) = (head, ByteBuffer())
            case .body(var buffer): body.writeBuffer(&buffer)
            case .end:
                guard let head else { return }
                let headers = Dictionary(head.headers.map { ($0.name.lowercased(), $0.value) }) { first, _ in first }
                let request = Request(method: head.method.rawValue, target: head.uri, headers: headers, body: String(buffer: body))
                write(server.reply(to: request), context)
            }
        }

        private func write(_ reply: Reply, _ context: ChannelHandlerContext) {
            switch reply {
            case .hangUp: context.close(promise: nil)
            case .silence: break
            case .half:
                let head = HTTPResponseHead(version: .http1_1, status: .ok, headers: ["content-length": "1000"])
                context.write(wrapOutboundOut(.head(head)), promise: nil)
                context.writeAndFlush(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: "{")))), promise: nil)
            case .answer(let status, let text, let headers):
                var fields = HTTPHeaders(headers)
                fields.add(name: "content-length", value: "\(text.utf8.count)")
                let head = HTTPResponseHead(version: .http1_1, status: HTTPResponseStatus(statusCode: status), headers: fields)
                context.write(wrapOutboundOut(.head(head)), promise: nil)
                context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: text)))), promise: nil)
                context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
            }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}
