import APNsSimulator
import HTTP2
import Testing

/// RFC 9113 from the side of a client that breaks it. The frames are made by hand, see `RawFrame`.
@Suite("A violation of HTTP/2 gets the error of RFC 9113 and harms no other client", .timeLimit(.minutes(5)))
struct StrictnessTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let code: HTTP2ErrorCode
        let bytes: [UInt8]

        init(_ name: String, _ code: HTTP2ErrorCode, _ frames: [RawFrame]) {
            testDescription = name
            self.code = code
            bytes = frames.flatMap(\.bytes)
        }
    }

    static let request = [(":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", "/3/device/" + TestPush.token)]
    private static let whole = RawFrame.endHeaders | RawFrame.endStream

    private static func without(_ name: String) -> [(String, String)] { request.filter { $0.0 != name } }
    private static func with(_ name: String, _ value: String) -> [(String, String)] { request + [(name, value)] }

    static let connectionErrors: [Case] = [
        Case("DATA on stream 0", .protocolError, [.data(0, "x")]),
        Case("DATA on an idle stream", .protocolError, [.data(5, "x")]),
        Case(
            "DATA whose padding is longer than it", .protocolError,
            [.headers(1, request), RawFrame(kind: .data, flags: 9, stream: 1, payload: [200, 1])]),
        Case("HEADERS on stream 0", .protocolError, [.headers(0, request)]),
        Case(
            "HEADERS whose padding is longer than it", .protocolError, [RawFrame(kind: .headers, flags: 12, stream: 1, payload: [200, 1])]),
        Case("HEADERS on an even stream", .protocolError, [.headers(2, request)]),
        Case("HEADERS on a lower stream than before", .protocolError, [.headers(5, request), .headers(3, request)]),
        Case(
            "HEADERS after the request has ended", .streamClosed, [.headers(1, request, flags: whole), .headers(1, request, flags: whole)]),
        Case("DATA after the request has ended", .streamClosed, [.headers(1, request, flags: whole), .data(1, "x")]),
        Case(
            "headers that are not HPACK", .compressionError,
            [RawFrame(kind: .headers, flags: 5, stream: 1, payload: [0xff, 0xff, 0xff, 0xff])]),
        Case("an HPACK index beyond the tables", .compressionError, [RawFrame(kind: .headers, flags: 5, stream: 1, payload: [0xfe])]),
        Case(
            "an HPACK table larger than allowed", .compressionError,
            [RawFrame(kind: .headers, flags: 5, stream: 1, payload: [0x3f, 0xff, 0xff, 0x03])]),
        Case("PRIORITY on stream 0", .protocolError, [RawFrame(kind: .priority, payload: [0, 0, 0, 1, 15])]),
        Case("RST_STREAM on stream 0", .protocolError, [RawFrame(kind: .resetStream, payload: big(8))]),
        Case(
            "RST_STREAM of three bytes", .frameSizeError,
            [.headers(1, request), RawFrame(kind: .resetStream, stream: 1, payload: [0, 0, 8])]),
        Case("RST_STREAM on an idle stream", .protocolError, [RawFrame(kind: .resetStream, stream: 7, payload: big(8))]),
        Case("SETTINGS on a stream", .protocolError, [RawFrame(kind: .settings, stream: 1)]),
        Case("SETTINGS of five bytes", .frameSizeError, [RawFrame(kind: .settings, payload: [0, 0, 0, 0, 0])]),
        Case("an acknowledgement with settings", .frameSizeError, [RawFrame(kind: .settings, flags: 1, payload: [0, 3, 0, 0, 0, 1])]),
        Case("ENABLE_PUSH 2", .protocolError, [.setting(2, 2)]),
        Case("an initial window above 2^31 - 1", .flowControlError, [.setting(4, 0x8000_0000)]),
        Case("MAX_FRAME_SIZE below 2^14", .protocolError, [.setting(5, 16_383)]),
        Case("MAX_FRAME_SIZE above 2^24 - 1", .protocolError, [.setting(5, 1 << 24)]),
        Case(
            "PUSH_PROMISE from a client", .protocolError,
            [.headers(1, request), RawFrame(kind: .pushPromise, flags: 4, stream: 1, payload: big(2))]),
        Case("PING of seven bytes", .frameSizeError, [RawFrame(kind: .ping, payload: [UInt8](repeating: 0, count: 7))]),
        Case("PING on a stream", .protocolError, [RawFrame(kind: .ping, stream: 1, payload: [UInt8](repeating: 0, count: 8))]),
        Case("GOAWAY on a stream", .protocolError, [RawFrame(kind: .goAway, stream: 1, payload: big(0) + big(0))]),
        Case("WINDOW_UPDATE of 0 for the connection", .protocolError, [.windowUpdate(0, 0)]),
        // An endpoint may treat a stream error as a connection error (RFC 9113 section 5.4), and nghttp2 does so here.
        Case("WINDOW_UPDATE of 0 for a stream", .protocolError, [.headers(1, request), .windowUpdate(1, 0)]),
        Case("WINDOW_UPDATE of three bytes", .frameSizeError, [RawFrame(kind: .windowUpdate, payload: [0, 0, 1])]),
        Case("WINDOW_UPDATE on an idle stream", .protocolError, [.windowUpdate(9, 1)]),
        Case("a connection window above 2^31 - 1", .flowControlError, [.windowUpdate(0, 0x7fff_ffff)]),
        Case(
            "CONTINUATION without HEADERS", .protocolError,
            [RawFrame(kind: .continuation, flags: 4, stream: 1, payload: RawFrame.block(request))]),
        Case("another frame between HEADERS and CONTINUATION", .protocolError, [.headers(1, request, flags: 0), .data(1, "x")]),
        Case(
            "CONTINUATION of another stream", .protocolError,
            [.headers(1, request, flags: 0), RawFrame(kind: .continuation, flags: 4, stream: 3)]),
        Case(
            "a frame larger than MAX_FRAME_SIZE", .frameSizeError, [.headers(1, request), .data(1, String(repeating: "x", count: 16_385))]),
    ]

    static let streamErrors: [Case] = [
        Case("a name in upper case", .protocolError, [.headers(1, with("X-Upper", "1"), flags: whole)]),
        Case("a name with a blank", .protocolError, [.headers(1, with("x y", "1"), flags: whole)]),
        Case("a value with a line feed", .protocolError, [.headers(1, with("x-value", "a\nb"), flags: whole)]),
        Case("connection", .protocolError, [.headers(1, with("connection", "close"), flags: whole)]),
        Case("keep-alive", .protocolError, [.headers(1, with("keep-alive", "1"), flags: whole)]),
        Case("proxy-connection", .protocolError, [.headers(1, with("proxy-connection", "close"), flags: whole)]),
        Case("transfer-encoding", .protocolError, [.headers(1, with("transfer-encoding", "chunked"), flags: whole)]),
        Case("upgrade", .protocolError, [.headers(1, with("upgrade", "h2c"), flags: whole)]),
        Case("te with anything but trailers", .protocolError, [.headers(1, with("te", "gzip"), flags: whole)]),
        Case("no method", .protocolError, [.headers(1, without(":method"), flags: whole)]),
        Case("no scheme", .protocolError, [.headers(1, without(":scheme"), flags: whole)]),
        Case("no path", .protocolError, [.headers(1, without(":path"), flags: whole)]),
        Case("an empty path", .protocolError, [.headers(1, without(":path") + [(":path", "")], flags: whole)]),
        Case("a path that does not begin with a slash", .protocolError, [.headers(1, without(":path") + [(":path", "3")], flags: whole)]),
        Case("two methods", .protocolError, [.headers(1, with(":method", "POST"), flags: whole)]),
        Case("two paths", .protocolError, [.headers(1, with(":path", "/"), flags: whole)]),
        Case("two schemes", .protocolError, [.headers(1, with(":scheme", "https"), flags: whole)]),
        Case("two authorities", .protocolError, [.headers(1, with(":authority", "localhost"), flags: whole)]),
        Case("an unknown pseudo-header", .protocolError, [.headers(1, with(":x", "1"), flags: whole)]),
        Case("an answer's pseudo-header", .protocolError, [.headers(1, with(":status", "200"), flags: whole)]),
        Case("a pseudo-header after an ordinary one", .protocolError, [.headers(1, [("x", "1")] + request, flags: whole)]),
        Case("pseudo-headers in trailers", .protocolError, [.headers(1, request), .headers(1, [(":path", "/")], flags: whole)]),
        Case("trailers that do not end the stream", .protocolError, [.headers(1, request), .headers(1, [("x", "1")])]),
        Case("more than content-length says", .protocolError, [.headers(1, with("content-length", "1")), .data(1, "{}")]),
        Case("less than content-length says", .protocolError, [.headers(1, with("content-length", "3")), .data(1, "{}")]),
        Case("no body where content-length says there is", .protocolError, [.headers(1, with("content-length", "3"), flags: whole)]),
        Case(
            "two content-lengths", .protocolError, [.headers(1, with("content-length", "2") + [("content-length", "2")]), .data(1, "{}")]),
        Case("a content-length of letters", .protocolError, [.headers(1, with("content-length", "two")), .data(1, "{}")]),
        Case("a stream's window above 2^31 - 1", .flowControlError, [.headers(1, request), .windowUpdate(1, 0x7fff_ffff)]),
    ]

    /// Breaks the rules on one connection while another is in use, and returns the result.
    private func play(_ bytes: [UInt8], _ judge: (RawClient) throws -> Void) async throws {
        try await withSimulator { configuration in
            configuration.streamGate = false
        } _: { test in
            let good = try test.client()
            #expect(try good.send(test.push()).status == 200)
            let bad = try RawClient(port: test.simulator.productionPort)
            try bad.send(bytes)
            try judge(bad)
            #expect(try good.send(test.push()).status == 200)
        }
    }

    @Test("The connection ends with its error", arguments: connectionErrors)
    func connectionError(_ violation: Case) async throws {
        try await play(violation.bytes) { client in
            let goAway = try client.wait { $0.kind == RawFrame.Kind.goAway.rawValue }
            #expect(goAway?.errorCode == violation.code.rawValue)
            try client.wait { _ in false }
            #expect(client.isOver)
        }
    }

    @Test("The stream is reset with its error, and its connection goes on", arguments: streamErrors)
    func streamError(_ violation: Case) async throws {
        try await play(violation.bytes) { client in
            let reset = try client.wait { $0.kind == RawFrame.Kind.resetStream.rawValue && $0.stream == 1 }
            #expect(reset?.errorCode == violation.code.rawValue)
            let isAlive = try client.isAlive()
            #expect(isAlive)
        }
    }

    @Test(
        "The simulator ignores the frames that RFC 9113 says to ignore",
        arguments: [
            Case("an unknown frame", .noError, [RawFrame(kind: .unknown, flags: 0xff, stream: 0, payload: [1, 2, 3])]),
            Case("an unknown setting", .noError, [.setting(0x7777, 1)]),
            Case("PRIORITY", .noError, [RawFrame(kind: .priority, stream: 1, payload: [0, 0, 0, 3, 15])]),
            Case(
                "padding", .noError,
                [
                    RawFrame(kind: .headers, flags: 12, stream: 1, payload: [2] + RawFrame.block(request) + [0, 0]),
                    RawFrame(kind: .data, flags: 9, stream: 1, payload: [1, 0x7b, 0]),
                ]),
            Case(
                "an unknown error code", .noError,
                [.headers(1, request), RawFrame(kind: .resetStream, stream: 1, payload: big(0xffff_ffff))]),
            Case("trailers", .noError, [.headers(1, request), .data(1, "{}", flags: 0), .headers(1, [("x", "1")], flags: whole)]),
        ])
    func ignored(_ frames: Case) async throws {
        try await play(frames.bytes) { client in
            let isAlive = try client.isAlive()
            #expect(isAlive)
        }
    }

    @Test("The simulator closes a connection that does not begin with the preface")
    func preface() async throws {
        try await withSimulator { test in
            let bad = try RawClient(port: test.simulator.productionPort, greets: false)
            try bad.send(Array("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8))
            try bad.wait { _ in false }
            #expect(bad.isOver)
            #expect(try test.client().send(test.push()).status == 200)
        }
    }
}
