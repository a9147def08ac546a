import HTTP2
import OpenSSL
import PushModel
import StrictJSON
import Synchronization
import SystemIO
import TestSupport
import Testing

@testable import APNs

/// The clocks of a pool, each ahead of the real one by as much as a test says.
private final class TwoClocks: Sendable {
    /// How far a test sets the wall clock, in milliseconds: an hour, four days and a year, both ways.
    static let steps: [Int64] = [-8760, -96, -1, 1, 96, 8760].map { $0 * 3_600_000 }

    private let ahead = Mutex((monotonic: Duration.zero, wall: Int64(0)))

    /// As an operator or NTP does it.
    func setWall(_ milliseconds: Int64) { ahead.withLock { $0.wall = milliseconds } }

    /// A machine that slept, or a process that was frozen: both clocks went on.
    func sleep(_ milliseconds: Int64) {
        ahead.withLock { ahead in
            ahead.monotonic += .milliseconds(milliseconds)
            ahead.wall += milliseconds
        }
    }

    var clock: APNsClock {
        APNsClock(
            now: { [self] in ContinuousClock.now + ahead.withLock { $0.monotonic } },
            wall: { [self] in WallClock.milliseconds() + ahead.withLock { $0.wall } })
    }
}

extension ScriptedRequest {
    /// `iat` of its provider token, UNIX seconds.
    fileprivate var issuedAt: Int64? {
        let parts = authorization.split(separator: ".")
        guard parts.count == 3, let claims = Base64URL.decode(parts[1]) else { return nil }
        return try? JSONValue.parse(claims)["iat"]?.integerValue
    }
}

@Suite("A pool whose clock is set", .timeLimit(.minutes(5)))
struct ClockTests {
    private static let year: Int64 = 8760 * 3_600_000

    /// Accepts the first request, and leaves the others to the test.
    private func holdingServer() throws -> ScriptedServer {
        try ScriptedServer { request, hand in if request.index == 0 { hand.accept(request) } }
    }

    @Test("A step of the wall clock fails no request in flight and replaces no connection", arguments: TwoClocks.steps)
    func inFlight(step: Int64) async throws {
        let (server, clocks) = (try holdingServer(), TwoClocks())
        try await withPool(server, { $0.clock = clocks.clock }) { bench in
            bench.submit(.make(3))
            let sent = try await server.requests.next(3)
            let connection = try await server.connections.next()
            clocks.setWall(step)
            for _ in 0..<2 { try await connection.roundTrip() }
            connection.perform { hand in for request in sent.dropFirst() { hand.accept(request) } }
            #expect(try await bench.next()[1]?.acceptedCount == 3)
            bench.submit(.make(1, tag: 2, expiresIn: 2 * Self.year))
            #expect(try await bench.next()[2]?.acceptedCount == 1)
            await bench.pool.shutdown(deadline: .zero)
            let totals = bench.pool.snapshot().totals
            #expect(totals.connectionsOpened == 1 && totals.timedOut == 0 && totals.stopped == 0)
        }
    }

    @Test("A request that waits for a stream expires by the wall clock, and waits no longer than a minute", arguments: TwoClocks.steps)
    func inTheQueue(step: Int64) async throws {
        let server = try ScriptedServer(ScriptedServer.Behaviour(streams: 1)) { request, hand in
            if request.index == 0 { hand.accept(request) }
        }
        let clocks = TwoClocks()
        try await withPool(server, { $0.clock = clocks.clock }) { bench in
            bench.submit(.make(2, expiresIn: 2 * Self.year))
            let sent = try await server.requests.next(2)
            let connection = try await server.connections.next()
            bench.submit(.make(1, tag: 2, expiresIn: 1_800_000))
            clocks.setWall(step)
            if step > 0 {
                #expect(try await bench.next()[2]?[0] == .stopped(.expired))
            } else {
                clocks.sleep(61_000)
                let both = try await bench.next(2)
                #expect(both[2]?[0] == .notSent(.congested) || both[2]?[0] == .accepted)
                #expect(both[1]?[1] == .unknown(.timedOut))
            }
            connection.perform { $0.accept(sent[1]) }
        }
    }

    @Test("A pool whose clock was wrong serves again once it is right: APNs refused its tokens", arguments: TwoClocks.steps)
    func findsTheRightTime(step: Int64) async throws {
        let server = try ScriptedServer { request, hand in
            let age = WallClock.milliseconds() / 1000 - (request.issuedAt ?? 0)
            // Apple's rule: at most an hour old. The second that the test takes must not count.
            if abs(age) < 3_590 { hand.accept(request) } else { hand.answer(request.stream, 403, "ExpiredProviderToken") }
        }
        let clocks = TwoClocks()
        clocks.setWall(step)
        try await withPool(
            server,
            {
                $0.clock = clocks.clock
                $0.probeBase = .milliseconds(20)
                $0.probeCap = .milliseconds(20)
            }
        ) { bench in
            bench.submit(.make(1, expiresIn: 2 * Self.year), .make(1, tag: 2, expiresIn: 2 * Self.year))
            try await bench.state(.paused(reason: "ExpiredProviderToken"))
            _ = try await bench.next(2)
            clocks.setWall(0)
            var tag: UInt64 = 2
            while true {
                tag += 1
                bench.submit(.make(1, tag: tag))
                if try await bench.next()[tag]?[0] == .accepted { break }
            }
            try await bench.state(.ready)
        }
    }

    @Test("A pause of a pool does not depend on the wall clock", arguments: TwoClocks.steps)
    func pause(step: Int64) async throws {
        let server = try ScriptedServer { request, hand in
            if request.connection == 1 { hand.answer(request.stream, 403, "InvalidProviderToken") } else { hand.accept(request) }
        }
        let clocks = TwoClocks()
        try await withPool(server, { $0.clock = clocks.clock }) { bench in
            bench.submit(.make(1))
            try await bench.state(.paused(reason: "InvalidProviderToken"))
            _ = try await bench.next()
            clocks.setWall(step)
            bench.submit(.make(1, tag: 2, expiresIn: 2 * Self.year))
            #expect(try await bench.next()[2]?[0] == .notSent(.poolPaused))
            // Half a minute later.
            clocks.sleep(30_000)
            var tag: UInt64 = 2
            while true {
                tag += 1
                bench.submit(.make(1, tag: tag, expiresIn: 2 * Self.year))
                if try await bench.next()[tag]?[0] == .accepted { break }
            }
        }
    }

    @Test("After the machine slept, requests in flight have an answer and the pool serves", arguments: TwoClocks.steps.filter { $0 > 0 })
    func sleeps(step: Int64) async throws {
        let (server, clocks) = (try holdingServer(), TwoClocks())
        try await withPool(server, { $0.clock = clocks.clock }) { bench in
            bench.submit(.make(2, expiresIn: 2 * Self.year))
            _ = try await server.requests.next(2)
            let connection = try await server.connections.next()
            clocks.sleep(step)
            connection.perform { $0.session.ping(1) }
            let batch = try await bench.next()[1]
            #expect(batch?[0] == .accepted)
            #expect(batch?[1] == .unknown(.timedOut))
            for tag in 2...4 as ClosedRange<UInt64> {
                bench.submit(.make(1, tag: tag, expiresIn: 2 * Self.year))
                #expect(try await bench.next()[tag]?[0] == .accepted)
            }
        }
    }

    @Test(
        "No moment of the wall clock and no expiry makes a pool trap or wait",
        arguments: [0, 1, 1_800_000_000_000, 9_999 * 31_556_952_000] as [Int64], [0, 1, .max] as [Int64])
    func extremes(wall: Int64, expiresAt: Int64) async throws {
        let server = try ScriptedServer()
        let moment = Atomic(wall)
        try await withPool(server, { $0.clock = APNsClock(now: { .now }, wall: { moment.load(ordering: .relaxed) }) }) { bench in
            for (tag, wall) in [(1, wall), (2, 0)] as [(UInt64, Int64)] {
                moment.store(wall, ordering: .relaxed)
                bench.submit(
                    APNsBatch(
                        tag: tag, lane: .now, pushType: .alert, topic: "t", priority: 10, expiresAt: expiresAt, payload: [0x7b, 0x7d],
                        requests: [.make(0, tag: tag)]))
                let result = try await bench.next()[tag]?[0]
                #expect(result == (wall >= expiresAt ? .stopped(.expired) : .accepted))
            }
        }
    }

    // MARK: Provider tokens

    @Test("Twenty minutes after a step, a connection shows no token of before it", arguments: TwoClocks.steps, [0, 10, 49])
    func tokens(step: Int64, minutes: Int) throws {
        let key = try ES256PrivateKey.generate()
        let credential = APNsCredential(name: "test", kind: .token(teamID: "TEAM000001", keyID: "KEY0000001", key: key))
        let signer = try #require(ProviderTokenSigner(credential))
        let wall: Int64 = 1_800_000_000_000
        var slot = ProviderTokenSlot(signer)
        var shown: Set<[UInt8]> = []
        func issuedAt(after minutes: Int, _ step: Int64) throws -> Int64 {
            let token = try slot.authorization(now: start + .seconds(minutes * 60), wall: wall + Int64(minutes) * 60_000 + step)
            shown.insert(token)
            let claims = try JSONValue.parse(#require(Base64URL.decode(String(decoding: token, as: UTF8.self).split(separator: ".")[1])))
            return try #require(claims["iat"]?.integerValue)
        }
        #expect(try issuedAt(after: 0, 0) == wall / 1000)
        _ = try issuedAt(after: minutes, step)
        let late = minutes + 20
        let age = (wall + Int64(late) * 60_000 + step) / 1000 - (try issuedAt(after: late, step))
        #expect((0..<3_600).contains(age))
        #expect(shown.count == 2)
    }
}
