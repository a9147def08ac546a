import Broker
import Glibc
import Postgres
import PushAPI
import PushModel
import StrictJSON
import TestBroker
import TestSupport
import Testing

@Suite("A large audience survives kills of the service that expands it", .timeLimit(.minutes(10)))
struct FanOutKillTests {
    private static let kills = 5
    private static let page = 500

    /// Promises 1 and 2 (docs/promises.md) during fan-out. Set `PUSH_TEST_AUDIENCE=1000000` for a long run.
    @Test("kill -9 at any moment: no device is skipped, few get a second copy, with the same id, and the counters are exact")
    func killedWhileExpanding() async throws {
        let seed = TestParameters.seed
        print("FanOutKillTests: PUSH_TEST_SEED=\(seed)")
        var random = SeededGenerator(seed: seed)
        try await withPlatform { platform in
            let journal = "\(platform.folder)/journal"
            try await platform.startSimulator(["JOURNAL_FILE": journal])
            var tokenService = try await platform.startTokenService(Self.settings)
            let dispatcher = try await platform.startDispatcher()
            try await Client.with(platform, tokenService) { client in
                let audience = try await LargeAudience.register(TestParameters.audience, on: platform)
                let id = try await client.sendToAll("to everybody")
                let jobs = (audience.count + PushJob.maximumDeliveries - 1) / PushJob.maximumDeliveries
                // Jobs that the database did not hold as published when a process died.
                var doubtful: Set<Int> = []
                for moment in (0..<Self.kills).map({ _ in Int.random(in: 0..<jobs * 9 / 10, using: &random) }).sorted() {
                    try await Self.wait(for: moment, of: id, audience)
                    try await Task.sleep(for: .microseconds(Int.random(in: 0..<40_000, using: &random)))  // anywhere in a page's work
                    await tokenService.process.killAndWait()
                    let left = try await audience.progress(of: id)
                    let newer = left.unpublished.subtracting(doubtful)
                    // Two pages under way (FanOut), each of which ends with a job of its own. They need not be the last two: one that waits
                    // is passed by others.
                    #expect(newer.count <= 2 * (Self.page / PushJob.maximumDeliveries), "seed \(seed)")
                    doubtful.formUnion(left.unpublished)
                    try await audience.expireLeases()
                    tokenService = try await platform.startTokenService(Self.settings)
                }
                let survivor = client.talking(to: tokenService)
                let patience = Duration.seconds(240 + audience.count / 500)
                _ = try await eventually("everything has its outcome", within: patience) {
                    try await survivor.status(id)["state"]?.stringValue == "completed" ? true : nil
                }
                try await Self.settle(dispatcher, tokenService, on: platform, patience: patience)
                try await Self.check(audience, id, journal: journal, doubtful: doubtful, seed: seed)
            }
        }
    }

    private static let settings = ["FAN_OUT_PAGE_INSTALLATIONS": "\(page)", "RELAY_INTERVAL_MS": "50"]

    /// Waits until fan-out has made the given job.
    private static func wait(for job: Int, of id: String, _ audience: LargeAudience) async throws {
        _ = try await eventually("job \(job) is made", pause: .milliseconds(2)) {
            let progress = try await audience.progress(of: id)
            return progress.jobs > job || progress.isFannedOut ? true : nil
        }
    }

    /// Waits until the second outcomes of deliveries that were sent twice are applied too.
    private static func settle(
        _ dispatcher: RunningService, _ tokenService: RunningService, on platform: Platform, patience: Duration
    ) async throws {
        let configuration = try TestBroker.configuration()
        let topology = platform.topology
        for queue in [topology.jobQueue(.bulk), topology.tokenServiceOutcomesQueue] {
            _ = try await eventually("\(queue) is empty", within: patience) {
                try await TestBroker.messageCount(queue, configuration) == 0 ? true : nil
            }
        }
        dispatcher.process.send(SIGTERM)
        #expect(await dispatcher.process.waitForEnd() == .exited(0), "\(dispatcher.process.log)")
        _ = try await eventually("all outcomes are applied", within: patience) {
            try await TestBroker.messageCount(topology.tokenServiceOutcomesQueue, configuration) == 0 ? true : nil
        }
        tokenService.process.send(SIGTERM)
        #expect(await tokenService.process.waitForEnd() == .exited(0), "\(tokenService.process.log)")
    }

    private static func check(
        _ audience: LargeAudience, _ id: String, journal: String, doubtful: Set<Int>, seed: UInt64
    ) async throws {
        let arrivals = try LargeAudience.arrivals(journal: journal)
        let tokens = try await audience.tokens()
        #expect(tokens.count == audience.count)
        #expect(Set(arrivals.keys.map(\.token)) == tokens, "seed \(seed): a device was skipped")
        #expect(arrivals.count == audience.count, "seed \(seed): a device got two deliveries, not two copies of one")
        #expect(Set(arrivals.keys.map(\.apnsID)).count == audience.count)
        let again = Set(arrivals.filter { $0.value > 1 }.keys.map { Self.job(of: $0.apnsID) })
        #expect(again.isSubset(of: doubtful), "seed \(seed): sent twice beyond what was under way at a kill")
        print("FanOutKillTests: \(again.count) of \(doubtful.count) doubtful jobs were sent twice")

        let counts = try await audience.counts(of: id)
        #expect(counts.total == audience.count && counts.pending == 0, "seed \(seed): \(counts)")
        #expect(counts.byClass == ["accepted": audience.count], "seed \(seed): \(counts)")
    }

    /// A delivery's id ends with its job in 32 bits and its position in 16.
    private static func job(of apnsID: String) -> Int { Int(PushID(apnsID).map { UInt32(truncatingIfNeeded: $0.low >> 16) } ?? .max) }
}
