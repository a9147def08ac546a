import HTTP2
import PushModel
import SystemIO
import TestSupport
import Testing

@testable import APNs

@Suite("Answers", .timeLimit(.minutes(5)))
struct AnswerTests {
    struct Case: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let answer: @Sendable (ServerHand, Int32) -> Void
        let result: APNsAnswer.Result

        init(_ name: String, _ result: APNsAnswer.Result, _ answer: @escaping @Sendable (ServerHand, Int32) -> Void) {
            (testDescription, self.answer, self.result) = (name, answer, result)
        }
    }

    @Test(
        "The client understands every kind of answer",
        arguments: [
            Case("a body in many frames", .response(status: 410, reason: "Unregistered", timestamp: 1_700_000_000_123, retryAfter: nil)) {
                $0.answer($1, 410, text: #"{"reason":"Unregistered","timestamp":1700000000123}"#, frameLimit: 3)
            },
            Case("no body", .response(status: 400, reason: nil, timestamp: nil, retryAfter: nil)) { $0.answer($1, 400, text: "") },
            Case("a body that is not JSON", .response(status: 404, reason: nil, timestamp: nil, retryAfter: nil)) {
                $0.answer($1, 404, text: "<html>no</html>")
            },
            Case("an unknown reason", .response(status: 418, reason: "Teapot", timestamp: nil, retryAfter: nil)) {
                $0.answer($1, 418, text: #"{"more":{"a":[]},"reason":"Teapot"}"#)
            },
            Case(
                "control characters in the reason",
                .response(status: 400, reason: "Bad\u{fffd}To\u{fffd}ken\u{fffd}", timestamp: nil, retryAfter: nil)
            ) { $0.answer($1, 400, text: #"{"reason":"Bad\u0000To\nken\u202e"}"#) },
            Case("a reason that is no UTF-8", .response(status: 400, reason: nil, timestamp: nil, retryAfter: nil)) {
                $0.answer($1, 400, text: #"{"reason":"Bad\ud800Token"}"#)
            },
            Case("an endless body", .response(status: 400, reason: nil, timestamp: nil, retryAfter: nil)) {
                $0.answer($1, 400, text: #"{"reason":"\#(String(repeating: "x", count: 20_000))"}"#)
            },
            Case("retry-after", .response(status: 429, reason: "TooManyRequests", timestamp: nil, retryAfter: .seconds(7))) {
                $0.answer($1, 429, text: #"{"reason":"TooManyRequests"}"#, headers: [("retry-after", "7")])
            },
            Case("retry-after that is a date", .response(status: 429, reason: nil, timestamp: nil, retryAfter: nil)) {
                $0.answer($1, 429, text: "", headers: [("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT")])
            },
            Case("200 with an id in capitals and a body", .accepted) {
                $0.answer($1, 200, text: "{}", headers: [("apns-id", "03FF9497-8A6B-0000-0000-000000000000")])
            },
            Case("a reset that is no refusal", .unknown(.streamReset)) { $0.reset($1, .internalError) },
        ])
    func everyKindOfAnswerIsUnderstood(_ one: Case) async throws {
        let server = try ScriptedServer { request, hand in one.answer(hand, request.stream) }
        try await withPool(server) { bench in
            bench.submit(.make(1))
            let answer = try await bench.next()[1]?.answers.first
            #expect(answer?.result == one.result)
            #expect(answer?.sentAt != nil)
        }
    }

    @Test("The client assigns answers by their stream, in any order")
    func answersAreToldApartByTheirStreamWhateverTheirOrder() async throws {
        let server = try ScriptedServer { request, hand in if request.index == 0 { hand.accept(request) } }
        try await withPool(server) { bench in
            bench.submit(.make(101))
            let requests = try await server.requests.next(101).dropFirst()
            let connection = try await server.connections.next()
            connection.perform { hand in
                for request in requests.reversed() { hand.answer(request.stream, 400 + request.index % 7, "R\(request.index)") }
            }
            let batch = try await bench.next()[1]
            for index in 1...100 {
                #expect(batch?[index] == .response(status: 400 + index % 7, reason: "R\(index)", timestamp: nil, retryAfter: nil))
            }
        }
    }

    @Test("Error bodies beyond the receive window keep coming", arguments: [(10, 100), (1, 1000)])
    func errorBodiesBeyondTheReceiveWindowKeepComing(rounds: Int, requests: Int) async throws {
        // 1000 answers of 200 bytes: three times the window that the peer may fill before the client sends WINDOW_UPDATE.
        let padding = String(repeating: "x", count: 170)
        let server = try ScriptedServer { request, hand in
            hand.answer(request.stream, 400, text: #"{"reason":"BadPriority","more":"\#(padding)"}"#)
        }
        try await withPool(server) { bench in
            for round in 0..<rounds {
                bench.submit(.make(requests, tag: UInt64(round)))
                let batch = try #require(try await bench.next()[UInt64(round)])
                let understood = batch.answers.count {
                    $0.result == .response(status: 400, reason: "BadPriority", timestamp: nil, retryAfter: nil)
                }
                #expect(understood == requests, "\(batch.answers.last.map { "\($0.result)" } ?? "")")
            }
            #expect(Set(server.requests.waiting.map(\.connection)) == [1])
        }
    }

    /// Dates that are exactly a minute ahead of the pool's clock, and waits far beyond a day.
    @Test(
        "Retry-After may be a date and may be long",
        arguments: [
            ("Sun, 06 Nov 1994 08:50:37 GMT", Duration.seconds(60)), ("Sunday, 06-Nov-94 08:50:37 GMT", .seconds(60)),
            ("Sun Nov  6 08:50:37 1994", .seconds(60)), ("Thu, 06 Nov 2094 08:49:37 GMT", .seconds(86_400)), ("604800", .seconds(86_400)),
        ])
    func retryDates(text: String, wait: Duration) async throws {
        let server = try ScriptedServer { request, hand in hand.answer(request.stream, 503, text: "", headers: [("retry-after", text)]) }
        try await withPool(server, { $0.clock = APNsClock(now: { .now }, wall: { 784_111_777_000 }) }) { bench in
            bench.submit(.make(1))
            let batch = try await bench.next()[1]
            #expect(batch?[0] == .response(status: 503, reason: nil, timestamp: nil, retryAfter: wait))
        }
    }
}

@Suite("Silence", .timeLimit(.minutes(5)))
struct SilenceTests {
    @Test("An unanswered request is unknown at its deadline, and the client resets its stream")
    func anUnansweredRequestIsUnknownAtItsDeadlineAndItsStreamIsReset() async throws {
        let server = try ScriptedServer(ScriptedServer.Behaviour(streams: 1)) { request, hand in
            if request.index != 1 { hand.accept(request) }
        }
        let time = TestTime()
        try await withPool(server, { $0.clock = time.clock }) { bench in
            bench.submit(.make(3))
            _ = try await server.requests.next(2)
            // Past a request's timeout, but not past the time that the third request may wait for a stream.
            time.set(.seconds(30))
            try await server.connections.next().roundTrip()
            let batch = try await bench.next()[1]
            #expect(batch?[1] == .unknown(.timedOut))
            // With one stream allowed, the third went out only because the second was reset.
            #expect(batch?[0] == .accepted)
            #expect(batch?[2] == .accepted)
            let reset = try await server.resets.next()
            #expect(reset.code == .cancel)
        }
    }

    @Test("The client awaits sent requests beyond their expiry and does not blame the connection") func sentExpiry() async throws {
        let server = try ScriptedServer { request, hand in if request.index == 0 { hand.accept(request) } }
        let time = TestTime()
        try await withPool(
            server,
            {
                $0.clock = time.clock
                $0.requestTimeout = .seconds(3600)
            }
        ) { bench in
            bench.submit(.make(11, expiresIn: 60_000))
            let sent = try await server.requests.next(11)
            let connection = try await server.connections.next()
            time.set(.seconds(61))
            try await connection.roundTrip()
            try await connection.roundTrip()
            connection.perform { hand in for request in sent.dropFirst() { hand.accept(request) } }
            let batch = try await bench.next()[1]
            #expect(batch?.acceptedCount == 11)
            await bench.pool.shutdown(deadline: .zero)
            #expect(bench.pool.snapshot().totals.timedOut == 0)
            #expect(bench.pool.snapshot().totals.retirements["timeouts"] == nil)
            #expect(server.resets.waiting.isEmpty)
        }
    }

    @Test("The client stops partly sent requests at their expiry and does not blame the connection") func partlySent() async throws {
        // A stream's window holds a part of a body, and the server grants no more while it reads nothing.
        var behaviour = ScriptedServer.Behaviour()
        behaviour.streamWindow = 1000
        let server = try ScriptedServer(behaviour)
        let proxy = try FaultProxy(port: server.port)
        let time = TestTime()
        let bench = try PoolBench(port: proxy.port) {
            $0.clock = time.clock
            $0.requestTimeout = .seconds(3600)
        }
        bench.submit(.make(1, tag: 1))
        _ = try await bench.next()
        proxy.set(.paused)
        bench.submit(.make(200, tag: 2, expiresIn: 20_000, bytes: 4096))
        while bench.pool.snapshot().totals.submitted < 15 { await Task.yield() }
        time.set(.seconds(21))
        proxy.set(.forwarding)
        let batch = try #require(try await bench.next()[2])
        #expect(batch.answers.allSatisfy { $0.result == .stopped(.expired) && $0.sentAt == nil })
        bench.submit(.make(1, tag: 3))
        let next = try await bench.next()[3]
        #expect(next?[0] == .accepted)
        #expect(server.requests.waiting.map(\.tag) == [1, 3])
        await bench.pool.shutdown(deadline: .zero)
        #expect(bench.pool.snapshot().totals.timedOut == 0)
        #expect(bench.pool.snapshot().totals.retirements["timeouts"] == nil)
        #expect(server.connections.waiting.count == 1)
        server.stop()
        proxy.stop()
    }

    @Test("A late answer changes nothing") func lateAnswer() async throws {
        let server = try ScriptedServer { request, hand in if request.index == 0 { hand.accept(request) } }
        let time = TestTime()
        try await withPool(server, { $0.clock = time.clock }) { bench in
            bench.submit(.make(2))
            let connection = try await server.connections.next()
            let late = try await server.requests.next(2)[1]
            time.set(.seconds(60))
            try await connection.roundTrip()
            let firstBatch = try await bench.next()[1]
            #expect(firstBatch?[1] == .unknown(.timedOut))
            connection.perform { $0.accept(late) }
            bench.submit(.make(1, tag: 2))
            let secondBatch = try await bench.next()[2]
            #expect(secondBatch?[0] == .accepted)
            #expect(bench.finished.waiting.isEmpty)
        }
    }

    @Test("Repeated timeouts replace the connection") func repeatedTimeoutsReplaceTheConnection() async throws {
        let server = try ScriptedServer { request, hand in if request.connection > 1 || request.index == 0 { hand.accept(request) } }
        let time = TestTime()
        try await withPool(server, { $0.clock = time.clock }) { bench in
            bench.submit(.make(4))
            _ = try await server.requests.next(4)
            time.set(.seconds(60))
            let connection = try await server.connections.next()
            connection.perform { $0.session.ping(1) }
            let batch = try await bench.next()[1]
            #expect(batch?.answers.count { $0.result == .unknown(.timedOut) } == 3)
            try await bench.events.first { if case .connectionRetired(_, "timeouts") = $0 { true } else { false } }
            bench.submit(.make(1, tag: 2))
            let secondBatch = try await bench.next()[2]
            #expect(secondBatch?[0] == .accepted)
        }
    }

    @Test("A PING notices a dead peer") func aDeadPeerIsNoticedByPing() async throws {
        let server = try ScriptedServer()
        let proxy = try FaultProxy(port: server.port)
        let time = TestTime()
        let bench = try PoolBench(port: proxy.port) { $0.clock = time.clock }
        bench.submit(.make(1))
        _ = try await bench.next()
        proxy.set(.blackHole)
        time.set(.seconds(31))
        // The next request makes the connection look at its clock: its PING goes out before it.
        bench.submit(.make(1, tag: 2))
        while bench.pool.snapshot().totals.submitted < 2 { await Task.yield() }
        time.set(.seconds(31 + 11))
        bench.submit(.make(1, tag: 3))
        try await bench.events.first { if case .connectionClosed(_, "ping_timeout") = $0 { true } else { false } }
        proxy.set(.forwarding)
        // If the connection read its clock just before the change, it took the third request too.
        let lost = try await bench.next(2)[2]
        #expect(lost?[0] == .unknown(.connectionLost))
        bench.submit(.make(1, tag: 4))
        let last = try await bench.next()[4]
        #expect(last?[0] == .accepted)
        await bench.pool.shutdown(deadline: .zero)
        server.stop()
        proxy.stop()
    }
}
