import HTTP2
import Testing

/// `forEachEvent` reports these in short.
@Suite("HTTP/2: answers that are only a status", .timeLimit(.minutes(5)))
struct AnswerNoteTests {
    private enum Report: Equatable {
        case answered(Int32, Int)
        case headers(Int32, Int)
        case closed(Int32, HTTP2ErrorCode)
        case pong(UInt64)
        case other
    }

    private func drain(_ client: HTTP2ClientSession) -> [Report] {
        var reports: [Report] = []
        client.forEachEvent { note in
            switch note {
            case .answered(let stream, let status): reports.append(.answered(stream, status))
            case .event(.headers(let stream, let status, _, _)): reports.append(.headers(stream, status))
            case .event(.streamClosed(let stream, let code, _)): reports.append(.closed(stream, code))
            case .event(.pingAck(let number)): reports.append(.pong(number))
            case .event: reports.append(.other)
            }
        }
        return reports
    }

    /// Carries all bytes both ways and leaves the client's events in the session.
    private func exchange(_ wire: Wire) throws {
        while true {
            let out = try wire.client.output()
            try wire.server.receive(out)
            let back = try wire.server.output()
            try wire.client.receive(back)
            if out.isEmpty, back.isEmpty { return }
        }
    }

    @Test("An answer without a body is one note, and everything else is events in their order") func notes() throws {
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
        let reports = drain(wire.client)
        #expect(
            reports.filter { $0 != .pong(7) } == [
                .answered(streams[0], 200), .headers(streams[2], 429), .closed(streams[2], .noError), .answered(streams[3], 410),
                .headers(streams[1], 400), .other, .closed(streams[1], .noError),
            ]
                || reports.filter { $0 != .pong(7) } == [
                    .answered(streams[0], 200), .headers(streams[1], 400), .headers(streams[2], 429), .closed(streams[2], .noError),
                    .answered(streams[3], 410), .other, .closed(streams[1], .noError),
                ])
        #expect(reports.contains(.pong(7)))
        #expect(drain(wire.client).isEmpty && wire.client.openStreams.isEmpty)
    }

    /// The peer may answer before it has the whole request. The report of the answer must not wait for the end of the stream, which may
    /// never come.
    @Test("The client reports an answer at once even if the request has not all left") func earlyAnswer() throws {
        let wire = try Wire()
        // More than the peer's window, so the end of the request stays in the client.
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
            try #require(!out.isEmpty || !back.isEmpty, "the client did not report the answer")
        }
        #expect(wire.client.openStreams.count == 1)
    }

    /// The client keeps one payload for many streams until the last of them ends. A new stream in a freed slot gets its own payload.
    @Test("Requests that come and go keep their own bodies") func ownBodies() throws {
        let wire = try Wire()
        var sent: [Int32: [UInt8]] = [:]
        for round in 0..<50 {
            var payload: [UInt8] = []
            for index in 0..<7 {
                if index % 3 == 0 { payload = Array("payload \(round) \(index)".utf8) }
                let stream = try wire.submit(payload, path: "/\(round)/\(index)")
                // Some requests are reset before they leave, while others still need their payload.
                if (round + index) % 5 == 0 { wire.client.reset(stream) } else { sent[stream] = payload }
            }
            try wire.exchange()
            for request in wire.requests where sent[request.stream] != nil { try wire.answer(request.stream) }
            try wire.exchange()
        }
        #expect(Dictionary(wire.requests.map { ($0.stream, $0.body) }) { $1 } == sent)
        #expect(wire.client.openStreams.isEmpty)
    }

    @Test("Fixed header names arrive as written") func fixedNames() throws {
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
