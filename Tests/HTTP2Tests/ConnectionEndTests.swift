import HTTP2
import Testing

@Suite("HTTP/2: how streams and connections end", .timeLimit(.minutes(5)))
struct ConnectionEndTests {
    @Test("GOAWAY refuses the streams above its last stream, and the server answers the others") func aboveLast() throws {
        let wire = try Wire()
        let streams = try (0..<6).map { _ in try wire.submit() }
        try wire.clientToServer()
        try wire.server.goAway(lastStream: streams[2], code: .noError, debug: Array(#"{"reason":"Shutdown"}"#.utf8))
        for stream in streams.prefix(3) { try wire.answer(stream) }
        try wire.exchange()

        #expect(wire.clientEvents.goAways == [GoAway(lastStream: streams[2], code: .noError, debug: #"{"reason":"Shutdown"}"#)])
        #expect(wire.closed.filter { $0.code == .refusedStream }.map(\.stream).sorted() == Array(streams.suffix(3)))
        #expect(wire.closed.filter { $0.code == .noError }.map(\.stream) == Array(streams.prefix(3)))
        #expect(wire.client.isOver)
        #expect(!wire.client.wantsRead, "every request has its answer, so the caller may close the socket")
    }

    @Test("The server does not report requests that came after the one that caused a GOAWAY") func unreported() throws {
        let wire = try Wire()
        let streams = try (0..<4).map { _ in try wire.submit() }
        try wire.server.receive(wire.client.output())
        var taken: [Int32] = []
        try wire.server.forEachEvent { event in
            guard case .request(let stream, _, _) = event else { return }
            taken.append(stream)
            if stream == streams[1] { try wire.server.goAway(lastStream: streams[0]) }
        }
        #expect(taken == Array(streams.prefix(2)))
        #expect(wire.server.takeEvents().requests.isEmpty)
    }

    @Test("A GOAWAY with the highest number refuses nothing, and the server never raises the number later") func noticeOnly() throws {
        let wire = try Wire()
        let early = try wire.submit()
        try wire.clientToServer()
        try wire.server.goAway(lastStream: .max, code: .enhanceYourCalm, debug: Array("soon".utf8))
        // The request leaves before the client has read the GOAWAY.
        let late = try wire.submit()
        try wire.clientToServer()
        for stream in [early, late] { try wire.answer(stream) }
        try wire.exchange()
        #expect(wire.statuses == [early: 200, late: 200])
        #expect(wire.clientEvents.goAways == [GoAway(lastStream: .max, code: .enhanceYourCalm, debug: "soon")])
        #expect(wire.server.connectionError == nil && !wire.server.isFinished)

        try wire.server.goAway(lastStream: .max)
        try wire.server.goAway(lastStream: late + 1)
        try wire.server.goAway(lastStream: .max)
        let sent = Frame.all(in: try wire.server.output())
        #expect(sent.map(\.kind) == [.goAway, .goAway])
        #expect(sent.map { Array($0.payload.prefix(4)) } == [[0x7f, 0xff, 0xff, 0xff], [0, 0, 0, UInt8(late)]])
        #expect(wire.server.isFinished)
    }

    @Test("A GOAWAY of the server itself is no connection error") func ownGoAway() throws {
        let wire = try Wire()
        try wire.server.goAway(code: .enhanceYourCalm)
        try wire.exchange()
        #expect(wire.clientEvents.goAways.map(\.code) == [.enhanceYourCalm])
        #expect(wire.server.connectionError == nil && wire.server.isFinished)
    }

    @Test("GOAWAY refuses requests that have not left at once") func notLeft() throws {
        let wire = try Wire()
        let running = try wire.submit()
        try wire.exchange()
        let waiting = try (0..<3).map { _ in try wire.submit() }
        try wire.client.receive(Frame.goAway(lastStream: Int32.max, code: 0).bytes)
        wire.clientEvents += wire.client.takeEvents()
        #expect(wire.closed == waiting.map { Closed($0, .refusedStream, .nothing) })
        #expect(wire.client.openStreams.count == 1)

        try wire.answer(running)
        try wire.exchange()
        #expect(wire.requests.map(\.stream) == [running])
        #expect(wire.closed.last == Closed(running, .noError, .complete))
        #expect(wire.closed.count == 4, "each stream ends once")
        #expect(!wire.client.wantsRead)
    }

    @Test("GOAWAY may come twice with a lower number") func goAwayMayComeTwiceWithALowerNumber() throws {
        let wire = try Wire()
        let streams = try (0..<4).map { _ in try wire.submit() }
        try wire.clientToServer()
        try wire.client.receive(Frame.goAway(lastStream: Int32.max, code: 0).bytes)
        wire.clientEvents += wire.client.takeEvents()
        #expect(wire.closed.isEmpty)
        try wire.client.receive(Frame.goAway(lastStream: streams[1], code: 0).bytes)
        wire.clientEvents += wire.client.takeEvents()
        #expect(wire.closed.map(\.stream).sorted() == Array(streams.suffix(2)))
        #expect(wire.client.openStreams.sorted() == Array(streams.prefix(2)))
    }

    @Test("A reset by the peer says whether it processed the request") func peerReset() throws {
        let wire = try Wire()
        let streams = try (0..<3).map { _ in try wire.submit() }
        try wire.exchange()
        wire.server.reset(streams[0], .refusedStream)
        wire.server.reset(streams[1], .internalError)
        try wire.exchange()
        #expect(wire.closed == [Closed(streams[0], .refusedStream, .complete), Closed(streams[1], .internalError, .complete)])
        #expect(wire.client.openStreams.count == 1)
    }

    @Test("A reset by the client reaches the peer and frees the slot") func ourResetReachesThePeerAndFreesTheSlot() throws {
        let wire = try Wire()
        let stream = try wire.submit()
        try wire.exchange()
        wire.client.reset(stream, .cancel)
        wire.client.reset(99, .cancel)
        try wire.exchange()
        #expect(wire.closed == [Closed(stream, .cancel, .complete)])
        #expect(wire.client.openStreams.isEmpty)
        #expect(wire.serverEvents.closed == [stream: .cancel])
        #expect(try !wire.server.respond(stream, headers: response("200")), "the stream is gone")
        wire.client.reset(stream, .cancel)
        try wire.exchange()
        #expect(wire.closed.count == 1)
    }

    @Test("A lost connection leaves the progress of its open streams") func openList() throws {
        let wire = try Wire()
        let sent = try wire.submit()
        _ = try wire.client.output()
        let position = wire.client.outputPosition
        let large = try wire.client.submit(request("/"), body: [UInt8](repeating: 0, count: 100_000))
        _ = try wire.client.output()
        let late = try wire.submit()
        #expect(wire.client.openStreams.sorted() == [sent, large, late])
        #expect(wire.client.progress(of: sent) == .complete(position: position))
        #expect(wire.client.progress(of: large) == .incomplete)
        #expect(wire.client.progress(of: late) == .nothing)
    }

    @Test("Both sides answer PINGs, and a PING overtakes bodies") func answersPings() throws {
        let wire = try Wire()
        wire.client.ping(0x0102_0304_0506_0708)
        wire.server.ping(42)
        try wire.exchange()
        #expect(wire.clientEvents.pings == [0x0102_0304_0506_0708])
        #expect(wire.serverEvents.pings == [42])

        _ = try wire.submit()
        wire.client.ping(1)
        #expect(Frame.all(in: try wire.client.output()).first?.kind == .ping)
    }

    @Test("A client that leaves sends GOAWAY") func leavingClient() throws {
        let wire = try Wire()
        let stream = try wire.submit()
        try wire.exchange()
        try wire.client.goAway()
        let farewell = try wire.client.output()
        #expect(
            Frame.all(in: farewell).map { [Int($0.kind.rawValue), Int($0.errorCode ?? .max)] } == [[Int(Frame.Kind.goAway.rawValue), 0]])
        try wire.server.receive(farewell)
        #expect(wire.client.isOver)
        try wire.answer(stream)
        try wire.exchange()
        #expect(wire.closed == [Closed(stream, .noError, .complete)])
        #expect(!wire.client.wantsRead)
    }

    @Test("Gathered output stops near its limit") func outputLimit() throws {
        let wire = try Wire()
        for _ in 0..<50 { _ = try wire.submit([UInt8](repeating: 1, count: 1000)) }
        var buffer: [UInt8] = []
        #expect(try wire.client.gatherOutput(into: &buffer, limit: 16_384))
        #expect(buffer.count >= 16_384 && buffer.count < 16_384 + 1100)
        #expect(wire.client.outputPosition >= Int64(buffer.count))
        #expect(try !wire.client.gatherOutput(into: &buffer, limit: .max), "nothing is left")
        let frames = Frame.all(in: buffer)
        #expect(frames.count { $0.kind == .headers } == 50 && frames.count { $0.kind == .data } == 50)
    }
}
