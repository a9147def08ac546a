import HTTP2
import PushModel
import Synchronization
import SystemIO
import TestSupport
import Testing

@testable import APNs

@Suite("The end of a connection", .timeLimit(.minutes(5)))
struct ConnectionEndTests {
    /// A server whose first connection answers only the request that opens the gate, and whose others answer everything.
    private func holdingServer() throws -> ScriptedServer {
        try ScriptedServer { request, hand in
            if request.connection > 1 || request.index == 0 { hand.accept(request) }
        }
    }

    @Test(
        "After GOAWAY the pool sends each delivery once and awaits the accepted streams",
        arguments: ["", #"{"reason":"Shutdown"}"#, "Maximum active streams violated for this endpoint."])
    func goAwayInTheMiddleSendsEachDeliveryOnceAndAwaitsWhatWasTaken(text: String) async throws {
        let server = try holdingServer()
        try await withPool(server) { bench in
            bench.submit(.make(101))
            let first = try await server.requests.next(101)
            let connection = try await server.connections.next()
            // The first connection keeps the streams up to the fiftieth held request. It certainly did not process the others.
            let last = first[50].stream
            connection.perform { $0.goAway(last: last, text) }
            let moved = try await server.requests.next(50)
            #expect(moved.allSatisfy { $0.connection == 2 })
            #expect(Set(moved.map(\.index)) == Set(51...100))
            // The old connection answers its streams only now, long after the replacement works.
            connection.perform { hand in for request in first[1...50] { hand.answer(request.stream, 410, "Unregistered") } }
            let batch = try await bench.next()[1]
            #expect(batch?.acceptedCount == 51)
            #expect(
                batch?.answers.count { $0.result == .response(status: 410, reason: "Unregistered", timestamp: nil, retryAfter: nil) } == 50)
            #expect(server.requests.waiting.isEmpty, "nothing was sent twice")
        }
    }

    /// Only an answer from APNs is final. A lack of memory in this process is neither the request's fault nor the address's.
    @Test("A request for which HTTP/2 has no memory goes again over another connection") func noMemory() async throws {
        let server = try ScriptedServer()
        try await withPool(server, { $0.maximumSessionMemory = 200_000 }) { bench in
            bench.submit(.make(900))
            let retired = try await bench.events.first { if case .connectionRetired = $0 { true } else { false } }
            guard case .connectionRetired(_, let reason) = retired else { return }
            #expect(reason.contains("nghttp2_submit_request"))
            let answers = try await bench.next()[1]?.answers ?? []
            #expect(answers.count == 900)
            let isAgain = answers.allSatisfy { answer in
                switch answer.result {
                case .response(200, _, _, _), .notSent(.refused), .unknown: true
                default: false
                }
            }
            #expect(isAgain)
            #expect(bench.pool.snapshot().totals.retirements["library"] ?? 0 > 0)
        }
    }

    @Test("Two GOAWAY frames are one end") func twoGoAwaysAreOneEnd() async throws {
        let server = try holdingServer()
        try await withPool(server) { bench in
            bench.submit(.make(11))
            let first = try await server.requests.next(11)
            let connection = try await server.connections.next()
            connection.perform { $0.goAway(last: .max) }
            try await bench.events.first { if case .connectionRetired = $0 { true } else { false } }
            connection.perform { $0.goAway(last: first[5].stream) }
            let moved = try await server.requests.next(5)
            #expect(Set(moved.map(\.index)) == Set(6...10))
            connection.perform { hand in for request in first[1...5] { hand.accept(request) } }
            let firstBatch = try await bench.next()[1]
            #expect(firstBatch?.acceptedCount == 11)
        }
    }

    @Test("The pool opens the replacement before the old connection ends")
    func theReplacementIsOpenedBeforeTheOldConnectionEnds() async throws {
        let server = try holdingServer()
        try await withPool(server) { bench in
            bench.submit(.make(2))
            let first = try await server.requests.next(2)
            let old = try await server.connections.next()
            old.perform { $0.goAway(last: first[1].stream) }
            _ = try await server.connections.next()
            bench.submit(.make(1, tag: 2))
            let secondBatch = try await bench.next()[2]
            #expect(secondBatch?[0] == .accepted, "while the old one still waits")
            old.perform { $0.accept(first[1]) }
            let firstBatch = try await bench.next()[1]
            #expect(firstBatch?.acceptedCount == 2)
            try await bench.events.first { if case .connectionClosed(_, "drained") = $0 { true } else { false } }
        }
    }

    @Test("Streams that a GOAWAY kept and APNs never answered are unknown at the deadline") func keptStreams() async throws {
        let server = try holdingServer()
        let time = TestTime()
        try await withPool(server, { $0.clock = time.clock }) { bench in
            bench.submit(.make(3))
            let first = try await server.requests.next(3)
            let connection = try await server.connections.next()
            connection.perform { $0.goAway(last: first[1].stream) }
            let again = try await server.requests.next()
            #expect(again.index == 2)
            try await server.connections.next().roundTrip()
            time.set(.seconds(60))
            connection.perform { $0.session.ping(1) }
            let batch = try await bench.next()[1]
            #expect(batch?[1] == .unknown(.timedOut))
            #expect(batch?[2] == .accepted)
        }
    }

    @Test("After a lost connection sent requests are unknown, and the pool sends the others elsewhere", arguments: [true, false])
    func aLostConnectionLeavesWhatHadLeftUnknownAndTheRestIsSentElsewhere(isRude: Bool) async throws {
        let server = try holdingServer()
        try await withPool(server, { $0.maximumStreams = 50 }) { bench in
            bench.submit(.make(100))
            let first = try await server.requests.next(51)
            let connection = try await server.connections.next()
            connection.perform { isRude ? $0.kill() : $0.close() }
            let batch = try #require(try await bench.next()[1])
            #expect(Set(batch.answers.map(\.index)) == Set(0..<100))
            for request in first.dropFirst() { #expect(batch[request.index] == .unknown(.connectionLost)) }
            #expect(batch.acceptedCount == 50)
            let sentTwice = Dictionary(grouping: server.requests.waiting + first, by: \.index).filter { $0.value.count > 1 }
            #expect(sentTwice.isEmpty)
        }
    }

    @Test("Requests behind the flow-control window are certainly not processed") func behindWindow() async throws {
        // The window of 65,535 bytes holds fifteen bodies of 4 KiB, and a server that reads nothing grants no more.
        let server = try holdingServer()
        let proxy = try FaultProxy(port: server.port)
        let bench = try PoolBench(port: proxy.port)
        bench.submit(.make(1, tag: 1))
        _ = try await bench.next()
        proxy.set(.paused)
        let big = APNsBatch(
            tag: 2, lane: .now, pushType: .alert, topic: "t", priority: 10, expiresAt: WallClock.milliseconds() + 60_000,
            payload: [UInt8](repeating: 0x20, count: 4096), requests: (0..<200).map { .make($0 + 1, tag: 2) })
        bench.submit(big)
        while bench.pool.snapshot().totals.submitted < 10 { await Task.yield() }
        proxy.cut()
        proxy.set(.forwarding)
        let batch = try #require(try await bench.next()[2])
        let unknown = batch.answers.count { $0.result == .unknown(.connectionLost) }
        #expect((1...20).contains(unknown), "\(unknown): the requests within the window may have arrived")
        #expect(batch.acceptedCount == 200 - unknown)
        await bench.pool.shutdown(deadline: .zero)
        server.stop()
        proxy.stop()
    }

    @Test("An outage opens the breaker, and one request finds the end of the outage")
    func anOutageOpensTheBreakerAndOneRequestFindsItsEnd() async throws {
        let isOver = Atomic(false)
        let server = try ScriptedServer { request, hand in
            if isOver.load(ordering: .acquiring) { hand.accept(request) } else { hand.answer(request.stream, 503, "ServiceUnavailable") }
        }
        let time = TestTime()
        try await withPool(server, { $0.clock = time.clock }) { bench in
            bench.submit(.make(20))
            try await bench.state(.unavailable(reason: "ServiceUnavailable"))
            let batch = try await bench.next()[1]
            #expect(batch?.answers.count { if case .response(503, _, _, _) = $0.result { true } else { false } } == 3)
            #expect(batch?.answers.count { $0.result == .notSent(.unavailable) } == 17)
            bench.submit(.make(1, tag: 2))
            let refused = try await bench.next()[2]
            #expect(refused?[0] == .notSent(.unavailable))
            isOver.store(true, ordering: .releasing)
            time.set(.seconds(60))
            // If nothing else woke the pool before, this batch does. The pool then finds that the pause is over.
            bench.submit(.make(1, tag: 3))
            let wakesUp = try await bench.next()[3]
            bench.submit(.make(5, tag: 4))
            let accepted = try await bench.next()[4]
            #expect(accepted?.acceptedCount == 5)
            try await bench.state(.ready)
            #expect(server.requests.waiting.count == 3 + 5 + (wakesUp?.acceptedCount ?? 0))
        }
    }

    @Test("A server fault retires the connection", arguments: [(500, "InternalServerError"), (503, "Shutdown")])
    func aServerFaultRetiresTheConnection(status: Int, reason: String) async throws {
        let server = try ScriptedServer { request, hand in
            if request.connection == 1, request.index == 1 { hand.answer(request.stream, status, reason) } else { hand.accept(request) }
        }
        try await withPool(server) { bench in
            bench.submit(.make(2))
            let firstBatch = try await bench.next()[1]
            #expect(firstBatch?[1] == .response(status: status, reason: reason, timestamp: nil, retryAfter: nil))
            try await bench.events.first { if case .connectionRetired(_, "\(status) \(reason)") = $0 { true } else { false } }
            bench.submit(.make(1, tag: 2))
            let secondBatch = try await bench.next()[2]
            #expect(secondBatch?[0] == .accepted)
            #expect(server.requests.waiting.last?.connection == 2)
        }
    }

    /// Two connections. One of them accepts its first request and resets all others.
    @Test(
        "The pool replaces a connection that only resets and does not give it most requests",
        arguments: [HTTP2ErrorCode.internalError, .enhanceYourCalm])
    func resettingConnection(code: HTTP2ErrorCode) async throws {
        let isProven = Atomic(false)
        let server = try ScriptedServer { request, hand in
            if request.connection > 1 || !isProven.exchange(true, ordering: .relaxed) {
                hand.accept(request)
            } else {
                hand.reset(request.stream, code)
            }
        }
        try await withPool(server, { $0.connections = 2 }) { bench in
            try await bench.connectTwo()
            var accepted = 0
            for tag in 10..<110 as Range<UInt64> {
                bench.submit(.make(5, tag: tag))
                accepted += try await bench.next()[tag]?.acceptedCount ?? 0
            }
            #expect(accepted >= 480)
            await bench.pool.shutdown(deadline: .zero)
            #expect(bench.pool.snapshot().totals.retirements["resets"] == 1)
        }
    }

    /// Two connections. One of them answers everything at once, and never accepts a request.
    @Test("A connection that answers only with a 403 draws no load from one that works", arguments: ["SomethingNew", "Forbidden"])
    func refusingConnection(reason: String) async throws {
        let server = try ScriptedServer { request, hand in
            if request.connection > 1 { hand.accept(request) } else { hand.answer(request.stream, 403, reason) }
        }
        try await withPool(server, { $0.connections = 2 }) { bench in
            try await bench.connectTwo()
            var accepted = 0
            for tag in 10..<110 as Range<UInt64> {
                bench.submit(.make(1, tag: tag))
                accepted += try await bench.next()[tag]?.acceptedCount ?? 0
            }
            // As a rule none; one each half a minute of a slow run.
            #expect(accepted >= 90)
        }
    }

    @Test("A connection that left one request unanswered serves again a while later") func forgivenFault() async throws {
        let server = try ScriptedServer { request, hand in if request.tag != 5 { hand.accept(request) } }
        let time = TestTime()
        try await withPool(
            server,
            {
                $0.connections = 2
                $0.clock = time.clock
            }
        ) { bench in
            try await bench.connectTwo()
            bench.submit(.make(1, tag: 5))
            let unanswered = try await server.requests.first { $0.tag == 5 }.connection
            time.set(.seconds(16))
            bench.submit(.make(1, tag: 6))
            let finished = try await bench.next(2)
            #expect(finished[5]?[0] == .unknown(.timedOut) && finished[6]?[0] == .accepted)
            time.set(.seconds(60))
            for tag in 10..<20 as Range<UInt64> {
                bench.submit(.make(1, tag: tag))
                #expect(try await bench.next()[tag]?[0] == .accepted)
            }
            #expect(server.requests.waiting.contains { $0.tag >= 10 && $0.connection == unanswered })
        }
    }

    /// RFC 9113 section 6.5.2 allows no streams for a short time.
    @Test("The pool replaces a connection that allows no stream for long") func noStreams() async throws {
        let server = try ScriptedServer()
        let time = TestTime()
        try await withPool(server, { $0.clock = time.clock }) { bench in
            bench.submit(.make(1))
            _ = try await bench.next()
            let connection = try await server.connections.next()
            connection.perform { $0.settings(0) }
            try await connection.roundTrip()
            bench.submit(.make(1, tag: 2))
            time.set(.seconds(20))
            #expect(try await bench.next()[2]?[0] == .accepted)
            #expect(server.requests.waiting.map(\.connection) == [1, 2])
        }
    }

    /// HEADERS have come, and a body whose stream does not end.
    @Test("What there is of an answer counts when its end does not come", arguments: ["the deadline", "the end of the connection"])
    func unfinishedAnswer(end: String) async throws {
        let server = try ScriptedServer { request, hand in
            guard request.index == 1 else { return hand.accept(request) }
            let text = Array(#"{"reason":"Forbidden"}"#.utf8)
            let stream = (0..<4).map { UInt8(truncatingIfNeeded: request.stream >> (24 - 8 * $0)) }
            // `:status`, the eighth of HPACK's table, as a literal.
            hand.raw = [0, 0, 5, 1, 4] + stream + [8, 3] + Array("403".utf8) + [0, 0, UInt8(text.count), 0, 0] + stream + text
        }
        let time = TestTime()
        try await withPool(server, { $0.clock = time.clock }) { bench in
            bench.submit(.make(2))
            _ = try await server.requests.next(2)
            let connection = try await server.connections.next()
            try await connection.roundTrip()
            if end == "the deadline" { time.set(.seconds(16)) }
            connection.perform { if end == "the deadline" { $0.session.ping(1) } else { $0.kill() } }
            let batch = try await bench.next()[1]
            #expect(batch?[1] == .response(status: 403, reason: "Forbidden", timestamp: nil, retryAfter: nil))
        }
    }

    /// The last bytes before the end of a connection may be answers.
    @Test(
        "Answers that come right before an error count",
        arguments: ["a broken TLS record", "more PINGs than HTTP/2 answers", "more CONTINUATIONs than HTTP/2 takes"])
    func answersBeforeError(error: String) async throws {
        let server = try ScriptedServer { request, hand in
            if request.index == 0 || request.connection > 1 { return hand.accept(request) }
            guard request.index == 9 else { return }
            for stream in stride(from: request.stream - 16, through: request.stream, by: 2) { hand.answer(stream, 200) }
            switch error {
            case "a broken TLS record": hand.rawAfterTLS = [23, 3, 3, 0, 32] + [UInt8](repeating: 0, count: 32)
            case "more PINGs than HTTP/2 answers":
                hand.raw = (0..<2_000).flatMap { _ in [0, 0, 8, 6, 0, 0, 0, 0, 0] + [UInt8](repeating: 1, count: 8) }
            default: hand.raw = [0, 0, 1, 1, 0, 0, 0, 0, 1, 0x88] + (0..<20).flatMap { _ in [0, 0, 0, 9, 0, 0, 0, 0, 1] as [UInt8] }
            }
        }
        try await withPool(server) { bench in
            bench.submit(.make(10))
            let batch = try await bench.next()[1]
            #expect(batch?.acceptedCount == 10)
            try await bench.events.first { if case .connectionClosed(_, let why) = $0 { why != "drained" } else { false } }
            #expect(server.requests.waiting.count == 10, "each was sent once")
            await bench.pool.shutdown(deadline: .zero)
            #expect(bench.pool.snapshot().totals.connectionsLost == 1, "the peer's fault")
        }
    }

    @Test("A protocol violation ends the connection and not the pool") func protocolViolation() async throws {
        let server = try ScriptedServer { request, hand in
            if request.connection == 1, request.index == 1 {
                // WINDOW_UPDATE of zero on the connection: a protocol error (RFC 9113 section 6.9).
                hand.raw = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0]
            } else {
                hand.accept(request)
            }
        }
        try await withPool(server) { bench in
            bench.submit(.make(2))
            let batch = try await bench.next()[1]
            #expect(batch?[1] == .unknown(.connectionLost))
            bench.submit(.make(1, tag: 2))
            let secondBatch = try await bench.next()[2]
            #expect(secondBatch?[0] == .accepted)
        }
    }

    /// A violation in the same bytes as an answer that frees a stream.
    @Test("A protocol violation does not go through the requests that wait") func violationBesideQueue() async throws {
        let server = try ScriptedServer(ScriptedServer.Behaviour(streams: 1)) { request, hand in
            hand.accept(request)
            if request.connection == 1, request.tag == 9 { hand.raw = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0] }
        }
        try await withPool(server) { bench in
            bench.submit(.make(1))
            _ = try await bench.next()
            bench.pool.submit((9..<2_009).map { .make(1, tag: $0) })
            let finished = try await bench.next(2_000)
            #expect(finished.values.allSatisfy { $0.acceptedCount == 1 })
            await bench.pool.shutdown(deadline: .zero)
            #expect(bench.pool.snapshot().totals.handedOver <= 1)
        }
    }

    @Test("The pool replaces old connections one for one") func oldConnectionsAreReplacedOneForOne() async throws {
        let server = try ScriptedServer()
        try await withPool(server, { $0.maximumRequestsPerConnection = 10 }) { bench in
            for tag in 1...10 {
                bench.submit(.make(5, tag: UInt64(tag)))
                let batch = try await bench.next()[UInt64(tag)]
                #expect(batch?.acceptedCount == 5)
            }
            let connections = Set(server.requests.waiting.map(\.connection))
            #expect(connections.count > 1)
            #expect(Dictionary(grouping: server.requests.waiting, by: \.path).values.allSatisfy { $0.count == 1 })
        }
    }
}
