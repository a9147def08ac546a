import APNsSimulator
import Broker
import Dispatcher
import PushModel
import SystemIO
import TestBroker
import TestSupport
import Testing

/// Promise 11 (docs/promises.md), and promise 2 where the time does not suffice.
@Suite("A graceful stop between a real broker and Apple's protocol", .timeLimit(.minutes(5)))
struct StopServiceTests {
    private static let each = 20

    private static func jobs(_ count: Int) -> [PushJob] {
        (0..<count).map { number in
            var job = Fixture.job((0..<each).map { Fixture.delivery(number * each + $0) })
            job.notification = .random()
            job.acceptedAt = WallClock.milliseconds()
            job.expiresAt = job.acceptedAt + 3_600_000
            return job
        }
    }

    /// What dispatchers told until every delivery had its final outcome.
    private struct Told {
        /// By delivery, each that was final.
        var final: [PushID: [OutcomeClass]] = [:]
        /// By delivery, the attempt of its final outcome.
        var attempts: [PushID: Int] = [:]
        /// Sent, and the answer was not awaited.
        var unknown: Set<PushID> = []
    }

    private static func told(_ bench: ServiceBench, about count: Int) async throws -> Told {
        var told = Told()
        while told.final.count < count {
            let event = try await bench.events.next()
            for delivery in event.deliveries {
                if event.isFinal {
                    told.final[delivery.id, default: []].append(event.outcome)
                    told.attempts[delivery.id] = delivery.attempt
                } else if event.outcome == .unknown {
                    told.unknown.insert(delivery.id)
                }
            }
        }
        return told
    }

    @Test("Under load it sends nothing twice, loses nothing, and leaves the rest to the next dispatcher")
    func stopsUnderLoad() async throws {
        let count = 200 * Self.each
        try await withServiceBench { bench in
            // As long as the slowest machine needs to answer what is in flight.
            let first = try bench.startDispatcher { $0.shutdownDeadline = .seconds(150) }
            try await bench.publish(Self.jobs(200))
            _ = await bench.simulator.journal(reaching: count / 4)
            try await Self.stop(first, andLetAnotherFinish: count, bench)
        }
    }

    private static func stop(_ first: ServiceBench.Running, andLetAnotherFinish count: Int, _ bench: ServiceBench) async throws {
        try await first.stop()
        let atStop = bench.simulator.journal().count
        let second = try bench.startDispatcher { $0.shutdownDeadline = .seconds(150) }
        let told = try await told(bench, about: count)
        #expect(told.final.values.allSatisfy { $0 == [.accepted] })
        try await second.stop()
        let journal = bench.simulator.journal()
        // An answer that took longer than a request may take is nobody's fault here.
        #expect(journal.count == count + told.unknown.count, "\(atStop) before the stop")
        #expect(Set(journal.map(\.apnsID)).count == count)
        #expect(try await bench.waitingJobs() == 0)
    }

    @Test("Of many small jobs of which some wait for room nothing is sent twice either")
    func stopsAmongSmallJobs() async throws {
        let count = 1_500
        try await withServiceBench { bench in
            let messages = (0..<count).map { number -> OutgoingMessage in
                var job = Fixture.job([Fixture.delivery(number)], lane: .bulk)
                job.notification = .random()
                job.acceptedAt = WallClock.milliseconds()
                job.expiresAt = job.acceptedAt + 3_600_000
                return OutgoingMessage(
                    exchange: bench.topology.jobsExchange, routingKey: bench.topology.jobRoutingKey(.bulk), messageID: .random(),
                    contentType: PushJob.contentType, body: job.encoded())
            }
            // All are there before a dispatcher is, so that it has far more of them than may be at work.
            try await bench.publish(messages)
            let first = try bench.startDispatcher { $0.shutdownDeadline = .seconds(150) }
            _ = await bench.simulator.journal(reaching: 100)
            try await Self.stop(first, andLetAnotherFinish: count, bench)
        }
    }

    @Test("Where its time does not suffice, what was sent and not answered is told as unknown and tried again, and no job comes anew")
    func isCutShort() async throws {
        let count = 10 * Self.each
        try await withServiceBench { bench in
            // The first proves the connection; the others are in flight when the time is up.
            for number in 1..<count { try bench.simulator.script(Fixture.token(number).hex, [.silence]) }
            let first = try bench.startDispatcher { $0.shutdownDeadline = .seconds(12) }
            try await bench.publish(Self.jobs(10))
            _ = await bench.simulator.journal(reaching: count)
            try await first.stop()
            let second = try bench.startDispatcher()
            let told = try await Self.told(bench, about: count)
            try await second.stop()
            #expect(told.unknown == Set((1..<count).map { Fixture.delivery($0).id }))
            #expect(told.final.values.allSatisfy { $0 == [.accepted] })
            // Whoever got the job itself once more would count from the beginning.
            #expect(told.attempts.allSatisfy { $1 == (told.unknown.contains($0) ? 2 : 1) })
            let journal = bench.simulator.journal()
            #expect(journal.count == count + told.unknown.count)
            #expect(Dictionary(grouping: journal, by: \.apnsID).values.allSatisfy { $0.count <= 2 })
            #expect(try await bench.waitingJobs() == 0)
        }
    }
}
