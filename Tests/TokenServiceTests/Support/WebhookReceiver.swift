import FoundationEssentials
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import StrictJSON
import TestSupport

/// A small HTTP server of ours that plays the other side of webhooks: reports what it got, and answers what a test wants.
final class WebhookReceiver: Sendable {
    struct Received: Sendable {
        let path: String
        let headers: HTTPHeaders
        let body: [UInt8]

        func header(_ name: String) -> String { headers.first(name: name) ?? "" }
        var id: String { header("webhook-id") }
        var json: JSONValue { get throws { try JSONValue.parse(body) } }
        var type: String { get throws { try json.text("type") ?? "" } }
    }

    enum Reply: Sendable {
        case status(Int, headers: [(String, String)] = [])
        /// Takes the request and says nothing more.
        case silence
        /// A status and a body without end.
        case flood
        case hangUp

        static let ok = Reply.status(204)
    }

    typealias Answering = @Sendable (Received) -> Reply

    let received = Signal<Received>()
    let port: Int
    private let channel: any Channel

    var url: String { "http://127.0.0.1:\(port)/hook" }

    private init(channel: any Channel, port: Int) {
        self.channel = channel
        self.port = port
    }

    /// - Parameter tls: Certificate and key, PEM files.
    static func run<R>(
        tls: (certificate: String, key: String)? = nil, _ answer: @escaping Answering = { _ in .ok },
        _ body: (WebhookReceiver) async throws -> R
    ) async throws -> R {
        let box = Box<WebhookReceiver>()
        let context = try tls.map { tls in
            try NIOSSLContext(
                configuration: .makeServerConfiguration(
                    certificateChain: NIOSSLCertificate.fromPEMFile(tls.certificate).map { .certificate($0) },
                    privateKey: .privateKey(NIOSSLPrivateKey(file: tls.key, format: .pem))))
        }
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let context { try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: context)) }
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(
                        Handler { request in
                            box.value?.received.send(request)
                            return answer(request)
                        })
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let receiver = WebhookReceiver(channel: channel, port: channel.localAddress?.port ?? 0)
        box.open(receiver)
        do {
            let result = try await body(receiver)
            try await channel.close()
            return result
        } catch {
            try await channel.close()
            throw error
        }
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        private let answer: Answering
        private var head: HTTPRequestHead?
        private var body: [UInt8] = []

        init(_ answer: @escaping Answering) { self.answer = answer }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head(let head): (self.head, body) = (head, [])
            case .body(let buffer): body.append(contentsOf: buffer.readableBytesView)
            case .end:
                guard let head else { return }
                reply(answer(Received(path: head.uri, headers: head.headers, body: body)), context)
            }
        }

        private func reply(_ reply: Reply, _ context: ChannelHandlerContext) {
            switch reply {
            case .silence: break
            case .hangUp: context.close(promise: nil)
            case .flood:
                context.write(wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: .ok))), promise: nil)
                for _ in 0..<4 {
                    let part = context.channel.allocator.buffer(repeating: 65, count: 65_536)
                    context.write(wrapOutboundOut(.body(.byteBuffer(part))), promise: nil)
                }
                context.flush()
            case .status(let status, let headers):
                var fields = HTTPHeaders(headers)
                fields.add(name: "content-length", value: "0")
                let head = HTTPResponseHead(version: .http1_1, status: HTTPResponseStatus(statusCode: status), headers: fields)
                context.write(wrapOutboundOut(.head(head)), promise: nil)
                context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
            }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}
