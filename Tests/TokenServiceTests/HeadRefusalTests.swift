import Foundation
import NIOCore
import NIOEmbedded
import NIOHTTP1
import Testing

@testable import TokenServiceAPI
@testable import TokenServiceApps
@testable import TokenServiceKit

/// `LimitTests` has the limits themselves.
@Suite("A connection refuses by the head what the limits refuse")
struct HeadRefusalTests {
    private static let refused = "GET /refused HTTP/1.1\r\nHost: t\r\n\r\n"
    private static let passed = "GET /passed HTTP/1.1\r\nHost: t\r\n\r\n"

    @Test("Refusals of requests that come together go out together, and only the other requests are passed on") func together() throws {
        let connection = try Connection()
        try connection.send(
            Self.refused + "PUT /refused HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\n{}" + Self.refused + Self.passed)
        #expect(connection.behind.parts == ["/passed", "end"])
        #expect(connection.front.flushes == 1)
        let answers = try connection.received().components(separatedBy: "HTTP/1.1 ").dropFirst()
        #expect(answers.count == 3)
        for answer in answers {
            #expect(answer.hasPrefix("503 Service Unavailable\r\n") && answer.contains("Retry-After: 1\r\n"))
            #expect(answer.contains("RateLimit-Limit: 7\r\nRateLimit-Remaining: 6\r\nRateLimit-Reset: 1\r\n"))
            let parts = answer.components(separatedBy: "\r\n\r\n")
            #expect(answer.contains("Content-Length: \(parts[1].utf8.count)\r\n") && parts.count == 2)
            #expect(parts[1] == String(decoding: APIError.overloaded.body(), as: UTF8.self))
        }
    }

    @Test("The connection throws away the body of a refused request that comes later") func lateBody() throws {
        let connection = try Connection()
        try connection.send("PUT /refused HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\n{")
        #expect(try connection.received().hasPrefix("HTTP/1.1 503 "))
        try connection.send(" ")
        try connection.send(" }" + Self.passed)
        #expect(connection.behind.parts == ["/passed", "end"])
        #expect(try connection.received() == "")
    }

    @Test("A refusal does not overtake an answer: while one is to come, all requests are passed on") func order() throws {
        let connection = try Connection()
        try connection.send(Self.passed + Self.refused)
        #expect(connection.behind.parts == ["/passed", "end", "/refused", "end"])
        try connection.send(Self.refused)
        for _ in 1...3 { connection.behind.answer() }
        #expect(connection.behind.parts.count == 6)
        #expect(try connection.received().components(separatedBy: "HTTP/1.1 204 ").count == 4)
        try connection.send(Self.refused)
        #expect(try connection.received().hasPrefix("HTTP/1.1 503 "))
        #expect(connection.behind.parts.count == 6)
    }

    @Test(
        "The connection passes on a request if it may not go on behind a refusal, or if the body is long",
        arguments: [
            "Connection: close\r\n", "Expect: 100-continue\r\nContent-Length: 2\r\n", "Content-Length: 65537\r\n",
            "Transfer-Encoding: chunked\r\n",
        ])
    func otherRequests(fields: String) throws {
        let connection = try Connection()
        try connection.send("PUT /refused HTTP/1.1\r\nHost: t\r\n\(fields)\r\n")
        #expect(connection.behind.parts.first == "/refused")
        #expect(try connection.received() == "")
    }

    /// The server would close it as idle.
    @Test("The connection passes on a request if it has passed on none for a part of the idle timeout") func idleTimeout() throws {
        let connection = try Connection(idleTimeout: .zero)
        try connection.send(Self.refused)
        #expect(connection.behind.parts == ["/refused", "end"])
    }

    @Test("The connection passes on the requests of a client that takes no answers") func untakenAnswers() throws {
        let connection = try Connection()
        connection.channel.isWritable = false
        try connection.send(Self.refused)
        #expect(connection.behind.parts == ["/refused", "end"])
    }

    @Test("The date of an answer is the one that RFC 9110 gives as an example") func date() {
        #expect(HTTPDate.text(784_111_777) == "Sun, 06 Nov 1994 08:49:37 GMT")
    }
}

/// A connection that refuses all requests to `/refused`, without a socket and a service.
private final class Connection {
    let channel = EmbeddedChannel()
    let front = FlushCount()
    let behind = Recorder()

    init(idleTimeout: Duration = .seconds(3600)) throws {
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(front)
        try pipeline.configureHTTPServerPipeline(
            withPipeliningAssistance: false, withErrorHandling: false, withOutboundHeaderValidation: false,
            withEncoderConfiguration: .init(), withDecoderLimitConfiguration: NIOHTTPDecoderLimitConfiguration())
        try pipeline.addHandler(
            ConnectionHandler(bodyTimeout: .seconds(30), idleTimeout: idleTimeout) { head in
                head.uri == "/refused" ? Self.refusal : nil
            })
        try pipeline.addHandler(behind)
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    }

    private static let refusal = AdmissionDecision(
        authorization: "", caller: Caller(keyID: "a", app: nil, scopes: [], requestsPerSecond: nil),
        quota: TokenBucket.Quota(isWithin: true, limit: 7, remaining: 6, resetSeconds: 1, retryAfterSeconds: 0),
        result: .failure(.overloaded))

    /// One read.
    func send(_ text: String) throws { try channel.writeInbound(ByteBuffer(string: text)) }

    /// What the client has received since the last call.
    func received() throws -> String {
        var text = ""
        while let bytes = try channel.readOutbound(as: ByteBuffer.self) { text += String(buffer: bytes) }
        return text
    }
}

private final class FlushCount: ChannelOutboundHandler {
    typealias OutboundIn = Never

    private(set) var flushes = 0

    func flush(context: ChannelHandlerContext) {
        flushes += 1
        context.flush()
    }
}

/// Stands where the server stands.
private final class Recorder: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private(set) var parts: [String] = []
    private var context: ChannelHandlerContext?

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }
    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head): parts.append(head.uri)
        case .body: parts.append("body")
        case .end: parts.append("end")
        }
    }

    /// Answers the oldest request.
    func answer() {
        context?.write(wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: .noContent))), promise: nil)
        context?.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }
}
