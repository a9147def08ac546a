import Broker
import PushModel
import RabbitMQ
import ServiceLifecycle
import ServiceLifecycleTestKit
import Synchronization
import TestBroker
import TestSupport
import Testing

@Suite("A publisher", .timeLimit(.minutes(5)))
struct PublisherTests {
    @Test("A publisher stores every message and confirms in order") func storesInOrder() async throws {
        try await withTestBroker { configuration, topology in
            let publisher = try makePublisher(configuration, topology)
            let ids = (0..<3000).map { _ in PushID.random() }
            try await whileRunning(publisher) {
                let outcomes = await publisher.publish(ids.map { .job(topology, id: $0) }, deadline: nil)
                #expect(outcomes == [PublishOutcome](repeating: .confirmed, count: ids.count))
                #expect(publisher.state == .ready && publisher.peer?.contains(":") == true)
                #expect(publisher.pending == 0)
            }
            let watching = try Watching(configuration, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 200)])
            try await whileRunning(watching.consumer) {
                let stored = try await watching.take(ids.count)
                #expect(stored.compactMap(\.messageID) == ids)
            }
        }
    }

    @Test("A publisher reports only the unroutable messages of a batch") func reportsUnroutable() async throws {
        try await withTestBroker { configuration, topology in
            let publisher = try makePublisher(configuration, topology)
            try await whileRunning(publisher) {
                var lost = OutgoingMessage.job(topology)
                lost.routingKey = "nowhere"
                let outcomes = await publisher.publish([.job(topology), lost, .job(topology), lost, .job(topology)], deadline: nil)
                #expect(outcomes == [.confirmed, .failed(.unroutable), .confirmed, .failed(.unroutable), .confirmed])
            }
        }
    }

    @Test("A publisher reports a full queue") func fullQueue() async throws {
        try await withTestBroker { configuration, topology in
            let queue = "\(topology.prefix).small"
            try await TestBroker.withConnection(configuration) {
                try $0.declareQueue(queue, arguments: ["x-queue-type": "quorum", "x-max-length": 2, "x-overflow": "reject-publish"])
            }
            let publisher = try makePublisher(configuration, topology)
            try await whileRunning(publisher) {
                var outcomes: [PublishOutcome] = []
                while outcomes.count < 20, outcomes.last != .failed(.nacked) {
                    let message = OutgoingMessage(exchange: "", routingKey: queue, messageID: .random(), contentType: "x", body: [1])
                    outcomes += await publisher.publish([message], deadline: nil)
                }
                #expect(outcomes.last == .failed(.nacked))
                #expect(outcomes.first == .confirmed)
            }
            try await TestBroker.withConnection(configuration) { try $0.deleteQueue(queue) }
        }
    }

    @Test("A publisher sends a refused message to its fallback exchange") func fallback() async throws {
        try await withTestBroker { configuration, topology in
            let queue = "\(topology.prefix).small"
            try await TestBroker.withConnection(configuration) {
                try $0.declareQueue(queue, arguments: ["x-queue-type": "quorum", "x-max-length": 2, "x-overflow": "reject-publish"])
            }
            let publisher = try makePublisher(configuration, topology)
            func message(to exchange: String, _ routingKey: String) -> OutgoingMessage {
                OutgoingMessage(
                    exchange: exchange, routingKey: routingKey, messageID: .random(), contentType: "x", body: [1],
                    fallbackExchanges: [topology.deadExchange])
            }
            try await whileRunning(publisher) {
                var outcomes: [PublishOutcome] = []
                while outcomes.count < 20, outcomes.last != .confirmedElsewhere {
                    outcomes += await publisher.publish([message(to: "", queue)], deadline: nil)
                }
                #expect(outcomes.first == .confirmed && outcomes.last == .confirmedElsewhere)
                let unroutable = message(to: topology.jobsExchange, "nowhere")
                let mixed = await publisher.publish([unroutable, .job(topology), unroutable], deadline: nil)
                #expect(mixed == [.confirmedElsewhere, .confirmed, .confirmedElsewhere])
                var lost = unroutable
                lost.fallbackExchanges = [topology.outcomesExchange]
                #expect(await publisher.publish([lost], deadline: nil) == [.failed(.unroutable)])
                #expect(publisher.pending == 0)
            }
            #expect(try await TestBroker.messageCount(topology.deadQueue, configuration) == 3)
            try await TestBroker.withConnection(configuration) { try $0.deleteQueue(queue) }
        }
    }

    @Test("A publisher refuses only the message that it cannot encode") func cannotEncode() async throws {
        try await withTestBroker { configuration, topology in
            let publisher = try makePublisher(configuration, topology)
            try await whileRunning(publisher) {
                var long = OutgoingMessage.job(topology)
                long.routingKey = String(repeating: "x", count: 256)
                let outcomes = await publisher.publish([.job(topology), long, .job(topology)], deadline: nil)
                #expect(outcomes == [.confirmed, .failed(.invalid), .confirmed])
            }
        }
    }

    @Test("A publisher without a broker takes no more than its bound") func boundedPending() async throws {
        let configuration = try TestBroker.configuration()
        let publisher = try makePublisher(configuration, Topology(prefix: "test-never"), maximumPending: 10)
        let topology = Topology(prefix: "test-never")
        let outcomes = Signal<[PublishOutcome]>()
        // The publisher does not run yet, so no message can leave it.
        publisher.publishAll((0..<10).map { _ in .job(topology) }) { outcomes.send($0) }
        publisher.publishAll([.job(topology)]) { outcomes.send($0) }
        #expect(try await outcomes.next() == [.failed(.full)])
        #expect(publisher.pending == 10)
    }

    @Test("A publisher returns to its caller at the deadline and on cancellation") func callerDeadline() async throws {
        let topology = Topology(prefix: "test-never")
        let publisher = try makePublisher(TestBroker.configuration(), topology)
        #expect(await publisher.publish([.job(topology)], deadline: .milliseconds(10)) == [.failed(.deadlineExceeded)])
        let task = Task { await publisher.publish([.job(topology)], deadline: nil) }
        task.cancel()
        #expect(await task.value == [.failed(.deadlineExceeded)])
    }

    @Test("A graceful stop finishes pending messages and takes no new ones") func gracefulStop() async throws {
        try await withTestBroker { configuration, topology in
            let publisher = try makePublisher(configuration, topology)
            let outcomes = Signal<[PublishOutcome]>()
            try await testGracefulShutdown { trigger in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await publisher.run() }
                    _ = await publisher.publish([.job(topology)], deadline: nil)
                    publisher.publishAll((0..<2000).map { _ in .job(topology) }) { outcomes.send($0) }
                    trigger.triggerGracefulShutdown()
                    try await group.waitForAll()
                }
            }
            #expect(outcomes.waiting.first == [PublishOutcome](repeating: .confirmed, count: 2000))
            #expect(publisher.state == .stopped)
            #expect(await publisher.publish([.job(topology)], deadline: nil) == [.failed(.stopped)])
            #expect(try await TestBroker.messageCount(topology.jobQueue(.now), configuration) == 2001)
        }
    }

    @Test("A publisher without pending messages declares no topology after a stop request") func declaresNothing() async throws {
        try await withProxiedBroker { direct, proxied, _, proxy in
            let topology = Topology(prefix: TestBroker.uniquePrefix())
            let publisher = try makePublisher(proxied, topology)
            try await stopWhileConnecting(publisher, through: proxy)
            await #expect(throws: RabbitMQError.self) { try await TestBroker.messageCount(topology.jobQueue(.now), direct) }
        }
    }

    @Test("A publisher stops within its bound even if the broker confirms nothing") func boundedStop() async throws {
        try await withProxiedBroker { _, configuration, topology, proxy in
            let publisher = try makePublisher(configuration, topology, drainTimeout: .milliseconds(200))
            let outcomes = Signal<[PublishOutcome]>()
            try await testGracefulShutdown { trigger in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await publisher.run() }
                    _ = await publisher.publish([.job(topology)], deadline: nil)
                    proxy.set(.blackHole)
                    publisher.publishAll([.job(topology)]) { outcomes.send($0) }
                    trigger.triggerGracefulShutdown()
                    try await group.waitForAll()
                }
            }
            #expect(outcomes.waiting == [[.failed(.stopped)]])
        }
    }

    @Test("A publisher answers each of many concurrent callers") func manyCallers() async throws {
        try await withTestBroker { configuration, topology in
            let publisher = try makePublisher(configuration, topology)
            try await whileRunning(publisher) {
                let confirmed = await withTaskGroup(of: Int.self) { group in
                    for _ in 0..<200 {
                        group.addTask {
                            await publisher.publish([.job(topology), .job(topology, .bulk)], deadline: .seconds(50)).count(
                                where: \.isConfirmed)
                        }
                    }
                    return await group.reduce(0, +)
                }
                #expect(confirmed == 400)
            }
        }
    }
}
