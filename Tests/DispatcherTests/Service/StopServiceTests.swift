import APNs
import APNsSimulator
import PushModel
import RabbitMQ
import SystemIO
import TestBroker
import TestSupport
import Testing

@testable import Broker
@testable import Dispatcher

/// Promise 11 (docs/promises.md), and promise 2 if the time is too short.
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

    /// The outcomes of the dispatchers until every delivery has its final one.
    private struct Reported {
        /// The final outcomes of each delivery.
        var final: [PushID: [OutcomeClass]] = [:]
        /// The attempt of each delivery's final outcome.
        var attempts: [PushID: Int] = [:]
        /// Deliveries that were sent and whose answer was not awaited.
        var unknown: Set<PushID> = []
    }

    private static func reported(_ bench: ServiceBench, about count: Int) async throws -> Reported {
        var reported = Reported()
        while reported.final.count < count {
            let event = try await bench.events.next()
            for delivery in event.deliveries {
                if event.isFinal {
                    reported.final[delivery.id, default: []].append(event.outcome)
                    reported.attempts[delivery.id] = delivery.attempt
                } else if event.outcome == .unknown {
                    reported.unknown.insert(delivery.id)
                }
            }
        }
        return reported
    }

    @Test("A stop under load sends nothing twice, loses nothing, and leaves the remaining jobs to the next dispatcher")
    func stopsUnderLoad() async throws {
        let count = 200 * Self.each
        try await withServiceBench { bench in
            // Long enough for the slowest machine to answer deliveries in flight.
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
        let reported = try await reported(bench, about: count)
        #expect(reported.final.values.allSatisfy { $0 == [.accepted] })
        try await second.stop()
        let journal = bench.simulator.journal()
        // An answer may take longer than a request's timeout here, which adds one more attempt.
        #expect(journal.count == count + reported.unknown.count, "\(atStop) before the stop")
        #expect(Set(journal.map(\.apnsID)).count == count)
        #expect(try await bench.waitingJobs() == 0)
    }

    @Test("A stop among many small jobs, some of which wait for room, sends nothing twice either")
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
            // All jobs are there before a dispatcher starts, so that it has far more of them than may be at work.
            try await bench.publish(messages)
            let first = try bench.startDispatcher { $0.shutdownDeadline = .seconds(150) }
            _ = await bench.simulator.journal(reaching: 100)
            try await Self.stop(first, andLetAnotherFinish: count, bench)
        }
    }

    @Test("A stop without enough time reports unanswered deliveries as unknown and retries them, and no job is delivered again")
    func isCutShort() async throws {
        let count = 10 * Self.each
        try await withServiceBench { bench in
            // The first delivery proves the connection. The others are in flight when the time is up.
            for number in 1..<count { try bench.simulator.script(Fixture.token(number).hex, [.silence]) }
            let first = try bench.startDispatcher {
                $0.shutdownDeadline = .seconds(12)
            } pools: {
                $0.requestTimeout = .seconds(240)
            }
            try await bench.publish(Self.jobs(10))
            _ = await bench.simulator.journal(reaching: count)
            try await first.stop()
            let second = try bench.startDispatcher()
            let reported = try await Self.reported(bench, about: count)
            try await second.stop()
            #expect(reported.unknown == Set((1..<count).map { Fixture.delivery($0).id }))
            #expect(reported.final.values.allSatisfy { $0 == [.accepted] })
            // If the broker delivered the job itself again, the attempts would count from the beginning.
            #expect(reported.attempts.allSatisfy { $1 == (reported.unknown.contains($0) ? 2 : 1) })
            let journal = bench.simulator.journal()
            #expect(journal.count == count + reported.unknown.count)
            #expect(Dictionary(grouping: journal, by: \.apnsID).values.allSatisfy { $0.count <= 2 })
            #expect(try await bench.waitingJobs() == 0)
        }
    }

    @Test("If one of the consumers ends with an error, all of them end, and so does the program", .timeLimit(.minutes(1)))
    func consumerFails() async throws {
        let consumer = try Consumer(
            configuration: RabbitMQConfiguration(uri: "amqp://127.0.0.1:\(FreePorts.closed)", connectionName: "test"), topology: Topology(),
            subscriptions: [], logger: .silent, onMessages: { _ in })
        // It runs once.
        let consumers = LateConsumers([consumer, consumer])
        consumers.begin()
        await #expect(throws: AlreadyRun.self) { try await consumers.run() }
    }
}
