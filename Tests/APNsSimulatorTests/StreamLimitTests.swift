import HTTP2
import Testing

@testable import APNsSimulator

@Suite("One stream until authenticated, one after a rejection", .timeLimit(.minutes(5)))
struct StreamLimitTests {
    @Test("The limit opens with the first valid token, not before")
    func gate() async throws {
        try await withSimulator {
            $0.streams = 700; $0.streamPenalty = false
        } _: { test in
            let client = try test.client()
            #expect(try client.send(TestPush()).status == 403)
            try client.roundTrip(1)
            #expect(client.limits == [1])
            #expect(try client.send(test.push()).status == 200)
            try client.roundTrip(2)
            #expect(client.limits == [1, 700])
        }
    }

    @Test("The simulator refuses streams beyond the first that come before the limit is known; they are safe to send again")
    func refused() async throws {
        try await withSimulator { test in
            let client = try test.client()
            let streams = try (0..<5).map { _ in try client.submit(test.push()) }
            try client.run { client in streams.allSatisfy { client.closed[$0] != nil } }
            #expect(client.responses[streams[0]]?.status == 200)
            #expect(streams.dropFirst().allSatisfy { client.closed[$0] == .refusedStream })
            #expect(test.simulator.counters.requests == 1)
        }
    }

    /// Sends headers only, so that the streams stay open.
    private func open(_ streams: Range<UInt32>) -> [RawFrame] {
        streams.map { RawFrame.headers(2 * $0 + 1, StrictnessTests.request) }
    }

    private func isGoAway(_ frame: RawClient.Received) -> Bool { frame.kind == RawFrame.Kind.goAway.rawValue }

    @Test("A client that opens more streams than it acknowledged gets APNs' GOAWAY, and its earlier streams get their answers")
    func violation() async throws {
        try await withSimulator {
            $0.streams = 3
            $0.streamGate = false
        } _: { test in
            let (good, bad) = (try test.client(), try RawClient(port: test.simulator.productionPort))
            #expect(try bad.isAlive())
            try bad.send(open(0..<5))
            let goAway = try bad.wait { isGoAway($0) }
            #expect(goAway?.errorCode == HTTP2ErrorCode.refusedStream.rawValue)
            #expect(goAway.map { Array($0.payload.prefix(4)) } == big(5))
            #expect(
                goAway.map { String(decoding: $0.payload.dropFirst(8), as: UTF8.self) }
                    == "Maximum active streams violated for this endpoint.")
            try bad.send((0..<3).map { RawFrame.data(2 * $0 + 1, TestPush.alert) })
            try bad.wait { _ in false }
            let answered = bad.frames.filter { $0.kind == RawFrame.Kind.headers.rawValue }.map(\.stream)
            #expect(answered == [1, 3, 5])
            #expect(bad.frames.count { isGoAway($0) } == 1)
            #expect(try good.send(test.push()).status == 200)
        }
    }

    @Test("Streams that cross a lower limit on its way are refused one by one; once the client has acknowledged it they are a violation")
    func graceWhenLowered() async throws {
        try await withSimulator {
            $0.streams = 3
            $0.streamGate = false
        } _: { test in
            let client = try RawClient(port: test.simulator.productionPort)
            #expect(try client.isAlive())
            test.simulator.setStreams(1)
            try client.wait { $0.kind == RawFrame.Kind.settings.rawValue && $0.payload.suffix(4) == big(1)[...] }
            try client.send(open(0..<3))
            try client.roundTrip("3streams")
            let refused = client.frames.filter { $0.kind == RawFrame.Kind.resetStream.rawValue && $0.errorCode == 7 }.map(\.stream)
            #expect(refused == [3, 5])
            #expect(!client.frames.contains { isGoAway($0) })
            try client.send([RawFrame(kind: .settings, flags: RawFrame.acknowledgement)] + open(3..<4))
            #expect(try client.wait { isGoAway($0) }?.errorCode == HTTP2ErrorCode.refusedStream.rawValue)
        }
    }

    @Test("A client that uses a higher limit before it has acknowledged it violates nothing")
    func graceWhenRaised() async throws {
        try await withSimulator {
            $0.streams = 1
            $0.streamGate = false
        } _: { test in
            let client = try RawClient(port: test.simulator.productionPort)
            #expect(try client.isAlive())
            test.simulator.setStreams(3)
            try client.wait { $0.kind == RawFrame.Kind.settings.rawValue && $0.payload.suffix(4) == big(3)[...] }
            try client.send(open(0..<3))
            try client.roundTrip("3streams")
            #expect(!client.frames.contains { isGoAway($0) || $0.kind == RawFrame.Kind.resetStream.rawValue })
        }
    }

    @Test("A rejection lowers the limit to one until the next accepted push; a 410 does not", arguments: [true, false])
    func penalty(_ isOn: Bool) async throws {
        try await withSimulator {
            $0.streamPenalty = isOn
        } _: { test in
            try test.simulator.script(
                TestPush.token, [.accept, .reject(.unregistered), .reject(.badDeviceToken), .reject(.badDeviceToken), .accept])
            let client = try test.client()
            for _ in 0..<5 { _ = try client.send(test.push()) }
            try client.roundTrip(1)
            #expect(client.limits == (isOn ? [1, 1000, 1, 1000] : [1, 1000]))
        }
    }

    @Test("The server's own failures do not lower the limit, and any success raises it again")
    func others() async throws {
        try await withSimulator { test in
            try test.simulator.install(TestPush.token)
            try test.simulator.script(
                TestPush.token,
                [.accept, .reject(.serviceUnavailable), .answer(status: 500), .reject(.tooManyRequests), .answer(status: 204)])
            let client = try test.client()
            let statuses = try (0..<5).map { _ in try client.send(test.push()).status }
            #expect(statuses == [200, 503, 500, 429, 204])
            try client.roundTrip(1)
            #expect(client.limits == [1, 1000, 1, 1000])
            #expect(test.simulator.counters.accepted == 2)
            #expect(try test.simulator.inbox(TestPush.token).count == 2)
        }
    }

    @Test("A configured number of 4xx in a row ends the connection; a success between them restarts the count")
    func disconnect() async throws {
        try await withSimulator {
            $0.rejectionLimit = 3
        } _: { test in
            let bad = ScriptedAnswer.reject(.badDeviceToken)
            try test.simulator.script(
                TestPush.token, [bad, bad, .accept, bad, .reject(.unregistered), .reject(.serviceUnavailable), bad, bad], then: .repeat)
            let client = try test.client()
            let statuses = try (0..<8).map { _ in try client.send(test.push()).status }
            #expect(statuses == [400, 400, 200, 400, 410, 503, 400, 400])
            try client.run { $0.isOver }
            #expect(client.goAways.map(\.lastStream) == [15])
            #expect(client.goAways.map(\.code) == [.noError])
            #expect(try test.client().send(test.push()).status == 400)
        }
    }

    @Test("A first push that is authenticated but rejected does not open the limit")
    func rejectedFirst() async throws {
        try await withSimulator { test in
            let client = try test.client()
            #expect(try client.send(test.push().with("apns-priority", "3")).status == 400)
            #expect(try client.send(test.push().body("")).status == 400)
            try client.roundTrip(1)
            #expect(client.limits == [1])
            #expect(try client.send(test.push()).status == 200)
            try client.roundTrip(2)
            #expect(client.limits == [1, 1000])
        }
    }

    @Test("The rules without a connection")
    func rules() {
        var gate = StreamGate(streams: 10, isGated: true, isPenalised: true)
        #expect(gate.limit == 1)
        #expect(gate.answered(status: nil, isAuthenticated: false) == nil)
        #expect(gate.answered(status: nil, isAuthenticated: true) == 10)
        for status in [410, 500, 503] { #expect(gate.answered(status: status, isAuthenticated: true) == nil) }
        #expect(gate.answered(status: 400, isAuthenticated: true) == 1)
        #expect(gate.setFull(5) == nil)
        #expect(gate.answered(status: 200, isAuthenticated: true) == 5)
        #expect(gate.setFull(0) == 0)
        #expect(StreamGate(streams: 10, isGated: false, isPenalised: true).limit == 10)
    }
}
