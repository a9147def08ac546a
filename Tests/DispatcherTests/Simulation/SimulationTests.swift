import Foundation
import PushModel
import TestSupport
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

@Suite("Random orders of events", .serialized, .timeLimit(.minutes(20)))
struct SimulationTests {
    /// Each block is one case. The cases run one at a time and leave the other processor to other tests. A fifth of the schedules is long.
    private static let seedsPerBlock = 20

    @Test(
        "No sequence of events breaks a promise, and every delivery ends",
        arguments: 0..<max(1, SimulationSeed.schedules / seedsPerBlock))
    func keepsPromises(block: Int) async throws {
        let first = block * Self.seedsPerBlock
        let complaints = try await complaints(seeds: first..<first + Self.seedsPerBlock) { world, seed in world.live(seed) }
        #expect(complaints.isEmpty)
    }

    @Test("A stop at any moment ends, returns unsent deliveries, and sends nothing twice", arguments: 0..<10)
    func stopsAtAnyMoment(block: Int) async throws {
        let seeds = (1_000_000 + block * 100)..<(1_000_000 + block * 100 + 100)
        let complaints = try await complaints(seeds: seeds) { world, seed in world.stopEarly(seed) }
        #expect(complaints.isEmpty)
    }

    @Test("The schedule of PUSH_SIMULATION_SEED, alone", .enabled(if: SimulationSeed.named != nil))
    func replays() async throws {
        let seed = try #require(SimulationSeed.named)
        let complaints = try await complaints(seeds: seed..<seed + 1) { world, seed in
            if seed >= 1_000_000 { world.stopEarly(seed) } else { world.live(seed) }
        }
        #expect(complaints.isEmpty)
    }

    @Test("Pools grow and shrink and credentials change in the simulation, so that its checks of them mean something")
    func meetsWhatItIsAbout() async throws {
        try await meets(stride(from: 0, to: 400, by: 20), atLeast: [1, 1, 1]) { world in
            [
                world.pools.count { $0.mostConnections > SimulatedPool.rules.connections },
                world.pools.reduce(0) { $0 + $1.shrinkings }, world.pools.count { $0.isRetired },
            ]
        }
    }

    @Test("Holds keep jobs, are lifted and end by themselves in the simulation, so that its checks of them mean something")
    func meetsHolds() async throws {
        try await meets(stride(from: 0, to: 40, by: 1), atLeast: [1]) { [$0.timesHeld] }
    }

    @Test("Streams are refused, and unanswered deliveries are stopped later, in the simulation")
    func meetsRefusalsAndLateStops() async throws {
        try await meets(stride(from: 5, to: 1_500, by: 10), atLeast: [21, 1]) { [$0.timesRefused, $0.timesRemembered] }
    }

    @Test("Calls are sent a second time in the simulation, so that its checks of them mean something")
    func meetsSecondCopies() async throws {
        try await meets(stride(from: 0, to: 2_000, by: 5), atLeast: [1]) { [$0.secondCopies] }
    }

    @Test("Outcomes are refused in the simulation, for a moment and for longer than the broker waits for an acknowledgement")
    func meetsRefusedOutcomes() async throws {
        try await meets(stride(from: 7, to: 400, by: 20), atLeast: [101]) { [$0.timesOutcomesWaited] }
    }

    @Test("The simulation finds a dispatcher without a place for refused outcomes")
    func findsUnacknowledgedJobs() async throws {
        let complaints = try await complaints(seeds: 0..<100) { world, seed in
            world.refusesWaitingOutcomes = true
            world.live(seed)
        }
        #expect(complaints.contains { $0.contains("unacknowledged for longer than consumer_timeout") }, "\(complaints.prefix(3))")
    }

    @Test("The simulation finds a dispatcher that ignores the control stream", arguments: SimulatedWorld.Deafness.allCases)
    func findsAPlantedFault(deafness: SimulatedWorld.Deafness) async throws {
        var found: [String] = []
        for seed in 0..<1000 where !found.contains(where: { $0.contains(deafness.breach) }) {
            found += try await complaints(seeds: seed..<seed + 1) { world, seed in
                world.deafTo = deafness
                world.live(seed)
            }
        }
        #expect(found.contains { $0.contains(deafness.breach) }, "\(found.prefix(3))")
    }

    @Test("A repeated seed repeats its schedule")
    func repeats() async throws {
        func ending(_ seed: Int) async throws -> String {
            try await onOwnThread {
                var world = try SimulatedWorld(seed: UInt64(seed))
                world.live(seed)
                return "\(world.now) \(world.lastTag) \(world.dead.count) \(world.stream.count) \(world.chance.next())"
            }
        }
        for seed in [3, 14, 15] { #expect(try await ending(seed) == ending(seed)) }
    }

    /// Expects that these schedules meet each of some things so often, all together. It looks at no more of them than that takes.
    private func meets(
        _ seeds: StrideTo<Int>, atLeast enough: [Int], _ counts: @escaping @Sendable (SimulatedWorld) -> [Int],
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let seen = try await onOwnThread {
            var seen = enough.map { _ in 0 }
            for seed in seeds where zip(seen, enough).contains(where: { $0 < $1 }) {
                var world = try SimulatedWorld(seed: UInt64(seed))
                world.live(seed)
                seen = zip(seen, counts(world)).map { $0 + $1 }
            }
            return seen
        }
        #expect(zip(seen, enough).allSatisfy { $0 >= $1 }, "\(seen)", sourceLocation: sourceLocation)
    }

    /// The breaches, with the seed that repeats them.
    private func complaints(seeds: Range<Int>, _ schedule: @escaping @Sendable (inout SimulatedWorld, Int) -> Void) async throws -> [String]
    {
        try await onOwnThread {
            try seeds.flatMap { seed in
                var world = try SimulatedWorld(seed: UInt64(seed))
                schedule(&world, seed)
                return world.breaches.prefix(5).map { "seed \(seed): \($0)" }
            }
        }
    }
}

/// Which schedule to repeat: the number that a failure named.
enum SimulationSeed {
    static let named = number("PUSH_SIMULATION_SEED")
    /// A small number for quick runs; `deploy/test` runs ten thousand.
    static let schedules = number("PUSH_SIMULATION_SCHEDULES") ?? 1_000

    private static func number(_ name: String) -> Int? { ProcessInfo.processInfo.environment[name].flatMap { Int($0) } }
}

extension SimulatedWorld {
    mutating func live(_ seed: Int) {
        play(steps: seed.isMultiple(of: 5) ? 150 : 40, beginsBusy: seed.isMultiple(of: 20))
        if seed % 20 == 7 { beRefused() }
        settleDown()
        audit()
        if seed.isMultiple(of: 20) { rest() }
    }

    mutating func stopEarly(_ seed: Int) {
        play(steps: 20 + seed % 80)
        stop()
        if !core.isDrained { breach("it is not drained") }
        if !unacknowledged.isEmpty { breach("\(unacknowledged.count) messages were never acknowledged") }
    }

    /// Runs random events.
    mutating func play(steps: Int, beginsBusy: Bool = false) {
        toggleControl()
        if beginsBusy {
            beBusy(steps)
            calmDown()
        }
        for step in 0..<steps {
            switch roll(26) {
            case 0...3: addJob(step)
            case 4: if roll(4) == 0 { addPoison() }
            case 5...9: deliverJobs()
            case 10...13: for _ in 0..<3 { stepPools() }
            case 14...16: settlePublication()
            case 17: readControl(upTo: 1 + roll(3))
            case 18: writeControl()
            case 19: if roll(6) == 0 { loseJobsConnection() }
            case 20: if roll(5) == 0 { toggleControl() } else if roll(4) == 0 { forgetReader() }
            case 21: if roll(3) == 0 { changeCredentials() }
            case 22: if roll(8) == 0 { beBusy(step) }
            case 23: if roll(4) == 0 { refusesOutcomes.toggle() }
            case 24: if roll(2) == 0 { catchUp() }
            default: tick(Int64([1, 20, 300, 1_200, 40_000][roll(5)]))
            }
        }
    }

    /// Nothing is late for a moment. The marker returns, and earlier control messages apply to the next jobs.
    mutating func catchUp() {
        if !isControlConnected { toggleControl() }
        for _ in 0..<4 {
            settlePublication()
            readControl(upTo: .max)
        }
        deliverJobs()
    }

    /// For some seconds one pool has more work than streams, and nothing fails, long enough for the pool to grow.
    mutating func beBusy(_ step: Int) {
        guard let pool = plan.pools.first(where: { $0.entry.apps.contains(Fixture.shop) && $0.environment == .production }) else { return }
        (isFair, crowded) = (true, pool.number)
        refusesOutcomes = false
        if !isControlConnected { toggleControl() }
        liftAll()
        for place in pools[pool.number].connections.indices { advertise(pool.number, place) }
        for round in 0..<14 {
            readControl(upTo: .max)
            addJob(1_000 + step * 14 + round)
            for _ in 0..<2 { deliverJobs() }
            for _ in 0..<2 { stepPools() }
            settlePublication()
            tick(300)
        }
        (isFair, crowded) = (false, nil)
    }

    /// The pool works off the backlog and then rests, long enough to shrink.
    mutating func calmDown() {
        guard let pool = plan.pools.first(where: { $0.entry.apps.contains(Fixture.shop) && $0.environment == .production }) else { return }
        (isFair, crowded) = (true, pool.number)
        for _ in 0..<70 {
            readControl(upTo: .max)
            deliverJobs()
            for _ in 0..<3 { stepPools() }
            settlePublication()
            tick(1_000)
        }
        (isFair, crowded) = (false, nil)
    }

    /// The broker takes no outcomes for longer than it waits for an acknowledgement. Everything else works.
    mutating func beRefused() {
        let consumerTimeout: Int64 = 300_000
        if !isControlConnected { toggleControl() }
        refusesOutcomes = true
        for round in 0..<100 {
            if round < 20 { addJob(5_000 + round) }
            readControl(upTo: .max)
            deliverJobs()
            for _ in 0..<6 { stepPools() }
            while !publishing.isEmpty || !markers.isEmpty {
                settlePublication()
                readControl(upTo: .max)
            }
            tick(6_000)
        }
        for stored in unacknowledged.values where now - stored.deliveredAt > consumerTimeout {
            breach("a job is unacknowledged for longer than consumer_timeout: \(now - stored.deliveredAt) ms")
        }
    }

    /// Everything works from now on, until nothing is left to do.
    mutating func settleDown() {
        if !isControlConnected { toggleControl() }
        liftAll()
        isFair = true
        refusesOutcomes = false
        // Every app has its credential in the end; until then what it was sent waits.
        if plan.pools.count < pools.count { changeCredentials(isComplete: true) }
        for _ in 0..<20_000 {
            readControl(upTo: .max)
            deliverJobs()
            if pools.contains(where: { !$0.isEmpty || !$0.dialling.isEmpty }) { for _ in 0..<6 { stepPools() } }
            for _ in 0..<3 { settlePublication() }
            let isQuiet = ready.isEmpty && pools.allSatisfy(\.isEmpty) && publishing.isEmpty && markers.isEmpty && core.isDrained
            if isQuiet && delayed.isEmpty && waitingOutcomes.isEmpty { return }
            let next = (delayed.map(\.due) + waitingOutcomes.map(\.due)).min() ?? now
            // While everything waits for a pool's next dial, one look a second is enough.
            let isWaiting =
                ready.isEmpty && publishing.isEmpty && markers.isEmpty && pools.allSatisfy { $0.inFlightCount == 0 && $0.dialling.isEmpty }
            tick(isQuiet ? max(1, next - now) : isWaiting ? 1000 : 100)
        }
        breach("it does not come to rest")
    }

    mutating func stop() {
        handle(.stop)
        for _ in 0..<10_000 {
            if core.isDrained { break }
            for _ in 0..<3 { stepPools() }
            settlePublication()
            tick(20)
        }
        if pools.contains(where: { !$0.isEmpty }) { breach("something is left in a pool") }
    }

    /// Without work a pool goes back to its minimum, one connection after another.
    mutating func rest() {
        for _ in 0..<60 {
            tick(5_000)
            for _ in 0..<pools.count { stepPools() }
        }
        let minimum = SimulatedPool.rules.connections
        for pool in pools.indices where pools[pool].isSettled && pools[pool].lifecycle.usableConnections > minimum {
            breach("pool \(pool) keeps \(pools[pool].lifecycle.usableConnections) connections for nothing")
        }
    }

    /// Every delivery has ended, and nothing is left over.
    mutating func audit() {
        for (id, account) in deliveries where account.confirmedFinals == 0 { breach("delivery \(id.low) has no final outcome") }
        if !unacknowledged.isEmpty { breach("\(unacknowledged.count) messages were never acknowledged") }
        if core.gate.count > 0 && !core.jobs.isEmpty { breach("jobs are left in the core") }
    }
}

extension SimulatedWorld.Deafness {
    /// The name in the account.
    fileprivate var breach: String {
        switch self {
        case .fences: "although a fence was known"
        case .cancels: "although its notification was cancelled"
        case .holds: "although it was held"
        }
    }
}
