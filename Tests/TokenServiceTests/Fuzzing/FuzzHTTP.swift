import HTTPTypes
import NIOCore
import NIOEmbedded
import NIOHTTP1
import NIOHTTPTypes
import NIOHTTPTypesHTTP1

@testable import TokenServiceAPI
@testable import TokenServiceApps

/// HTTP/1.1 as the service reads it: the parser with our limits, and the connection's handler.
///
/// However the bytes are cut, they are the same requests; and a request that was taken, written plainly, is that one request again: no
/// reader could have read it as two, or as another one.
enum FuzzHTTP {
    /// - Parameter bytes: The first one says how large the pieces are.
    static func run(_ bytes: [UInt8]) {
        guard let first = bytes.first else { return }
        let stream = Array(bytes.dropFirst())
        let whole = read(stream, pieces: max(1, stream.count))
        let cut = read(stream, pieces: Int(first & 0x3f) + 1)
        precondition(whole.requests == cut.requests, "pieces make other requests: \(whole.requests) \(cut.requests)")
        // The handler does not read what follows the last request, nor whether it was one.
        precondition(
            whole.isRefused == cut.isRefused || whole.isOver,
            "pieces decide whether it is refused: \(whole.isRefused) \(String(decoding: stream, as: UTF8.self))")
        for request in whole.requests where request.isComplete && request.fields.count < 90 {
            let again = read(request.text, pieces: request.text.count)
            precondition(again.requests == [request] && (!again.isRefused || again.isOver), "\(request) is read as \(again.requests)")
        }
    }

    private static func read(_ stream: [UInt8], pieces: Int) -> Recorder {
        let channel = EmbeddedChannel()
        let recorder = Recorder()
        do {
            try install(recorder, channel)
            try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        } catch {
            preconditionFailure("no pipeline: \(error)")
        }
        for start in stride(from: 0, to: stream.count, by: pieces) where channel.isActive {
            // The recorder gets the errors.
            do { try channel.writeInbound(ByteBuffer(bytes: stream[start..<min(start + pieces, stream.count)])) } catch {}
        }
        do { _ = try channel.finish(acceptAlreadyClosed: true) } catch {}
        precondition(recorder.answers <= recorder.requests.count + 1, "more answers than requests and one refusal")
        return recorder
    }

    private static func install(_ recorder: Recorder, _ channel: EmbeddedChannel) throws {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = RequestLimits.headerFieldBytes
        limits.maxHeaderListSize = RequestLimits.headerListBytes
        limits.maxHeaderFieldCount = RequestLimits.headerFields
        let pipeline = channel.pipeline.syncOperations
        try pipeline.configureHTTPServerPipeline(
            withPipeliningAssistance: false, withErrorHandling: false, withOutboundHeaderValidation: false,
            withEncoderConfiguration: .init(),
            withDecoderLimitConfiguration: limits)
        try pipeline.addHandler(ConnectionHandler(bodyTimeout: .seconds(30)))
        try pipeline.addHandler(HTTP1ToHTTPServerCodec(secure: false))
        try pipeline.addHandler(recorder)
    }
}

/// Stands where the server stands: notes what came, and answers each request when it is whole.
private final class Recorder: ChannelInboundHandler {
    typealias InboundIn = HTTPRequestPart
    typealias OutboundOut = HTTPResponsePart

    struct Request: Equatable, CustomStringConvertible {
        var method: String
        var path: String
        var authority: String
        var fields: [String]
        var body: [UInt8] = []
        var isComplete = false

        /// The same request, written in the plainest way.
        var text: [UInt8] {
            let head =
                ["\(method) \(path) HTTP/1.1", "Host: \(authority)"] + fields
                + (body.isEmpty ? [] : ["Content-Length: \(body.count)"])
            return Array((head + ["", ""]).joined(separator: "\r\n").utf8) + body
        }
        var description: String { String(decoding: text, as: UTF8.self) }
    }

    private(set) var requests: [Request] = []
    /// Something was no request, and nothing after it is one.
    private(set) var isRefused = false
    /// The connection ends with the answer to the last request.
    private(set) var isOver = false
    private(set) var answers = 0

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        precondition(!isRefused, "something comes after a refusal")
        switch unwrapInboundIn(data) {
        case .head(let head):
            precondition(requests.last?.isComplete ?? true, "a request inside a request")
            isOver = isOver || head.headerFields[.connection] == "close"
            let framing: Set<String> = ["content-length", "transfer-encoding", "connection"]
            let fields = head.headerFields.filter { !framing.contains($0.name.canonicalName) }.map { "\($0.name.rawName): \($0.value)" }
            requests.append(
                Request(method: head.method.rawValue, path: head.path ?? "", authority: head.authority ?? "", fields: fields))
        case .body(let bytes): requests[requests.count - 1].body += Array(bytes.readableBytesView)
        case .end:
            requests[requests.count - 1].isComplete = true
            answers += 1
            context.write(wrapOutboundOut(.head(HTTPResponse(status: .noContent))), promise: nil)
            context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { isRefused = true }
}
