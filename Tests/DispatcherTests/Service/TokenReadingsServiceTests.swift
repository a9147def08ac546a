import APNs
import APNsSimulator
import Broker
import Foundation
import Observability
import OpenSSL
import PushModel
import ServiceLifecycle
import Synchronization
import SystemIO
import TestIdentity
import TestSupport
import Testing

@testable import Dispatcher

/// APNs may count the provider tokens of a whole team, and a connection that got a 429 for them may stay unusable (docs/apns.md, Provider
/// tokens).
@Suite("Provider tokens that APNs counts for the team", .timeLimit(.minutes(5)))
struct TokenReadingsServiceTests {
    /// How a team's tokens count, with connections that stay unusable.
    static let teamReadings = [Readings.TokenUpdates.team, .teamNew]

    @Test(
        "Two keys of a team, and both environments of one: every delivery is accepted in the end, and no pool stays stuck",
        arguments: teamReadings)
    func twoCredentials(_ reading: Readings.TokenUpdates) async throws {
        let keys = [
            try TeamKey("shop", "KEY0000011", [.production, .sandbox], app: Fixture.shop),
            try TeamKey("other", "KEY0000012", [.production], app: Fixture.other),
        ]
        try await withMovedTime(reading, keys) { scene in
            for wave in 0..<2 {
                let rounds = try await scene.roundsUntilAccepted(
                    [
                        Self.job([Fixture.delivery(10 * wave), Fixture.delivery(10 * wave + 1)], app: Fixture.shop),
                        Self.job([Fixture.delivery(10 * wave + 2, environment: .sandbox)], app: Fixture.shop),
                        Self.job([Fixture.delivery(10 * wave + 3)], app: Fixture.other),
                    ], atMost: 6)
                #expect(rounds.count == 4)
                if wave == 0 { #expect(rounds.values.contains { $0 > 1 }, "two tokens, and APNs took them one after another") }
            }
            for (name, environment) in [("shop", APNsEnvironment.production), ("shop", .sandbox), ("other", .production)] {
                #expect(scene.serves(name, environment), "\(name) in \(environment)")
            }
            #expect(scene.bench.deadLetters.waiting.isEmpty)
        }
    }

    @Test(
        "A key that another one of the team replaces: every delivery is accepted in the end, also once the old key is revoked",
        arguments: teamReadings)
    func rotation(_ reading: Readings.TokenUpdates) async throws {
        let old = try TeamKey("shop", "KEY0000011", [.production, .sandbox], app: Fixture.shop)
        let new = try TeamKey("shop", "KEY0000012", [.production, .sandbox], app: Fixture.shop)
        try await withMovedTime(reading, [old], known: [new]) { scene in
            let both = { (first: Int) in
                Self.job([Fixture.delivery(first), Fixture.delivery(first + 1, environment: .sandbox)], app: Fixture.shop)
            }
            #expect(try await scene.roundsUntilAccepted([both(0)], atMost: 4).count == 2)
            try scene.write([new])
            await CredentialServiceTests.page(
                of: scene.dispatcher, shows: #"push_dispatcher_credentials_reloads_total{result="adopted"} 1"#)
            let rounds = try await scene.roundsUntilAccepted([both(2)], atMost: 4)
            #expect(rounds.count == 2 && rounds.values.allSatisfy { $0 > 1 }, "the new key's token comes too early")
            scene.bench.simulator.revoke(keyID: old.id)
            #expect(try await scene.roundsUntilAccepted([both(4)], atMost: 4).count == 2)
            #expect(scene.serves("shop", .production) && scene.serves("shop", .sandbox))
        }
    }

    @Test("A process that starts anew has another token: what it sends is accepted in the end", arguments: teamReadings)
    func restart(_ reading: Readings.TokenUpdates) async throws {
        let key = try TeamKey("shop", "KEY0000011", [.production], app: Fixture.shop)
        try await withMovedTime(reading, [key]) { scene in
            #expect(try await scene.roundsUntilAccepted([Self.job([Fixture.delivery(1)], app: Fixture.shop)], atMost: 1).count == 1)
            try await scene.dispatcher.stop()
            let next = try scene.startAnew()
            let rounds = try await next.roundsUntilAccepted([Self.job([Fixture.delivery(2)], app: Fixture.shop)], atMost: 2)
            #expect(Array(rounds.values) == [2])
            try await next.dispatcher.stop()
        }
    }

    @Test("One key in both environments shows APNs one token", arguments: teamReadings)
    func oneToken(_ reading: Readings.TokenUpdates) async throws {
        let key = try TeamKey("shop", "KEY0000011", [.production, .sandbox], app: Fixture.shop)
        try await withMovedTime(reading, [key]) { scene in
            let job = Self.job([Fixture.delivery(1), Fixture.delivery(2, environment: .sandbox)], app: Fixture.shop)
            let rounds = try await scene.roundsUntilAccepted([job], atMost: 4)
            #expect(rounds.values.allSatisfy { $0 == 1 })
        }
    }

    @Test("Three hours of renewals on connections of different ages: no 429, if APNs counts for each connection")
    func renewals() async throws {
        let key = try TeamKey("shop", "KEY0000011", [.production], app: Fixture.shop)
        try await withMovedTime(.connection, [key], connections: 3) { scene in
            for step in 0..<36 {
                let job = Self.job((0..<12).map { Fixture.delivery(100 * step + $0) }, app: Fixture.shop)
                let accepted = try await scene.roundsUntilAccepted([job], atMost: 1)
                #expect(accepted.count == 12)
                await scene.opened(3 + step / 5)
                // One connection at a time is replaced, so that their tokens have different ages.
                if step % 5 == 4 { scene.bench.simulator.goAway(.connection(step / 5 + 1)) }
                scene.clock.advance(by: .seconds(5 * 60))
            }
            let journal = scene.bench.simulator.journal()
            #expect(journal.allSatisfy { $0.status == 200 })
            #expect(Set(journal.map(\.connection)).count >= 8, "three, and seven replacements, the last perhaps without a request")
        }
    }

    @Test("Three hours of renewals in both environments of a key, whose connections are replaced in turn: no 429", arguments: teamReadings)
    func sharedRenewals(_ reading: Readings.TokenUpdates) async throws {
        let key = try TeamKey("shop", "KEY0000011", [.production, .sandbox], app: Fixture.shop)
        try await withMovedTime(reading, [key]) { scene in
            for step in 0..<36 {
                // One environment after the other, so that no token overtakes its successor on the way.
                for (index, environment) in [APNsEnvironment.production, .sandbox].enumerated() {
                    let job = Self.job([Fixture.delivery(2 * step + index, environment: environment)], app: Fixture.shop)
                    let accepted = try await scene.roundsUntilAccepted([job], atMost: 1)
                    try #require(accepted.count == 1)
                }
                if step % 5 == 4 { scene.bench.simulator.goAway(.environment(step % 10 == 4 ? .production : .sandbox)) }
                scene.clock.advance(by: .seconds(5 * 60))
            }
            let journal = scene.bench.simulator.journal()
            #expect(journal.allSatisfy { $0.status == 200 })
            #expect(Set(journal.map(\.connection)).count == 9, "one in each, and seven replacements")
        }
    }

    private static func job(_ deliveries: [PushJob.Delivery], app: AppSlug) -> PushJob {
        var job = Fixture.job(deliveries, app: app)
        job.notification = .random()
        job.acceptedAt = WallClock.milliseconds()
        // The pools' clock runs ahead by hours.
        job.expiresAt = job.acceptedAt + 20 * 24 * 3_600_000
        return job
    }
}

/// A signing key of the one team, and the app that it serves.
struct TeamKey: Sendable {
    let name: String
    let id: String
    let environments: [APNsEnvironment]
    let app: AppSlug
    let key: ES256PrivateKey

    init(_ name: String, _ id: String, _ environments: [APNsEnvironment], app: AppSlug) throws {
        (self.name, self.id, self.environments, self.app) = (name, id, environments, app)
        key = try ES256PrivateKey.generate()
    }

    var known: ProviderKey { ProviderKey(teamID: TestIdentity.teamID, keyID: id, publicKey: key.publicKey) }

    var entry: String {
        let names = environments.map { #""\#($0.rawValue)""# }.joined(separator: ",")
        return """
            {"name":"\(name)","team_id":"\(TestIdentity.teamID)","key_id":"\(id)","key_file":"\(id).p8","environments":[\(names)],\
            "apps":["\(app)"]}
            """
    }
}

/// A dispatcher whose pools, and a simulator, have a clock that a test moves. What waits in a delayed queue waits for the test.
struct MovedTime: Sendable {
    /// Both clocks of the pools, and that of the simulator.
    final class Clock: Sendable {
        private let ahead = Mutex(Duration.zero)

        func advance(by duration: Duration) { ahead.withLock { $0 += duration } }

        var wall: Int64 { WallClock.milliseconds() + Int64(ahead.withLock { $0 } / .milliseconds(1)) }
        var pools: APNsClock { APNsClock(now: { [self] in .now + ahead.withLock { $0 } }, wall: { [self] in wall }) }
    }

    let bench: ServiceBench
    let clock: Clock
    let folder: String
    let connections: Int
    let dispatcher: ServiceBench.Running
    fileprivate let delayed: Signal<ReceivedMessage>

    fileprivate init(_ bench: ServiceBench, _ clock: Clock, folder: String, connections: Int, delayed: Signal<ReceivedMessage>) throws {
        (self.bench, self.clock, self.folder, self.connections, self.delayed) = (bench, clock, folder, connections, delayed)
        dispatcher = try bench.startDispatcher {
            $0.credentialsFile = "\(folder)/credentials.json"
            $0.credentialsCheck = .milliseconds(20)
            $0.connections = connections
            $0.maximumConnections = connections
        } pools: {
            $0.clock = clock.pools
            $0.stagger = .milliseconds(1)
            // What is under way while the clock jumps is not late.
            ($0.connectTimeout, $0.handshakeTimeout, $0.pingAfter) = (.seconds(360_000), .seconds(360_000), .seconds(360_000))
        }
    }

    func startAnew() throws -> MovedTime {
        try MovedTime(bench, clock, folder: folder, connections: connections, delayed: delayed)
    }

    func write(_ keys: [TeamKey]) throws { try Self.write(keys, to: folder) }

    static func write(_ keys: [TeamKey], to folder: String) throws {
        for key in keys { try Data(key.key.pem().utf8).write(to: URL(filePath: "\(folder)/\(key.id).p8"), options: .atomic) }
        let text = #"{"v":1,"credentials":[\#(keys.map(\.entry).joined(separator: ","))]}"#
        try Data(text.utf8).write(to: URL(filePath: "\(folder)/credentials.json"), options: .atomic)
    }

    /// Sends jobs, and every 21 minutes again what APNs refused.
    /// - Returns: the round in which each delivery was accepted, from 1.
    func roundsUntilAccepted(_ jobs: [PushJob], atMost limit: Int) async throws -> [PushID: Int] {
        var accepted: [PushID: Int] = [:]
        var pending = Set(jobs.flatMap { $0.deliveries.map(\.id) })
        try await bench.publish(jobs)
        for round in 1...limit {
            var refused = Set<PushID>()
            while !pending.isEmpty {
                let event = try await bench.events.next()
                pending.subtract(event.deliveries.map(\.id))
                for delivery in event.deliveries {
                    if event.isFinal {
                        #expect(event.outcome == .accepted)
                        #expect(accepted.updateValue(round, forKey: delivery.id) == nil)
                    } else {
                        #expect(delivery.reason == "TooManyProviderTokenUpdates")
                        refused.insert(delivery.id)
                    }
                }
            }
            if refused.isEmpty { return accepted }
            pending = refused
            clock.advance(by: .seconds(21 * 60))
            try await sendOn(refused)
        }
        Issue.record("\(pending.count) deliveries were not accepted in \(limit) rounds")
        return accepted
    }

    /// Plays the end of the delay for deliveries that APNs refused.
    private func sendOn(_ deliveries: Set<PushID>) async throws {
        var missing = deliveries
        while !missing.isEmpty {
            let message = try await delayed.next()
            missing.subtract(try PushJob(decoding: message.body).deliveries.map(\.id))
            try await bench.publish([
                OutgoingMessage(
                    exchange: bench.topology.jobsExchange, routingKey: message.routingKey, messageID: message.messageID ?? .random(),
                    contentType: message.contentType, headers: message.headers, body: message.body)
            ])
        }
    }

    /// Waits until the first pool has opened so many connections since its start.
    func opened(_ count: Int) async {
        await CredentialServiceTests.page(
            of: dispatcher,
            shows: #"apns_connections_opened_total{api="device",credential="shop",environment="production"} \#(count)"# + "\n")
    }

    /// The pool is not paused, and not without a connection for its work.
    func serves(_ credential: String, _ environment: APNsEnvironment) -> Bool {
        let page = dispatcher.registry.render()
        return ["ready", "idle"].contains { state in
            page.contains(
                #"apns_pool_state{api="device",credential="\#(credential)",environment="\#(environment.rawValue)",state="\#(state)"} 1"#)
        }
    }
}

/// - Parameters:
///   - keys: of the credentials file.
///   - known: further ones that APNs knows.
func withMovedTime(
    _ reading: Readings.TokenUpdates, _ keys: [TeamKey], known: [TeamKey] = [], connections: Int = 1,
    _ body: @Sendable (MovedTime) async throws -> Void
) async throws {
    let clock = MovedTime.Clock()
    let folder = try TestIdentity.configured.get().makeFolder()
    try MovedTime.write(keys, to: folder)
    var scenario = Scenario.calm
    scenario.readings.tokenUpdates = reading
    scenario.readings.tokenRefusal = .connection
    try await withServiceBench { [scenario] in
        $0.keys = (keys + known).map(\.known)
        $0.clock = { clock.wall }
        $0.scenario = scenario
    } _: { bench in
        let delayed = Signal<ReceivedMessage>()
        let listener = try Consumer(
            name: "delayed", configuration: bench.broker, topology: bench.topology,
            // The shorter delays are those of deliveries that were not sent: they are real here. Nothing is acknowledged.
            subscriptions: Lane.allCases.flatMap { lane in
                RetryDelay.allCases.filter { $0 >= .thirtySeconds }.map {
                    Subscription(queue: bench.topology.retryQueue(lane, $0), prefetch: 100)
                }
            },
            logger: .silent, onMessages: { delayed.send(contentsOf: $0) })
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await listener.run() }
            let scene = try MovedTime(bench, clock, folder: folder, connections: connections, delayed: delayed)
            let result: Result<Void, any Error>
            do { result = .success(try await body(scene)) } catch { result = .failure(error) }
            await scene.dispatcher.group.triggerGracefulShutdown()
            group.cancelAll()
            try result.get()
            try await scene.dispatcher.task.value
        }
    }
}
