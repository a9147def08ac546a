import APNsSimulator
import Logging
import OpenSSL
import PushModel
import SystemIO
import TestIdentity
import TestSupport
import Testing

@testable import APNs

/// Against the simulator, whose rules for channels are Apple's.
@Suite("Broadcasts, and the management of channels", .timeLimit(.minutes(5)))
struct ChannelTests {
    private static let app = "com.example.shop"

    /// The pools of one credential: for broadcasts, and for channels.
    private struct Bench {
        let simulator: APNsSimulator
        let broadcasts: PoolBench
        let channels: PoolBench

        func manage(_ request: ChannelCommand.Request, expiresIn milliseconds: Int64 = 60_000) async throws -> APNsAnswer {
            channels.submit(
                APNsBatch(tag: 1, id: .random(), request, bundleID: app, expiresAt: WallClock.milliseconds() + milliseconds))
            return try #require(try await channels.finished.next().answers.first)
        }

        func create(_ storage: ChannelStorage = .latest) async throws -> ChannelID {
            let answer = try await manage(.create(storage))
            #expect(answer.result == .response(status: 201, reason: nil, timestamp: nil, retryAfter: nil))
            return try #require(answer.content?.channelID.flatMap { ChannelID($0) })
        }
    }

    private func with(
        _ changePool: (inout APNsPoolConfiguration) -> Void = { _ in }, _ body: (Bench) async throws -> Void
    ) async throws {
        let identity = try TestIdentity.shared.get()
        let simulator = try APNsSimulator(
            APNsSimulatorConfiguration(
                certificateFile: identity.certificateFile, keyFile: identity.keyFile,
                keys: [ProviderKey(teamID: TestIdentity.teamID, keyID: TestIdentity.keyID, publicKey: identity.key.publicKey)]),
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        try simulator.start()
        let bench = Bench(
            simulator: simulator, broadcasts: try PoolBench(port: simulator.productionPort, service: .broadcast, changePool),
            channels: try PoolBench(port: simulator.port(.production, isManagement: true), service: .channels, changePool))
        let result: Result<Void, any Error>
        do { result = .success(try await body(bench)) } catch { result = .failure(error) }
        await bench.broadcasts.pool.shutdown(deadline: .zero)
        await bench.channels.pool.shutdown(deadline: .zero)
        simulator.stop()
        try result.get()
    }

    @Test("A channel is made, read, listed and deleted") func manages() async throws {
        try await with { bench in
            let (first, second) = (try await bench.create(.none), try await bench.create(.latest))
            let (stateless, keeping) = (try await bench.manage(.read(first)), try await bench.manage(.read(second)))
            #expect(stateless.content?.storage == ChannelStorage.none && keeping.content?.storage == .latest)
            let listed = try await bench.manage(.list)
            #expect(Set(listed.content?.channels ?? []) == [first.text, second.text])
            let deleted = try await bench.manage(.delete(first))
            #expect(deleted.result == .response(status: 204, reason: nil, timestamp: nil, retryAfter: nil))
            let rest = try await bench.manage(.list)
            #expect(rest.content?.channels == [second.text])
            let again = try await bench.manage(.delete(first))
            #expect(again.result == .response(status: 400, reason: "ChannelNotRegistered", timestamp: nil, retryAfter: nil))
        }
    }

    @Test("A list that is longer than HTTP/2's first window is read whole") func readsLongLists() async throws {
        let count = 3_000
        try await with({ $0.requestTimeout = .seconds(120) }) { bench in
            for tag in 0..<UInt64(count) {
                bench.channels.submit(
                    APNsBatch(tag: tag, id: .random(), .create(.none), bundleID: Self.app, expiresAt: WallClock.milliseconds() + 120_000))
            }
            let made = try await bench.channels.finished.next(count).flatMap(\.answers).compactMap(\.content?.channelID)
            #expect(Set(made).count == count)
            let listed = try await bench.manage(.list)
            #expect(Set(listed.content?.channels ?? []) == Set(made))
        }
    }

    @Test("One request reaches every device that listens to the channel, and the journal has its id") func broadcasts() async throws {
        try await with { bench in
            let channel = try await bench.create()
            let devices = (0..<20).map { APNsRequest.make($0, tag: 5).token.hex }
            for device in devices {
                try bench.simulator.install(device)
                #expect(try bench.simulator.listen(device, to: [channel.text]) == nil)
            }
            bench.simulator.clearJournal()
            let batch = APNsBatch.broadcast(to: [channel])
            bench.broadcasts.submit(batch)
            #expect(try await bench.broadcasts.next()[1]?[0] == .accepted)
            for device in devices { #expect(try await bench.simulator.inbox(device, reaching: 1).count == 1) }
            #expect(bench.simulator.journal().map(\.apnsID) == [batch.requests[0].id.description])
        }
    }

    @Test("APNs' refusals of a broadcast come with their reasons") func refuses() async throws {
        try await with { bench in
            let unknown = try #require(ChannelID("AAAA"))
            bench.broadcasts.submit(.broadcast(to: [unknown], tag: 1))
            let long = #"{"aps":{"timestamp":1,"event":"update","content-state":{"a":""# + String(repeating: "a", count: 5120) + #""}}}"#
            let stateless = try await bench.create(.none)
            bench.broadcasts.submit(.broadcast(to: [stateless], tag: 2, payload: long))
            bench.broadcasts.submit(.broadcast(to: [stateless], tag: 3, expiration: 1_900_000_000))
            bench.broadcasts.submit(.broadcast(to: [stateless], tag: 4, topic: "com.example.shop.push-type.liveactivity"))
            let finished = try await bench.broadcasts.next(4)
            func refusal(_ status: Int, _ reason: String) -> APNsAnswer.Result {
                .response(status: status, reason: reason, timestamp: nil, retryAfter: nil)
            }
            #expect(finished[1]?[0] == refusal(400, "ChannelNotRegistered"))
            #expect(finished[2]?[0] == refusal(413, "PayloadTooLarge"))
            #expect(finished[3]?[0] == refusal(400, "BadExpirationDate"))
            #expect(finished[4]?[0] == refusal(400, "TopicDisallowed"))
        }
    }

    @Test("A request whose answer does not come is unknown, also if APNs made the channel") func losesAnswers() async throws {
        try await with({ $0.requestTimeout = .seconds(5) }) { bench in
            try bench.simulator.play(
                Scenario(
                    text:
                        #"""
                        {"v":1,"name":"late","requests":[{"on":["channels"],"positions":[1],"do":[{"action":"late","delay_ms":600000}]}]}
                        """#)
            )
            let lost = try await bench.manage(.create(.none))
            #expect(lost.result == .unknown(.timedOut))
            // The journal has the request once it was done.
            #expect(await bench.simulator.journal(reaching: 1).map(\.status) == [201])
            try bench.simulator.playNothing()
            let listed = try await bench.manage(.list)
            #expect(listed.content?.channels?.count == 1)
        }
    }

    @Test("Nothing is sent at the expiry of a request") func expires() async throws {
        try await with { bench in
            let late = try await bench.manage(.create(.none), expiresIn: 0)
            #expect(late.result == .stopped(.expired))
            #expect(bench.simulator.journal().isEmpty)
        }
    }
}
