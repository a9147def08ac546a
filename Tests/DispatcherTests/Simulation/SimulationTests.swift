import PushModel
import TestSupport
import Testing

@testable import Broker
@testable import Dispatcher

@Suite("Whatever order things happen in", .serialized, .timeLimit(.minutes(5)))
struct SimulationTests {
    @Test("No promise is broken in two thousand schedules, and every delivery ends", arguments: 0..<30)
    func keepsPromises(block: Int) async throws {
        let complaints = try await complaints(seeds: (block * 70)..<(block * 70 + 70)) { world, _ in
            world.play(steps: 150)
            world.settleDown()
            world.audit()
        }
        #expect(complaints.isEmpty)
    }

    @Test("A stop at any moment ends, gives back what did not leave, and sends nothing twice", arguments: 0..<10)
    func stopsAtAnyMoment(block: Int) async throws {
        let seeds = (1_000_000 + block * 70)..<(1_000_000 + block * 70 + 70)
        let complaints = try await complaints(seeds: seeds) { world, seed in
            world.play(steps: 20 + seed % 80)
            world.stop()
            if !world.core.isDrained { world.breach("it is not drained") }
            if !world.unacknowledged.isEmpty { world.breach("\(world.unacknowledged.count) messages were never acknowledged") }
        }
        #expect(complaints.isEmpty)
    }

    /// What went wrong, with the seed that repeats it.
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

extension SimulatedWorld {
    /// Chance decides what happens next.
    mutating func play(steps: Int) {
        toggleControl()
        for step in 0..<steps {
            switch roll(24) {
            case 0...3: addJob(step)
            case 4: if roll(4) == 0 { addPoison() }
            case 5...9: deliverJobs()
            case 10...13: finishBatch()
            case 14...16: settlePublication()
            case 17: readControl(upTo: 1 + roll(3))
            case 18: writeControl()
            case 19: if roll(6) == 0 { loseJobsConnection() }
            case 20: if roll(5) == 0 { toggleControl() }
            default: tick(Int64([1, 20, 300, 1_200, 40_000][roll(5)]))
            }
        }
    }

    /// Everything works from now on, until nothing is left to do.
    mutating func settleDown() {
        if !isControlConnected { toggleControl() }
        for _ in 0..<40_000 {
            readControl(upTo: .max)
            deliverJobs()
            finishBatch()
            settlePublication()
            let isQuiet = ready.isEmpty && waiting.isEmpty && publishing.isEmpty && core.isDrained
            if isQuiet && delayed.isEmpty { return }
            let next = delayed.map(\.due).min() ?? now
            tick(isQuiet ? max(1, next - now) : 20)
        }
        breach("it does not come to rest")
    }

    mutating func stop() {
        handle(.stop)
        for _ in 0..<10_000 where !core.isDrained {
            finishBatch()
            settlePublication()
            tick(20)
        }
        if !waiting.isEmpty { breach("something is left in a pool") }
    }

    /// Every delivery has ended, and nothing is left over.
    mutating func audit() {
        for (id, account) in deliveries where account.confirmedFinals == 0 { breach("delivery \(id.low) has no final outcome") }
        if !unacknowledged.isEmpty { breach("\(unacknowledged.count) messages were never acknowledged") }
        if core.gate.count > 0 && !core.jobs.isEmpty { breach("jobs are left in the core") }
    }
}
