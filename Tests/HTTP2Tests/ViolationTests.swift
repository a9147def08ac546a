import HTTP2
import TestSupport
import Testing

@Suite("HTTP/2: a peer that breaks the rules", .timeLimit(.minutes(5)))
struct ViolationTests {
    private func connectedClient() throws -> (HTTP2ClientSession, stream: Int32) {
        let client = try HTTP2ClientSession(maximumResponseBody: 1000)
        try client.receive(Frame.settings().bytes + Frame(kind: .settings, flags: Frame.acknowledgement).bytes)
        let stream = try client.submit(request("/"), body: [1])
        _ = try client.output()
        _ = client.takeEvents()
        return (client, stream)
    }

    @Test(
        "Bytes that are not HTTP/2 end the connection with their error",
        arguments: [
            (name: "HTTP/1.1", bytes: Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)),
            (name: "zeros", bytes: [UInt8](repeating: 0, count: 64)),
            (name: "ones", bytes: [UInt8](repeating: 0xff, count: 64)),
            (name: "DATA on stream 0", bytes: Frame(kind: .data, payload: [1]).bytes),
            (name: "DATA on an idle stream", bytes: Frame(kind: .data, stream: 77, payload: [1]).bytes),
            (name: "DATA before the headers", bytes: Frame(kind: .data, stream: 1, payload: [1]).bytes),
            (name: "a pushed stream", bytes: Frame(kind: .pushPromise, flags: 4, stream: 1, payload: [0, 0, 0, 2, 0x88]).bytes),
            (name: "a PING of seven bytes", bytes: Frame(kind: .ping, payload: [UInt8](repeating: 0, count: 7)).bytes),
            (name: "a WINDOW_UPDATE of zero", bytes: Frame(kind: .windowUpdate, payload: [0, 0, 0, 0]).bytes),
            (name: "headers that are not HPACK", bytes: Frame(kind: .headers, flags: 4, stream: 1, payload: [0x80]).bytes),
            (name: "a SETTINGS of an odd size", bytes: Frame(kind: .settings, payload: [1]).bytes),
        ])
    func notHTTP2(name: String, bytes: [UInt8]) throws {
        let (client, stream) = try connectedClient()
        try client.receive(bytes)
        let goAway = Frame.all(in: try client.output()).first { $0.kind == .goAway }
        #expect(goAway?.errorCode ?? 0 != 0)
        #expect(client.connectionError?.rawValue == goAway?.errorCode)
        #expect(client.isOver)
        #expect(!client.wantsRead)
        // In every case the caller learns of the stream: from an event, or from the list of open streams.
        let closed = client.takeEvents().compactMap(Closed.init).map(\.stream)
        #expect(closed + client.openStreams == [stream])
    }

    @Test(
        "A malformed answer resets only its stream",
        arguments: [
            (name: "no status", frames: [Frame(kind: .headers, flags: 5, stream: 1, payload: [0x00, 1, 0x78, 1, 0x79])]),
            (name: "a status of letters", frames: [Frame(kind: .headers, flags: 5, stream: 1, payload: [0x08, 3, 0x61, 0x62, 0x63])]),
            (name: "a name in upper case", frames: [Frame(kind: .headers, flags: 5, stream: 1, payload: [0x88, 0x00, 1, 0x58, 1, 0x79])]),
            (
                name: "a length that lies",
                frames: [
                    Frame(kind: .headers, flags: 4, stream: 1, payload: [0x88, 0x0f, 0x0d, 1, 0x35]),
                    Frame(kind: .data, flags: 1, stream: 1, payload: [1]),
                ]
            ),
        ])
    func malformedAnswer(name: String, frames: [Frame]) throws {
        let (client, stream) = try connectedClient()
        try client.receive(frames.flatMap(\.bytes))
        let reset = Frame.all(in: try client.output()).first { $0.kind == .resetStream }
        #expect(reset?.errorCode == HTTP2ErrorCode.protocolError.rawValue)
        #expect(client.takeEvents().compactMap(Closed.init) == [Closed(stream, .protocolError, .complete)])
        #expect(client.connectionError == nil && !client.isOver)
    }

    @Test("An error of the library for a flood is the peer's fault", arguments: [Frame.Kind.ping, .continuation])
    func flood(kind: Frame.Kind) throws {
        let (client, stream) = try connectedClient()
        var bytes: [UInt8] = []
        switch kind {
        case .ping: for _ in 0..<2_000 { bytes += Frame(kind: .ping, payload: [UInt8](repeating: 1, count: 8)).bytes }
        default:
            bytes = Frame(kind: .headers, stream: stream, payload: [0x88]).bytes
            for _ in 0..<20 { bytes += Frame(kind: .continuation, stream: stream).bytes }
        }
        let error = #expect(throws: HTTP2Error.self) { try client.receive(bytes) }
        #expect(error?.isPeersFault == true)
    }

    @Test("The client cuts off an endless answer") func endlessAnswer() throws {
        let (client, stream) = try connectedClient()
        try client.receive(Frame.ok(stream, endStream: false).bytes)
        for _ in 0..<20 { try client.receive(Frame(kind: .data, stream: stream, payload: [UInt8](repeating: 0, count: 100)).bytes) }
        let resets = Frame.all(in: try client.output()).filter { $0.kind == .resetStream }
        #expect(resets.map(\.errorCode) == [HTTP2ErrorCode.cancel.rawValue])
        let events = client.takeEvents()
        #expect(events.body(of: stream).count == 1000)
        #expect(events.compactMap(Closed.init) == [Closed(stream, .cancel, .complete)])
    }

    @Test("The server reports a body beyond its bound at once and drops the rest") func largeBody() throws {
        var settings = HTTP2ServerSettings()
        settings.maximumBody = 5_000
        let wire = try Wire(settings: settings)
        let within = try wire.submit([UInt8](repeating: 1, count: 5_000))
        let beyond = try wire.submit([UInt8](repeating: 1, count: 5_001))
        let endless = try wire.submit([UInt8](repeating: 1, count: 200_000))
        try wire.exchange()
        #expect(wire.requests.map(\.stream) == [within, beyond, endless])
        #expect(wire.requests[1].body.count == 5_001)
        #expect((5_001...5_000 + 16_384).contains(wire.requests[2].body.count))
        for (stream, body) in [(within, []), (beyond, []), (endless, Array("no".utf8))] { try wire.answer(stream, "413", body: body) }
        try wire.exchange()
        #expect(wire.statuses == [within: 413, beyond: 413, endless: 413])
        #expect(wire.clientEvents.body(of: endless) == Array("no".utf8))
        #expect(Set(wire.closed.map(\.code)) == [.noError])
        #expect(wire.server.openStreams == 0)
        #expect(wire.requests.count == 3, "the server reports none twice")
        let next = try wire.submit()
        try wire.exchange()
        #expect(wire.requests.last?.stream == next)
    }

    @Test("The server answers a request that it cut before the request has ended") func cutRequest() throws {
        var settings = HTTP2ServerSettings()
        settings.maximumBody = 5_000
        let wire = try Wire(settings: settings)
        let stream = try wire.submit([UInt8](repeating: 1, count: 200_000))
        try wire.clientToServer()
        #expect(wire.requests.map(\.stream) == [stream])
        try wire.answer(stream, "413", body: Array("no".utf8))
        try wire.exchange()
        #expect(wire.statuses == [stream: 413])
        #expect(wire.closed.map(\.code) == [.noError])
        #expect(wire.closed.map(\.progress) == [.incomplete])
        #expect(wire.server.openStreams == 0 && wire.server.connectionError == nil)
    }

    @Test("The server refuses headers beyond its bound") func largeHeaders() throws {
        let wire = try Wire()
        var headers = request("/")
        for index in 0..<80 { headers.append("x-\(index)", String(repeating: "v", count: 100)) }
        let beyond = try wire.client.submit(headers, body: [1])
        let within = try wire.submit()
        try wire.exchange()
        #expect(wire.requests.map(\.stream) == [within])
        #expect(wire.closed.map { $0.code } == [.enhanceYourCalm])
        #expect(wire.closed.map { $0.stream } == [beyond])
        #expect(wire.server.connectionError == nil)
    }

    @Test(
        "The server refuses a client that does not speak HTTP/2",
        arguments: ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnot a frame at all"])
    func wrongGreeting(greeting: String) throws {
        let server = try HTTP2ServerSession()
        do throws(HTTP2Error) {
            try server.receive(Array(greeting.utf8))
        } catch {
            // nghttp2 sends nothing if the bytes do not begin with the preface (RFC 9113 section 3.4).
            guard case .library = error.code else { return #expect(Bool(false), "\(error)") }
            return #expect(server.takeEvents().isEmpty)
        }
        #expect(Frame.all(in: try server.output()).contains { $0.kind == .goAway && $0.errorCode != 0 })
        #expect(server.connectionError != nil)
        #expect(server.takeEvents().isEmpty)
    }

    @Test("The server resets a request without a path") func missingPath() throws {
        let wire = try Wire()
        var headers = HeaderBlock()
        headers.append(":method", "POST")
        headers.append(":scheme", "https")
        let stream = try wire.client.submit(headers, body: [1])
        try wire.exchange()
        #expect(wire.requests.isEmpty)
        #expect(wire.closed == [Closed(stream, .protocolError, .complete)])
    }

    @Test("No bytes make a session trap") func randomBytes() throws {
        var generator = SeededGenerator(seed: 7)
        for _ in 0..<2_000 {
            let (client, _) = try connectedClient()
            let server = try HTTP2ServerSession()
            var frames: [UInt8] = []
            for _ in 0..<8 {
                let kind = Frame.Kind(rawValue: UInt8(generator.next() % 10)) ?? .data
                let payload = (0..<Int(generator.next() % 40)).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
                frames +=
                    Frame(
                        kind: kind, flags: UInt8(truncatingIfNeeded: generator.next()), stream: Int32(generator.next() % 4),
                        payload: payload
                    ).bytes
            }
            // nghttp2 may give the connection up. The promise is that nothing crashes and that both sessions still answer calls.
            for bytes in [frames, Array(frames.dropLast(Int(generator.next() % 20)))] {
                _ = try? client.receive(bytes)
                _ = try? server.receive((Frame.preface + Frame.settings().bytes + bytes))
                _ = try? client.output()
                _ = try? server.output()
            }
            _ = (client.takeEvents(), server.takeEvents(), client.openStreams, client.wantsRead, server.isFinished)
        }
    }
}
