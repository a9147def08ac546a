import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization
import TestSupport

/// An HTTP server that gives the answers of a test in order, and keeps the requests.
final class ScriptedServer: Sendable {
    struct Request: Sendable {
        let method: String
        let target: String
        /// Names in lower case.
        let headers: [String: String]
        let body: String
    }

    enum Reply: Sendable {
        case answer(Int, String, headers: [(String, String)] = [])
        /// Closes the connection without an answer.
        case hangUp
        /// The head and half of the body, and nothing more.
        case half
        /// Takes the request and says nothing.
        case silence

        static func problem(_ status: Int, _ code: String, retryAfter: Int? = nil, retryable: Bool = false) -> Reply {
            .answer(
                status, #"{"title":"t","status":\#(status),"code":"\#(code)","detail":"d","retryable":\#(retryable)}"#,
                headers: retryAfter.map { [("Retry-After", "\($0)")] } ?? [])
        }
    }

    private struct State {
        var script: [Reply]
        var requests: [Request] = []
    }

    private let state: Mutex<State>
    /// A value for each request.
    let arrivals = Signal<Void>()

    var requests: [Request] { state.withLock { $0.requests } }

    private init(_ script: [Reply]) { state = Mutex(State(script: script)) }

    static func run<Result>(_ script: [Reply], _ body: (ScriptedServer, String) async throws -> Result) async throws -> Result {
        let server = ScriptedServer(script)
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
        let reply = state.withLock { state -> Reply in
            state.requests.append(request)
            return state.script.isEmpty ? .answer(500, "the script has no answer left") : state.script.removeFirst()
        }
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
