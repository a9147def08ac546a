import PushModel
import Testing

@testable import Broker
@testable import Dispatcher

@Suite("Whatever order things happen in", .timeLimit(.minutes(5)))
struct SimulationTests {
    @Test("No promise is broken in two thousand schedules, and every delivery ends", arguments: 0..<30)
    func keepsPromises(block: Int) throws {
        for seed in (block * 70)..<(block * 70 + 70) {
            var world = try SimulatedWorld(seed: UInt64(seed))
            world.play(steps: 150)
            world.settleDown()
            world.audit()
            try #require(world.breaches.isEmpty, "seed \(seed): \(world.breaches.prefix(5))")
        }
    }

    @Test("A stop at any moment ends, gives back what did not leave, and sends nothing twice", arguments: 0..<10)
    func stopsAtAnyMoment(block: Int) throws {
        for seed in (block * 70)..<(block * 70 + 70) {
            var world = try SimulatedWorld(seed: UInt64(seed) + 1_000_000)
            world.play(steps: 20 + seed % 80)
            world.stop()
            try #require(world.breaches.isEmpty, "seed \(seed): \(world.breaches.prefix(5))")
            #expect(world.core.isDrained, "seed \(seed)")
            #expect(world.unacknowledged.isEmpty, "seed \(seed)")
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
