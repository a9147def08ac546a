import HTTP2
import Testing

/// What `forEachEvent` tells in short, `takeEvents` spells out: both must be the same story.
@Suite("HTTP/2: answers that are but a status", .timeLimit(.minutes(5)))
struct AnswerNoteTests {
    private enum Told: Equatable {
        case answered(Int32, Int)
        case headers(Int32, Int)
        case closed(Int32, HTTP2ErrorCode)
        case pong(UInt64)
        case other
    }

    private func drain(_ client: HTTP2ClientSession) -> [Told] {
        var told: [Told] = []
        client.forEachEvent { note in
            switch note {
            case .answered(let stream, let status): told.append(.answered(stream, status))
            case .event(.headers(let stream, let status, _, _)): told.append(.headers(stream, status))
            case .event(.streamClosed(let stream, let code, _)): told.append(.closed(stream, code))
            case .event(.pingAck(let number)): told.append(.pong(number))
            case .event: told.append(.other)
            }
        }
        return told
    }

    /// Carries everything both ways; the client's events stay where they are.
    private func exchange(_ wire: Wire) throws {
        while true {
            let out = try wire.client.output()
            try wire.server.receive(out)
            let back = try wire.server.output()
            try wire.client.receive(back)
            if out.isEmpty, back.isEmpty { return }
        }
    }

    @Test func oneNoteForAnAnswerWithoutABodyAndEventsForAllElseInTheirOrder() throws {
        let wire = try Wire(wantedHeaders: ["retry-after"])
        let streams = try (0..<4).map { _ in try wire.submit() }
        try exchange(wire)
        #expect(drain(wire.client).isEmpty)

        try wire.answer(streams[0])
        try wire.answer(streams[1], "400", body: Array("{}".utf8))
        wire.client.ping(7)
        var headers = response("429")
        headers.append("retry-after", "5")
        try wire.server.respond(streams[2], headers: headers)
        try wire.answer(streams[3], "410")
        try exchange(wire)
        let told = drain(wire.client)
        #expect(
            told.filter { $0 != .pong(7) } == [
                .answered(streams[0], 200), .headers(streams[2], 429), .closed(streams[2], .noError), .answered(streams[3], 410),
                .headers(streams[1], 400), .other, .closed(streams[1], .noError),
            ]
                || told.filter { $0 != .pong(7) } == [
                    .answered(streams[0], 200), .headers(streams[1], 400), .headers(streams[2], 429), .closed(streams[2], .noError),
                    .answered(streams[3], 410), .other, .closed(streams[1], .noError),
                ])
        #expect(told.contains(.pong(7)))
        #expect(drain(wire.client).isEmpty && wire.client.openStreams == 0)
    }

    @Test func theSameSpeltOutTellsWhereTheRequestEnded() throws {
        let wire = try Wire()
        let stream = try wire.submit()
        try exchange(wire)
        let progress = wire.client.progress(of: stream)
        try wire.answer(stream)
        try exchange(wire)
        let events = wire.client.takeEvents()
        #expect(events.answers.map(\.status) == [200] && events.answers.map(\.endStream) == [true])
        guard case .streamClosed(stream, .noError, let written) = try #require(events.last) else {
            Issue.record("the last event is not the stream's end")
            return
        }
        #expect(written == progress && written == .complete(position: wire.client.outputPosition))
        #expect(wire.client.takeEvents().isEmpty)
    }

    /// The peer may answer before it has got the whole request: that the answer came must not wait for the stream's end, which may never come.
    @Test func anAnswerBeforeTheRequestHasLeftIsToldAtOnce() throws {
        let wire = try Wire()
        // More than the peer's window: the end of the request stays here.
        let stream = try wire.submit([UInt8](repeating: 1, count: 200_000))
        var answered = false
        while true {
            let out = try wire.client.output()
            try wire.server.receive(out)
            if !answered, wire.server.openStreams > 0 {
                answered = true
                try wire.answer(stream, "413")
            }
            let back = try wire.server.output()
            try wire.client.receive(back)
            if drain(wire.client).contains(.headers(stream, 413)) { break }
            try #require(!out.isEmpty || !back.isEmpty, "the answer was not told")
        }
        #expect(wire.client.openStreams == 1)
    }

    /// One payload for many streams is kept once, and goes with the last of them: whoever opens a slot next gets its own.
    @Test func bodiesThatComeAndGoAreNotMixedUp() throws {
        let wire = try Wire(clientLimit: 100)
        var sent: [Int32: [UInt8]] = [:]
        for round in 0..<50 {
            var payload: [UInt8] = []
            for index in 0..<7 {
                if index % 3 == 0 { payload = Array("payload \(round) \(index)".utf8) }
                let stream = try wire.submit(payload, path: "/\(round)/\(index)")
                // Some are given up before they leave, with the payload that others still need.
                if (round + index) % 5 == 0 { wire.client.reset(stream) } else { sent[stream] = payload }
            }
            try wire.exchange()
            for request in wire.requests where sent[request.stream] != nil { try wire.answer(request.stream) }
            try wire.exchange()
        }
        #expect(Dictionary(wire.requests.map { ($0.stream, $0.body) }) { $1 } == sent)
        #expect(wire.client.openStreams == 0)
    }

    @Test func fixedNamesArriveAsWritten() throws {
        let wire = try Wire()
        var headers = HeaderBlock()
        headers.append(fixed: ":method", "POST")
        headers.append(":scheme", "https")
        let path = headers.append(fixed: ":path", "/00")
        headers.append(fixed: ":authority", Array("localhost".utf8))
        headers.append(fixed: "apns-topic", "com.example.shop", indexing: .withoutIndexing)
        for digit in UInt8(ascii: "1")...UInt8(ascii: "3") {
            headers.rewriteValue(at: path) { text, start in text[start + 2] = digit }
            _ = try wire.client.submit(headers, body: [1])
        }
        try wire.exchange()
        #expect(wire.requests.map { $0.headers[":path"] } == ["/01", "/02", "/03"])
        #expect(wire.requests.allSatisfy { $0.headers["apns-topic"] == "com.example.shop" && $0.headers.count == 5 })
        #expect(headers.valueCount(at: path) == 3)
    }
}
