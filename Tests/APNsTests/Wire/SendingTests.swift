import HTTP2
import PushModel
import Synchronization
import SystemIO
import TestSupport
import Testing

@testable import APNs

@Suite("Sending", .timeLimit(.minutes(5)))
struct SendingTests {
    @Test("A request carries exactly the headers of Apple's table") func aRequestCarriesExactlyWhatApplesTableSays() async throws {
        let server = try ScriptedServer()
        try await withPool(server) { bench in
            let batch = APNsBatch.make(2, tag: 5, collapseID: "news", expiration: 1_900_000_000)
            bench.submit(batch)
            let request = try await server.requests.next()
            #expect(request.path == "/3/device/" + batch.requests[0].token.hex)
            #expect(request.apnsID == batch.requests[0].id.description)
            #expect(request.authorization.hasPrefix("bearer ey"))
            let expected = [
                (":method", "POST"), (":scheme", "https"), (":authority", "localhost:\(server.port)"), (":path", request.path),
                ("authorization", request.authorization), ("apns-id", request.apnsID), ("apns-topic", "com.example.shop"),
                ("apns-push-type", "alert"), ("apns-priority", "10"), ("apns-expiration", "1900000000"), ("apns-collapse-id", "news"),
            ]
            var seen: [(String, String)] = []
            request.headers.forEach { seen.append((text($0), text($1))) }
            #expect(seen.map(\.0) == expected.map(\.0))
            #expect(seen.map(\.1) == expected.map(\.1))
            #expect(request.body == batch.payload)
            let fifthBatch = try await bench.next()[5]
            #expect(fifthBatch?.acceptedCount == 2)
        }
    }

    @Test("The client sends every push type and priority unchanged") func everyPushTypeAndPriorityLeavesAsItIs() async throws {
        let server = try ScriptedServer()
        try await withPool(server) { bench in
            let kinds = PushType.allCases.flatMap { type in type.allowedPriorities.sorted().map { (type, $0) } }
            for (tag, (type, priority)) in kinds.enumerated() {
                let like = APNsBatch.make(1, tag: UInt64(tag))
                bench.submit(
                    APNsBatch(
                        tag: like.tag, lane: .now, pushType: type, topic: type.topic(bundleID: "com.example.shop"),
                        priority: priority, expiresAt: like.expiresAt, payload: like.payload, requests: like.requests))
                let headers = try await server.requests.next().headers
                #expect(headers["apns-push-type"] == type.rawValue && headers["apns-priority"] == "\(priority)")
                #expect(headers["apns-topic"] == type.topic(bundleID: "com.example.shop"))
                _ = try await bench.next()
            }
        }
    }

    private func text(_ span: Span<UInt8>) -> String {
        String(decoding: span.indices.map { span[$0] }, as: UTF8.self)
    }

    @Test("Each of many batches of all lanes comes back once and whole") func manyBatches() async throws {
        let server = try ScriptedServer()
        try await withPool(server, { $0.connections = 3 }) { bench in
            let sizes = [1, 100, 7, 33]
            for number in 0..<300 {
                let lane = Lane.allCases[number % 3]
                bench.submit(.make(sizes[number % 4], tag: UInt64(number), lane: lane, collapseID: number % 2 == 0 ? "c\(number)" : nil))
            }
            let finished = try await bench.next(300)
            #expect(finished.count == 300)
            for number in 0..<300 {
                let batch = finished[UInt64(number)]
                #expect(batch?.acceptedCount == sizes[number % 4])
                #expect(batch?.answers.map(\.index).sorted() == Array(0..<sizes[number % 4]))
                #expect(batch?.answers.allSatisfy { $0.sentAt != nil } == true)
            }
            let total = (0..<300).reduce(0) { $0 + sizes[$1 % 4] }
            let seen = server.requests.waiting
            #expect(seen.count == total)
            #expect(Set(seen.map(\.path)).count == total, "each delivery was sent once")
            #expect(Set(seen.map(\.connection)).count == 3, "the load was spread")
            let snapshot = bench.pool.snapshot()
            #expect(snapshot.queuedNow + snapshot.queuedSoon + snapshot.queuedBulk == 0)
        }
    }

    @Test("The headers of one batch never leak into another") func noLeak() async throws {
        let server = try ScriptedServer()
        try await withPool(server) { bench in
            bench.submit(.make(3, tag: 1, topic: "com.example.one", collapseID: "x", expiration: 0))
            bench.submit(.make(3, tag: 2, topic: "com.example.another.app"))
            bench.submit(.make(3, tag: 3, topic: "com.example.three", expiration: 1_900_000_000))
            _ = try await bench.next(3)
            for request in server.requests.waiting {
                let topics: [UInt64: String] = [1: "com.example.one", 2: "com.example.another.app", 3: "com.example.three"]
                #expect(request.headers["apns-topic"] == topics[request.tag])
                #expect(request.headers["apns-collapse-id"] == (request.tag == 1 ? "x" : nil))
                #expect(request.headers["apns-expiration"] == [1: "0", 3: "1900000000"][request.tag])
            }
        }
    }

    @Test("The client sends one request at a time until APNs accepts its credential") func goesAhead() async throws {
        let server = try ScriptedServer { _, _ in }
        try await withPool(server) { bench in
            bench.submit(.make(50))
            let first = try await server.requests.next()
            let connection = try await server.connections.next()
            // Any other frame of the client would have come before its answer to the PING.
            try await connection.roundTrip()
            #expect(server.requests.waiting.isEmpty)
            connection.perform { $0.answer(first.stream, 403, "Forbidden") }
            let second = try await server.requests.next()
            try await connection.roundTrip()
            #expect(server.requests.waiting.isEmpty, "403 does not open the gate")
            connection.perform { $0.answer(second.stream, 400, "BadDeviceToken") }
            let rest = try await server.requests.next(48)
            connection.perform { hand in for request in rest { hand.accept(request) } }
            let batch = try await bench.next()[1]
            #expect(batch?.acceptedCount == 48)
            #expect(batch?[0] == .response(status: 403, reason: "Forbidden", timestamp: nil, retryAfter: nil))
        }
    }

    @Test("The client obeys every new stream limit at once, up and down") func theStreamLimitIsObeyedUpAndDownAtOnce() async throws {
        // The client never has more streams open than allowed while the limit goes from 1000 to 1 and back.
        let open = OpenStreams(allowed: 1000)
        let server = try ScriptedServer { request, hand in
            if request.index == 0 { hand.accept(request) } else { open.add(request, hand) }
        }
        try await withPool(server) { bench in
            bench.submit(.make(3000))
            let connection = try await server.connections.next()
            _ = try await server.requests.next(1001)
            #expect(open.count == 1000)
            connection.perform { hand in
                hand.settings(1)
                open.answerAll(hand, thenAllow: 1)
            }
            for _ in 0..<20 {
                _ = try await server.requests.next()
                #expect(open.count == 1)
                connection.perform { open.answerAll($0) }
            }
            _ = try await server.requests.next()
            connection.perform { hand in
                hand.settings(1000)
                open.answerAll(hand, thenAllow: 1000)
            }
            _ = try await server.requests.next(1000)
            #expect(open.count == 1000)
            connection.perform { open.answerAll($0, thenHoldNothing: true) }
            let batch = try await bench.next()[1]
            #expect(batch?.acceptedCount == 3000)
            #expect(open.violations == 0)
        }
    }

    /// The streams that a scripted server has not answered.
    final class OpenStreams: Sendable {
        private struct State {
            var held: [ScriptedRequest] = []
            var allowed: Int
            var violations = 0
            var holds = true
        }

        private let state: Mutex<State>

        init(allowed: Int) { state = Mutex(State(allowed: allowed)) }

        var count: Int { state.withLock { $0.held.count } }
        var violations: Int { state.withLock { $0.violations } }

        func add(_ request: ScriptedRequest, _ hand: ServerHand) {
            let isHeld = state.withLock { state in
                guard state.holds else { return false }
                state.held.append(request)
                if state.held.count > state.allowed { state.violations += 1 }
                return true
            }
            if !isHeld { hand.accept(request) }
        }

        func answerAll(_ hand: ServerHand, thenAllow allowed: Int? = nil, thenHoldNothing: Bool = false) {
            let requests = state.withLock { state in
                defer { state.held = [] }
                state.allowed = allowed ?? state.allowed
                state.holds = !thenHoldNothing
                return state.held
            }
            for request in requests { hand.accept(request) }
        }
    }

    @Test("The client keeps its own stream limit too") func ourOwnLimitHoldsToo() async throws {
        let held = Mutex<[ScriptedRequest]>([])
        let server = try ScriptedServer { request, hand in
            if request.index == 0 { hand.accept(request) } else { held.withLock { $0.append(request) } }
        }
        try await withPool(server, { $0.maximumStreams = 10 }) { bench in
            bench.submit(.make(50))
            _ = try await server.requests.next(11)
            let connection = try await server.connections.next()
            try await connection.roundTrip()
            #expect(held.withLock { $0.count } == 10)
        }
    }

    @Test("A request of `now` overtakes a backlog of `bulk`") func overtakes() async throws {
        let held = Mutex<[ScriptedRequest]>([])
        let server = try ScriptedServer(ScriptedServer.Behaviour(streams: 1)) { request, _ in held.withLock { $0.append(request) } }
        try await withPool(server) { bench in
            bench.submit(.make(500, tag: 1, lane: .bulk))
            let connection = try await server.connections.next()
            _ = try await server.requests.next()
            bench.submit(.make(1, tag: 2, lane: .now))
            connection.perform { hand in for request in held.withLock({ $0 }) { hand.accept(request) } }
            let second = try await server.requests.next()
            #expect(second.tag == 2, "now goes next, however much of bulk waits")
            await bench.pool.shutdown(deadline: .zero)
        }
    }

    /// Promise 9 (docs/promises.md).
    @Test("Unanswered requests of `bulk` neither delay `now` nor take its reserved streams") func unansweredBulk() async throws {
        let server = try ScriptedServer { request, hand in
            if request.tag != 1 || request.index == 0 { hand.accept(request) }
        }
        try await withPool(server) { bench in
            bench.submit(.make(5000, tag: 1, lane: .bulk))
            let reserved = 1000 / 16
            _ = try await server.requests.next(1 + 1000 - reserved)
            try await server.connections.next().roundTrip()
            #expect(server.requests.waiting.isEmpty, "no more of it has left")
            bench.submit(.make(reserved, tag: 2, lane: .now))
            let secondBatch = try await bench.next()[2]
            #expect(secondBatch?.acceptedCount == reserved, "the reserved streams are free for now")
        }
    }
}
