import HTTP2
import Testing

@Suite("HTTP/2: the peer's stream limit", .timeLimit(.minutes(5)))
struct StreamLimitTests {
    @Test("nghttp2 holds no request back before SETTINGS arrive") func beforeSettings() throws {
        // By default nghttp2 would send 100 and hold back the others (`nghttp2_option_set_peer_max_concurrent_streams` in nghttp2.h).
        let client = try HTTP2ClientSession()
        for _ in 0..<150 { _ = try client.submit(request("/"), body: [1]) }
        #expect(Frame.all(in: try client.output()).count { $0.kind == .headers } == 150)
    }

    @Test("SETTINGS without a limit set none") func settingsWithoutALimit() throws {
        let client = try HTTP2ClientSession()
        try client.receive(Frame.settings([(3, 3)]).bytes)
        #expect(client.takeEvents().settings == [3])
        let other = try HTTP2ClientSession()
        try other.receive(Frame.settings().bytes)
        #expect(other.takeEvents().settings == [Int(UInt32.max)])
    }

    @Test("The limit may rise and fall while streams are open") func risesAndFalls() throws {
        var settings = HTTP2ServerSettings()
        settings.maxConcurrentStreams = 10
        let wire = try Wire(settings: settings)
        let first = try (0..<10).map { _ in try wire.submit() }
        try wire.exchange()

        try wire.server.updateSettings(maxConcurrentStreams: 1)
        try wire.exchange()
        #expect(wire.clientEvents.settings == [10, 1])
        #expect(wire.closed.isEmpty, "lowering the limit ends nothing")
        for stream in first { try wire.answer(stream) }
        try wire.exchange()
        #expect(wire.client.openStreams.isEmpty)

        try wire.server.updateSettings(maxConcurrentStreams: 3)
        try wire.exchange()
        #expect(wire.clientEvents.settings == [10, 1, 3])
        for _ in 0..<3 { _ = try wire.submit() }
        try wire.exchange()
        #expect(wire.requests.count == 13)
    }

    @Test("The client can withdraw a request that a lower limit overtook without a trace") func withdrawn() throws {
        let wire = try Wire()
        let running = try wire.submit()
        try wire.exchange()
        let overtaken = try wire.submit()
        // The limit falls before the second request has left, so nghttp2 holds it back.
        try wire.server.updateSettings(maxConcurrentStreams: 1)
        try wire.serverToClient()
        try wire.exchange()
        #expect(wire.client.progress(of: overtaken) == .nothing)
        #expect(wire.client.progress(of: running) != .nothing)

        wire.client.reset(overtaken)
        try wire.exchange()
        #expect(wire.closed == [Closed(overtaken, .cancel, .nothing)])
        try wire.answer(running)
        try wire.exchange()
        // Now that the slot is free, nghttp2 looks at the cancelled request again. It must not send it, and the client must not report it
        // twice.
        let next = try wire.submit()
        try wire.exchange()
        #expect(wire.requests.map(\.stream) == [running, next])
        #expect(wire.closed.map(\.stream) == [overtaken, running])
        try wire.answer(next)
        try wire.exchange()
        #expect(wire.closed.map(\.stream) == [overtaken, running, next])
        #expect(wire.client.openStreams.isEmpty)
    }

    @Test("The server keeps its limit against a client that ignores it") func ignoredLimit() throws {
        var settings = HTTP2ServerSettings()
        settings.maxConcurrentStreams = 2
        let server = try HTTP2ServerSession(settings: settings)
        // A client that never reads our SETTINGS knows no limit.
        let rude = try HTTP2ClientSession()
        for _ in 0..<5 { _ = try rude.submit(request("/"), body: [1]) }
        try server.receive(try rude.output())
        let refused = Frame.all(in: try server.output()).filter { $0.kind == .resetStream && $0.errorCode == 7 }
        #expect(refused.count == 3)
        #expect(server.openStreams == 2)
    }

    @Test("Every SETTINGS frame carries the limit of its moment") func settingsFrames() throws {
        var settings = HTTP2ServerSettings()
        settings.maxConcurrentStreams = 7
        let server = try HTTP2ServerSession(settings: settings)
        try server.updateSettings(maxConcurrentStreams: 1)
        try server.updateSettings(initialWindowSize: 0)
        try server.updateSettings(maxConcurrentStreams: 1000)
        let client = try HTTP2ClientSession()
        try client.receive(try server.output())
        var seen: [Int] = []
        for event in client.takeEvents() {
            if case .settings(let limit) = event { seen.append(limit) }
        }
        #expect(seen == [7, 1, 1, 1000])
    }
}
