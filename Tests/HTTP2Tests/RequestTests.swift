import HTTP2
import Testing

@Suite("HTTP/2: requests and answers", .timeLimit(.minutes(5)))
struct RequestTests {
    @Test("A request arrives whole, and its answer comes back") func roundTrip() throws {
        let wire = try Wire(wantedHeaders: ["apns-id", "retry-after"])
        let stream = try wire.submit(Array(#"{"aps":{}}"#.utf8), path: "/3/device/ab12")
        try wire.exchange()

        let request = try #require(wire.requests.first)
        #expect(request.stream == stream)
        #expect(request.headers[":method"] == "POST")
        #expect(request.headers[":path"] == "/3/device/ab12")
        #expect(request.headers["apns-topic"] == "com.example.shop")
        #expect(request.headers["apns-id"] == nil)
        #expect(request.body == Array(#"{"aps":{}}"#.utf8))
        #expect(wire.client.openStreams.count == 1 && wire.server.openStreams == 1)

        var headers = response("429")
        headers.append("apns-id", "eabeae54-14a8-11e5-b60b-1697f925ec7b")
        headers.append("server", "not wanted")
        headers.append("retry-after", "5")
        try wire.server.respond(stream, headers: headers, body: Array(#"{"reason":"TooManyRequests"}"#.utf8))
        try wire.exchange()

        let answer = try #require(wire.clientEvents.answers.first)
        #expect(answer.stream == stream && answer.status == 429 && !answer.endStream)
        #expect(answer.fields["apns-id"] == "eabeae54-14a8-11e5-b60b-1697f925ec7b")
        #expect(answer.fields["retry-after"] == "5")
        #expect(answer.fields.count == 2)
        #expect(wire.clientEvents.body(of: stream) == Array(#"{"reason":"TooManyRequests"}"#.utf8))
        #expect(wire.closed == [Closed(stream, .noError, .complete)])
        #expect(wire.client.openStreams.isEmpty && wire.server.openStreams == 0)
    }

    @Test("An answer without a body ends with its headers") func emptyAnswer() throws {
        let wire = try Wire()
        let stream = try wire.submit()
        try wire.exchange()
        try wire.answer(stream)
        try wire.exchange()
        let answer = try #require(wire.clientEvents.answers.first)
        #expect(answer.stream == stream && answer.status == 200 && answer.endStream && answer.fields.isEmpty)
    }

    @Test("A request without a body is complete with its headers") func emptyRequest() throws {
        let wire = try Wire()
        let stream = try wire.client.submit(request("/"), body: [])
        #expect(wire.client.progress(of: stream) == .nothing)
        let output = try wire.client.output()
        #expect(wire.client.progress(of: stream) == .complete(position: wire.client.outputPosition))
        #expect(Frame.all(in: output).map(\.kind) == [.headers])
        try wire.server.receive(output)
        let received = wire.server.takeEvents().requests
        #expect(received.map(\.stream) == [stream] && received.map(\.body) == [[]])
    }

    @Test("Many requests share one payload and get their own answers") func sharedPayload() throws {
        let wire = try Wire()
        let payload = [UInt8](repeating: UInt8(ascii: "x"), count: 300)
        var streams: [Int32] = []
        for round in 0..<5 {
            for index in 0..<200 { streams.append(try wire.submit(payload, path: "/3/device/\(round * 200 + index)")) }
            try wire.exchange()
            // The server answers in the reverse order.
            for request in wire.requests.suffix(200).reversed() {
                let number = try #require(request.headers[":path"]?.split(separator: "/").last.flatMap { Int($0) })
                #expect(request.body == payload)
                try wire.answer(request.stream, number.isMultiple(of: 3) ? "410" : "200")
            }
            try wire.exchange()
        }
        #expect(wire.requests.count == 1000)
        #expect(Set(streams).count == 1000)
        for (number, stream) in streams.enumerated() { #expect(wire.statuses[stream] == (number.isMultiple(of: 3) ? 410 : 200)) }
        #expect(wire.closed.allSatisfy { $0.code == .noError && $0.progress == .complete })
        #expect(wire.client.openStreams.isEmpty && wire.server.openStreams == 0)
    }

    @Test("A body in many frames arrives in order", arguments: [1, 7, 1000])
    func manyFrames(frameLimit: Int) throws {
        let wire = try Wire()
        let stream = try wire.submit()
        try wire.exchange()
        let body = (0..<2000).map { UInt8(truncatingIfNeeded: $0) }
        try wire.answer(stream, "400", body: body, frameLimit: frameLimit)
        let output = try wire.server.output()
        #expect(Frame.all(in: output).filter { $0.kind == .data && !$0.payload.isEmpty }.count == (2000 + frameLimit - 1) / frameLimit)
        try wire.client.receive(output)
        #expect(wire.client.takeEvents().body(of: stream) == body)
    }

    @Test("Bytes may come one by one") func singleBytes() throws {
        let wire = try Wire()
        let stream = try wire.submit([1, 2, 3])
        for byte in try wire.client.output() { try wire.server.receive([byte]) }
        wire.serverEvents += wire.server.takeEvents()
        #expect(wire.requests.map(\.body) == [[1, 2, 3]])
        try wire.answer(stream, "200", body: [9])
        for byte in try wire.server.output() { try wire.client.receive([byte]) }
        let events = wire.client.takeEvents()
        #expect(events.statuses[stream] == 200 && events.body(of: stream) == [9])
    }

    @Test("Bodies larger than the window wait for it and arrive") func flowControl() throws {
        let wire = try Wire()
        let body = (0..<16_384).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let streams = try (0..<10).map { _ in try wire.submit(body) }
        // The connection's window holds four bodies less a byte (RFC 9113 section 6.9.2), so the other requests wait.
        try wire.clientToServer()
        #expect(wire.requests.count == 3)
        let unwritten = streams.filter { wire.client.progress(of: $0) == .incomplete }
        #expect(unwritten == Array(streams.suffix(7)))
        #expect(wire.client.pendingBytes == 10 * 16_384 - 65_535 && wire.client.remoteWindow == 0)
        try wire.exchange()
        #expect(wire.requests.map(\.stream).sorted() == streams)
        #expect(wire.requests.allSatisfy { $0.body == body })
        #expect(unwritten.allSatisfy { wire.client.progress(of: $0) != .incomplete })
        #expect(wire.client.pendingBytes == 0 && wire.client.remoteWindow > 32_768)
    }

    @Test("Bytes that wait are counted until they leave or their stream ends") func pendingBytes() throws {
        let wire = try Wire()
        #expect(wire.client.remoteWindow == 65_535)
        // Of seventeen bodies the window holds sixteen, less a byte. The seventeenth waits.
        let streams = try (0..<17).map { _ in try wire.submit([UInt8](repeating: 1, count: 4096)) }
        #expect(wire.client.pendingBytes == 17 * 4096)
        let first = try wire.client.output()
        #expect(wire.client.pendingBytes == 4097 && wire.client.remoteWindow == 0)
        let unsent = try wire.submit([1, 2, 3])
        wire.client.reset(unsent)
        #expect(wire.client.pendingBytes == 4097, "no byte of it has left, so it ends at once")
        wire.client.reset(streams[16])
        try wire.server.receive(first)
        try wire.exchange()
        #expect(wire.client.pendingBytes == 0 && wire.client.remoteWindow > 0)
        _ = try wire.submit([1, 2, 3])
        try wire.server.goAway(lastStream: streams[16])
        try wire.serverToClient()
        #expect(wire.client.pendingBytes == 0)
    }

    @Test("The client does not report interim answers") func interimAnswers() throws {
        let client = try HTTP2ClientSession()
        _ = try client.output()
        try client.receive(Frame.settings().bytes)
        let stream = try client.submit(request("/"), body: [1])
        _ = try client.output()
        // A literal `:status: 103` without indexing, by index 8 of the static table.
        let interim = Frame(kind: .headers, flags: Frame.endHeaders, stream: stream, payload: [0x08, 3] + Array("103".utf8))
        try client.receive((interim.bytes + Frame.ok(stream, endStream: true).bytes))
        #expect(client.takeEvents().statuses == [stream: 200])
        #expect(client.connectionError == nil)
    }

    @Test("Trailers do not look like a second answer") func trailersAfterBody() throws {
        let client = try HTTP2ClientSession()
        _ = try client.output()
        try client.receive(Frame.settings().bytes)
        let stream = try client.submit(request("/"), body: [1])
        _ = try client.output()
        let trailers = Frame(
            kind: .headers, flags: Frame.endHeaders | Frame.endStream, stream: stream,
            payload: [0x00, 1] + Array("x".utf8) + [1] + Array("y".utf8))
        let data = Frame(kind: .data, stream: stream, payload: [7])
        try client.receive((Frame.ok(stream, endStream: false).bytes + data.bytes + trailers.bytes))
        let events = client.takeEvents()
        #expect(events.answers.count == 1)
        #expect(events.compactMap(Closed.init) == [Closed(stream, .noError, .complete)])
    }
}
