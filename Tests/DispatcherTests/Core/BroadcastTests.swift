import OpenSSL
import PushModel
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

@Suite("A broadcast takes the path of every job")
struct BroadcastTests {
    private func bench(sending count: Int = 1) throws -> CoreBench {
        let bench = try CoreBench()
        bench.take(Fixture.broadcast((1...count).map { Fixture.delivery($0, to: Fixture.channel()) }))
        return bench
    }

    @Test("It goes to the pool of its app as one request, with the channel's id and without a collapse id") func sends() throws {
        let bench = try CoreBench()
        var job = Fixture.broadcast([Fixture.delivery(1, to: Fixture.channel())])
        job.collapseID = "score"
        bench.take(job)
        let (batch, pool) = try #require(bench.submitted.first)
        #expect(pool == 0)
        #expect(batch.target == .broadcast)
        #expect(batch.requests.map(\.token) == [Fixture.channel().asToken])
        #expect(!batch.hasCollapseID)
        bench.finishNext(200)
        #expect(bench.events.map(\.outcome) == [.accepted])
        #expect(bench.events.first?.deliveries.first?.installation == .zero)
        bench.confirmNext()
        #expect(bench.acknowledged.count == 1)
    }

    @Test(
        "No answer to it is about a token",
        arguments: [
            (400, "ChannelNotRegistered"), (400, "BadChannelId"), (400, "BadDeviceToken"), (410, "Unregistered"), (413, "PayloadTooLarge"),
        ])
    func rejects(status: Int, reason: String) throws {
        let bench = try bench()
        bench.finishNext(status, reason)
        #expect(bench.events.map(\.outcome) == [.rejected])
        #expect(bench.events.map(\.isFinal) == [true])
        #expect(bench.retries().isEmpty)
    }

    @Test(
        "A fault in the app's set-up is tried again",
        arguments: [(400, "FeatureNotEnabled"), (403, "TopicMismatch"), (400, "TopicDisallowed")])
    func waitsForTheOperator(status: Int, reason: String) throws {
        let bench = try bench()
        bench.finishNext(status, reason)
        #expect(bench.events.map(\.outcome) == [.misconfigured])
        #expect(bench.events.map(\.isFinal) == [false])
        #expect(bench.retries().map(\.isBroadcast) == [true])
    }

    @Test("After 429 the channel waits, and so does the next broadcast to it; other channels do not") func throttles() throws {
        let bench = try bench()
        bench.finishNext(429, "TooManyRequests")
        #expect(bench.events.map(\.outcome) == [.throttled])
        let retry = try #require(bench.retries().first)
        #expect(retry.isBroadcast && retry.attempt == 1 && retry.deliveries.map(\.token) == [Fixture.channel().asToken])
        bench.take(Fixture.broadcast([Fixture.delivery(2, to: Fixture.channel())], notification: 8), tag: 2)
        #expect(bench.submitted.isEmpty)
        bench.take(Fixture.broadcast([Fixture.delivery(3, to: Fixture.channel("AAAA"))], notification: 9), tag: 3)
        #expect(bench.submitted.count == 1)
    }

    @Test("Cancellations and holds stop it") func stops() throws {
        let bench = try CoreBench()
        let job = Fixture.broadcast([Fixture.delivery(1, to: Fixture.channel())])
        bench.obey(.cancel(app: job.app, notification: job.notification, at: bench.now))
        bench.take(job)
        #expect(bench.submitted.isEmpty)
        #expect(bench.events.map(\.outcome) == [.cancelled])
        bench.obey(.hold(id: PushID(high: 1, low: 1), scope: .app(job.app), endsAt: nil, at: bench.now))
        bench.take(Fixture.broadcast([Fixture.delivery(2, to: Fixture.channel())], notification: 8), tag: 2)
        #expect(bench.submitted.isEmpty)
        #expect(bench.events.map(\.outcome) == [.cancelled, .held])
        #expect(bench.retries().map(\.isBroadcast) == [true])
    }

    @Test(
        "A credential for certain topics serves channels by the topic of Live Activities or the bundle id",
        arguments: [(["com.example.shop.push-type.liveactivity"], 1), (["com.example.shop"], 1), (["com.example.shop.voip"], 0), ([], 1)])
    func picksTheCredential(topics: [String], expected: Int) throws {
        let key = try ES256PrivateKey.generate()
        func entry(_ name: String, _ topics: [String]) -> CredentialsEntry {
            CredentialsEntry(
                credential: APNsCredential(name: name, kind: .token(teamID: "TEAMIDTEAM", keyID: "KEYIDKEYID", key: key)),
                environments: [.production], apps: [Fixture.shop], topics: topics)
        }
        // Pool 0 serves all other topics, unless the second entry takes them.
        var directory = CredentialDirectory(CredentialsFile(entries: [entry("all", []), entry("some", topics)]))
        let app = directory.number(of: Fixture.shop)
        #expect(directory.channelPool(app: app, .production, bundleID: "com.example.shop") == expected)
    }
}
