import APNsSimulator
import Broker
import Foundation
import Observability
import PushModel
import SystemIO
import TestBroker
import TestServers
import TestSupport
import Testing

@testable import Dispatcher

/// RabbitMQ closes the channel of a consumer that has not acknowledged a message within `consumer_timeout`, and delivers the message again.
/// The test has a private broker, because that time is a setting of the whole node: half an hour by default, and here some seconds.
@Suite("With a broker that refuses outcomes for longer than consumer_timeout", .timeLimit(.minutes(5)))
struct RefusedOutcomesServiceTests {
    /// RabbitMQ looks once a second for messages that are too old.
    private static let consumerTimeout = 8
    private static let each = 2

    private static func jobs(_ numbers: Range<Int>) -> [PushJob] {
        numbers.map { number in
            var job = Fixture.job((0..<each).map { Fixture.delivery(number * each + $0) }, lane: Lane.allCases[number % 3])
            job.notification = .random()
            job.acceptedAt = WallClock.milliseconds()
            job.expiresAt = job.acceptedAt + 3_600_000
            return job
        }
    }

    private static func deliveries(_ numbers: Range<Int>) -> Set<String> {
        Set((numbers.lowerBound * each..<numbers.upperBound * each).map { Fixture.delivery($0).id.description })
    }

    @Test("Sending stops, continues by itself when there is room, and sends nothing twice, also while dispatchers start and stop")
    func sendingStops() async throws {
        try TestServers.require()
        let broker = try await PrivateBroker.start()
        let result: Result<Void, any Error>
        do { result = .success(try await queueIsFull(broker)) } catch { result = .failure(error) }
        await broker.stop()
        try result.get()
    }

    private func queueIsFull(_ broker: PrivateBroker) async throws {
        try await broker.control(
            "eval",
            """
            application:set_env(rabbit, consumer_timeout, \(Self.consumerTimeout)000),
            application:set_env(rabbit, channel_tick_interval, 1000),
            application:set_env(rabbit, dead_letter_worker_publisher_confirm_timeout, 2000).
            """)
        let room = Gate()
        try await withServiceBench(uri: broker.uri, listensAfter: room) { bench in
            try await fill(bench, broker)
            let (early, late) = (0..<30, 30..<60)
            let first = try Self.dispatcher(bench)
            try await bench.publish(Self.jobs(early))
            _ = await bench.simulator.journal(reaching: 1)
            try await Task.sleep(for: .seconds(1))
            let sent = bench.simulator.journal().count
            try await bench.publish(Self.jobs(late))
            try await Task.sleep(for: .seconds(Self.consumerTimeout * 2))
            #expect(Self.copies(bench) == [1: sent], "copies of a delivery: deliveries")
            let readiness = try await CredentialServiceTests.readiness(try await first.operationsPort.next())
            #expect(readiness.status == 503 && readiness.text.contains("refused by the broker for"), "\(readiness.text)")
            #expect(first.registry.render().contains("push_dispatcher_outcomes_refused 1"))

            let second = try Self.dispatcher(bench)
            try await Task.sleep(for: .seconds(1))
            try await first.stop()
            try await Task.sleep(for: .seconds(Self.consumerTimeout * 2))
            #expect(Self.copies(bench).keys.sorted() == [1])
            #expect(try Self.timeOuts(broker) == 0, "no job is unacknowledged for so long")

            room.open()
            let outcomes = try await bench.finalOutcomes(late.upperBound * Self.each)
            #expect(outcomes.values.allSatisfy { Set($0) == [.accepted] })
            #expect(Self.copies(bench) == [1: late.upperBound * Self.each])
            #expect(Set(bench.simulator.journal().map(\.apnsID)) == Self.deliveries(0..<late.upperBound))
            #expect(second.registry.render().contains("push_dispatcher_outcomes_refused 0"))
            try await second.stop()
            #expect(try await bench.waitingJobs() == 0)
            // The queue drops a message only when the other queue has confirmed it.
            while try await TestBroker.messageCount(bench.topology.waitingOutcomesQueue, bench.broker) > 0 {
                try await Task.sleep(for: .milliseconds(50))
            }
        }
    }

    /// Jobs that wait for room go through a delayed queue. The usual minute in the dispatcher before that is longer than this broker's
    /// consumer_timeout.
    private static func dispatcher(_ bench: ServiceBench) throws -> ServiceBench.Running {
        try bench.startDispatcher { $0.waitingPatience = 2_000 }
    }

    /// How many deliveries APNs has seen once, twice, and so on.
    private static func copies(_ bench: ServiceBench) -> [Int: Int] {
        let copies = bench.simulator.journal().reduce(into: [:]) { $0[$1.apnsID, default: 0] += 1 }
        return copies.values.reduce(into: [:]) { $0[$1, default: 0] += 1 }
    }

    /// How often the broker closed a channel because of a message that was not acknowledged.
    private static func timeOuts(_ broker: PrivateBroker) throws -> Int {
        let folder = "\(broker.folder)/log"
        return try FileManager.default.contentsOfDirectory(atPath: folder).reduce(0) { count, file in
            let text = try String(contentsOfFile: "\(folder)/\(file)", encoding: .utf8)
            return count + text.components(separatedBy: "timed out waiting for delivery acknowledgement").count - 1
        }
    }

    /// The consumers of outcomes are away, and their queue takes three messages.
    private func fill(_ bench: ServiceBench, _ broker: PrivateBroker) async throws {
        let queue = bench.topology.tokenServiceOutcomesQueue
        try await broker.control(
            "set_policy", "full", "^\(queue.replacing(".", with: "\\."))$", #"{"max-length":3}"#, "--apply-to", "queues")
        while true {
            let event = OutcomeEvent(
                id: .random(), source: "/test", time: WallClock.milliseconds(), app: Fixture.other, outcome: .accepted, isFinal: true,
                deliveries: [])
            let message = OutgoingMessage(
                exchange: bench.topology.outcomesExchange, routingKey: event.routingKey, messageID: event.id,
                contentType: OutcomeEvent.contentType, body: event.encoded())
            guard await bench.publisher.publish([message], deadline: .seconds(30)) == [.confirmed] else { return }
        }
    }
}
