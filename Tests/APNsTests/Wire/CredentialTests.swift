import HTTP2
import OpenSSL
import PushModel
import Synchronization
import TestIdentity
import TestSupport
import Testing

@testable import APNs

@Suite("Refused credentials", .timeLimit(.minutes(5)))
struct CredentialTests {
    @Test(
        "A refused credential pauses the pool",
        arguments: ["InvalidProviderToken", "BadEnvironmentKeyInToken", "BadEnvironmentKeyIdInToken", "BadCertificate"])
    func aCredentialFaultPausesThePool(reason: String) async throws {
        let server = try ScriptedServer { $1.answer($0.stream, 403, reason) }
        try await withPool(server, { $0.connections = 2 }) { bench in
            bench.submit(.make(20))
            try await bench.state(.paused(reason: reason))
            let batch = try await bench.next()[1]
            #expect(batch?.answers.count { $0.result == .response(status: 403, reason: reason, timestamp: nil, retryAfter: nil) } ?? 0 <= 2)
            #expect(batch?.answers.contains { $0.result == .notSent(.poolPaused) } == true)
            // A paused pool returns everything at once and sends APNs nothing.
            let asked = server.requests.waiting.count
            #expect(asked <= 2)
            bench.submit(.make(20, tag: 2))
            let secondBatch = try await bench.next()[2]
            #expect(secondBatch?.answers.allSatisfy { $0.result == .notSent(.poolPaused) } == true)
            #expect(server.requests.waiting.count == asked)
            #expect(bench.pool.state == .paused(reason: reason))
        }
    }

    @Test("The pool probes with one request on one connection, and success resumes it") func probing() async throws {
        enum Mood { case refusing, holding, accepting }
        let mood = Mutex(Mood.refusing)
        let server = try ScriptedServer { request, hand in
            switch mood.withLock({ $0 }) {
            case .refusing: hand.answer(request.stream, 403, "InvalidProviderToken")
            case .holding: break
            case .accepting: hand.accept(request)
            }
        }
        try await withPool(
            server,
            {
                $0.connections = 3
                $0.probeBase = .milliseconds(100)
                $0.probeCap = .milliseconds(100)
            }
        ) { bench in
            bench.submit(.make(1))
            try await bench.state(.paused(reason: "InvalidProviderToken"))
            _ = try await bench.next()
            let before = server.requests.waiting.count
            mood.withLock { $0 = .holding }
            // The pool does not report the end of the pause, so offer batches until it sends a request: one after another, because batches
            // that come while the probe connects wait in the pool, which has little room.
            var tag: UInt64 = 1
            while server.requests.waiting.count == before {
                tag += 1
                bench.submit(.make(10, tag: tag))
                while server.requests.waiting.count == before, bench.finished.waiting.last?.batch.tag != tag { await Task.yield() }
            }
            let probe = try #require(server.requests.waiting.last)
            let connection = try #require(server.connections.waiting.first { $0.number == probe.connection })
            tag += 1
            bench.submit(.make(10, tag: tag))
            try await connection.roundTrip()
            #expect(server.requests.waiting.count == before + 1)
            #expect(bench.pool.state == .paused(reason: "InvalidProviderToken"))

            mood.withLock { $0 = .accepting }
            connection.perform { $0.accept(probe) }
            try await bench.state(.ready)
            let last = try await bench.finished.first { $0.batch.tag == tag }
            #expect(last.acceptedCount == 10)
        }
    }

    @Test("A paused pool does not reconnect") func aPausedPoolDoesNotReconnect() async throws {
        let server = try ScriptedServer { $1.answer($0.stream, 403, "InvalidProviderToken") }
        try await withPool(
            server,
            {
                $0.connections = 2
                $0.probeBase = .milliseconds(20)
                $0.probeCap = .milliseconds(20)
            }
        ) { bench in
            bench.submit(.make(1))
            try await bench.state(.paused(reason: "InvalidProviderToken"))
            _ = try await bench.next()
            while bench.pool.snapshot().connections.count > 0 { await Task.yield() }
            let opened = bench.pool.snapshot().totals.connectionsOpened
            // Long after the pause no request has come, so the pool has opened nothing.
            let later = ContinuousClock.now + .milliseconds(100)
            while ContinuousClock.now < later { await Task.yield() }
            #expect(bench.pool.snapshot().totals.connectionsOpened == opened)
        }
    }

    @Test("GOAWAY with a credential reason pauses the pool") func goAwayWithACredentialReasonIsNoGracefulShutdown() async throws {
        let server = try ScriptedServer()
        try await withPool(server) { bench in
            try await bench.connect()
            let connection = try await server.connections.next()
            connection.perform { $0.goAway(last: 0, #"{"reason":"BadCertificateEnvironment"}"#) }
            try await bench.state(.paused(reason: "BadCertificateEnvironment"))
            bench.submit(.make(3))
            let firstBatch = try await bench.next()[1]
            #expect(firstBatch?.answers.allSatisfy { $0.result == .notSent(.poolPaused) } == true)
        }
    }

    @Test("An expired token replaces the connection and its token") func anExpiredTokenReplacesTheConnectionAndItsToken() async throws {
        let server = try ScriptedServer { request, hand in
            if request.connection == 1, request.index == 1 {
                hand.answer(request.stream, 403, "ExpiredProviderToken")
            } else {
                hand.accept(request)
            }
        }
        try await withPool(server) { bench in
            bench.submit(.make(2))
            let firstBatch = try await bench.next()[1]
            #expect(firstBatch?[1] == .response(status: 403, reason: "ExpiredProviderToken", timestamp: nil, retryAfter: nil))
            try await bench.events.first { if case .connectionRetired(_, "ExpiredProviderToken") = $0 { true } else { false } }
            bench.submit(.make(2, tag: 2))
            let secondBatch = try await bench.next()[2]
            #expect(secondBatch?.acceptedCount == 2)
            let requests = server.requests.waiting
            let old = Set(requests.filter { $0.connection == 1 }.map(\.authorization))
            let new = Set(requests.filter { $0.connection == 2 }.map(\.authorization))
            #expect(old.count == 1)
            #expect(new.count == 1)
            #expect(old != new)
        }
    }

    @Test("Tokens that expire on every connection pause the pool") func tokensThatExpireOnEveryConnectionPauseThePool() async throws {
        let server = try ScriptedServer { $1.answer($0.stream, 403, "ExpiredProviderToken") }
        try await withPool(server) { bench in
            bench.submit(.make(5))
            try await bench.state(.paused(reason: "ExpiredProviderToken"))
            let firstBatch = try await bench.next()[1]
            #expect(firstBatch?.answers.count { $0.result == .notSent(.poolPaused) } == 3)
            #expect(server.requests.waiting.count == 2)
        }
    }

    @Test("Connections that open together show one token") func connectionsThatAreOpenedTogetherShowOneToken() async throws {
        let server = try ScriptedServer()
        try await withPool(server, { $0.connections = 3 }) { bench in
            for tag in 0..<60 { bench.submit(.make(10, tag: UInt64(tag))) }
            _ = try await bench.next(60)
            let tokens = Dictionary(grouping: server.requests.waiting, by: \.connection).mapValues { Set($0.map(\.authorization)) }
            #expect(tokens.values.allSatisfy { $0.count == 1 })
            #expect(
                tokens.values.reduce(into: Set()) { $0.formUnion($1) }.count == 1, "the first connection made it, and the others share it")
        }
    }

    @Test("Pools that sign with one key show one token, and a pool with another key shows its own") func poolsOfOneKey() async throws {
        let server = try ScriptedServer()
        let loops = try APNsEventLoops(threads: 2)
        let key = try ES256PrivateKey.generate()
        // As two entries of a credentials file that name one key file.
        let kinds: [APNsCredential.Kind] = [
            .token(teamID: TestIdentity.teamID, keyID: "KEY0000002", key: key),
            .token(teamID: TestIdentity.teamID, keyID: "KEY0000002", key: try ES256PrivateKey(pem: key.pem())),
            .token(teamID: TestIdentity.teamID, keyID: "KEY0000002", key: try ES256PrivateKey.generate()),
            .token(teamID: TestIdentity.teamID, keyID: "KEY0000003", key: key),
        ]
        var tokens: [String] = []
        for (kind, environment) in zip(kinds, [APNsEnvironment.production, .sandbox, .production, .production]) {
            let bench = try PoolBench(port: server.port, kind: kind, environment: environment, on: loops)
            bench.submit(.make())
            #expect(try await bench.next()[1]?.acceptedCount == 1)
            tokens.append(try await server.requests.next().authorization)
            await bench.pool.shutdown(deadline: .zero)
        }
        #expect(tokens[0] == tokens[1])
        #expect(Set(tokens).count == 3)
    }

    @Test("TooManyProviderTokenUpdates replaces the connection and keeps the token")
    func tooManyTokenUpdatesReplacesTheConnectionAndMintsNothing() async throws {
        let server = try ScriptedServer { request, hand in
            if request.connection < 4, request.index == 1 {
                hand.answer(request.stream, 429, "TooManyProviderTokenUpdates")
            } else {
                hand.accept(request)
            }
        }
        try await withPool(server) { bench in
            for tag in 1...4 {
                bench.submit(.make(2, tag: UInt64(tag)))
                let batch = try await bench.next()[UInt64(tag)]
                let expected: APNsAnswer.Result =
                    tag < 4 ? .response(status: 429, reason: "TooManyProviderTokenUpdates", timestamp: nil, retryAfter: nil) : .accepted
                #expect(batch?[1] == expected)
                guard tag < 4 else { break }
                try await bench.events.first {
                    if case .connectionRetired(_, "429 TooManyProviderTokenUpdates") = $0 { true } else { false }
                }
            }
            #expect(Set(server.requests.waiting.map(\.connection)).count == 4)
            #expect(Set(server.requests.waiting.map(\.authorization)).count == 1)
        }
    }

    @Test("A live connection renews its token at fifty minutes") func renewsToken() async throws {
        let time = TestTime()
        let server = try ScriptedServer()
        try await withPool(server, { $0.clock = time.clock }) { bench in
            try await bench.connect()
            let connection = try await server.connections.next()
            for (tag, minutes) in [(1, 0), (2, 49), (3, 51), (4, 70)] {
                time.set(.seconds(minutes * 60))
                // The client reads its clocks once per round, so wait until a new round begins.
                try await connection.roundTrip()
                bench.submit(.make(1, tag: UInt64(tag), expiresIn: 100_000_000))
                let batch = try await bench.next()[UInt64(tag)]
                #expect(batch?.acceptedCount == 1)
            }
            let tokens = server.requests.waiting.map(\.authorization)
            #expect(Set(server.requests.waiting.map(\.connection)).count == 1)
            #expect(tokens[0] == tokens[1])
            #expect(tokens[1] != tokens[2])
            #expect(tokens[2] == tokens[3])
        }
    }
}

/// Both clocks of a pool, ahead of the real ones by as much as a test says.
final class TestTime: Sendable {
    private let ahead = Mutex(Duration.zero)

    func set(_ duration: Duration) { ahead.withLock { $0 = duration } }

    var clock: APNsClock {
        APNsClock(
            now: { [self] in ContinuousClock.now + ahead.withLock { $0 } },
            wall: { [self] in APNsClock.system.wall() + Int64(ahead.withLock { $0 } / .milliseconds(1)) })
    }
}

@Suite("Which server the client trusts", .timeLimit(.minutes(5)))
struct PeerTests {
    @Test("The client sends no byte of HTTP/2 to a server with a certificate for another name") func wrongName() async throws {
        let server = try ScriptedServer()
        try await withPool(server, tlsName: "api.push.apple.com") { bench in
            bench.submit(.make(1))
            try await bench.events.first { if case .connectionFailed(_, let reason) = $0 { reason.hasPrefix("tls") } else { false } }
            let end = try await server.ended.next()
            #expect(!end.heardHTTP2)
            #expect(server.requests.waiting.isEmpty)
        }
    }

    @Test("The client sends no byte of HTTP/2 to a server with an untrusted certificate") func untrusted() async throws {
        let server = try ScriptedServer(ScriptedServer.Behaviour(usesStranger: true))
        try await withPool(server, tlsName: "elsewhere.example") { bench in
            bench.submit(.make(1))
            try await bench.events.first { if case .connectionFailed(_, let reason) = $0 { reason.hasPrefix("tls") } else { false } }
            let end = try await server.ended.next()
            #expect(!end.heardHTTP2)
        }
    }

    @Test("The client sends no byte of HTTP/2 to a server that does not offer it", arguments: [[String](), ["http/1.1"]])
    func withoutHTTP2(alpn: [String]) async throws {
        let server = try ScriptedServer(ScriptedServer.Behaviour(alpn: alpn))
        try await withPool(server) { bench in
            bench.submit(.make(1))
            try await bench.events.first { if case .connectionFailed(_, let reason) = $0 { reason.hasPrefix("tls") } else { false } }
            let end = try await server.ended.next()
            #expect(!end.heardHTTP2)
            #expect(server.requests.waiting.isEmpty)
        }
    }

    @Test("The client gives up a server that never speaks") func muteServer() async throws {
        let server = try ScriptedServer(ScriptedServer.Behaviour(isDumb: true))
        try await withPool(server, { $0.handshakeTimeout = .milliseconds(100) }) { bench in
            bench.submit(.make(1))
            try await bench.events.first { if case .connectionFailed(_, let reason) = $0 { reason.contains("too long") } else { false } }
        }
    }
}
