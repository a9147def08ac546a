import PushModel
import RabbitMQ
import StrictJSON
import TestBroker
import TestSupport
import Testing

@testable import Broker

@Suite("The broker's topology", .timeLimit(.minutes(5)))
struct TopologyTests {
    @Test("A client may declare the topology any number of times") func declaredTwice() async throws {
        try await withTestBroker { configuration, topology in
            try await TestBroker.withConnection(configuration) { connection in
                try topology.declare(on: connection)
                try topology.check(on: connection)
            }
        }
    }

    /// A classic queue lives on one node. While that node is away, no client can declare or check the queue, so no connection comes up.
    @Test("Every queue is replicated") func replicated() {
        for queue in Topology().queues {
            #expect([RabbitMQValue.string("quorum"), .string("stream")].contains(queue.arguments["x-queue-type"]), "\(queue.name)")
        }
    }

    @Test("The broker confirms heartbeats and keeps at most one") func confirmsHeartbeats() async throws {
        try await withTestBroker { configuration, topology in
            let publisher = try makePublisher(configuration, topology)
            try await whileRunning(publisher) {
                let heartbeats = (1...5).map { _ in
                    OutgoingMessage(
                        exchange: "", routingKey: topology.heartbeatQueue, messageID: .random(), contentType: "text/plain", body: [],
                        isMandatory: true)
                }
                #expect(await publisher.publish(heartbeats, deadline: nil) == Array(repeating: .confirmed, count: 5))
            }
            #expect(try await TestBroker.messageCount(topology.heartbeatQueue, configuration) <= 1)
        }
    }

    @Test("Services that may not declare the topology report that it is missing") func missingTopology() async throws {
        let topology = Topology(prefix: TestBroker.uniquePrefix(), ownership: .operators)
        let configuration = try TestBroker.configuration()
        await #expect {
            try await TestBroker.withConnection(configuration) { try topology.establish(on: $0) }
        } throws: {
            ($0 as? RabbitMQError)?.code == .channelClosed(404)
        }
    }

    @Test("The topology routes every lane to its own queue") func laneQueues() async throws {
        try await withTestBroker { configuration, topology in
            let publisher = try makePublisher(configuration, topology)
            let watching = try Watching(
                configuration, topology, Lane.allCases.map { Subscription(queue: topology.jobQueue($0), prefetch: 10) })
            try await whileRunning(publisher, watching.consumer) {
                for lane in Lane.allCases {
                    #expect(await publisher.publish([.job(topology, lane)], deadline: nil) == [.confirmed])
                    let message = try await watching.take()
                    #expect(message.queue == topology.jobQueue(lane))
                    #expect(message.routingKey == lane.rawValue)
                }
            }
        }
    }

    @Test("A retried job comes back to its own lane, and a short delay never waits behind a longer one") func retries() async throws {
        try await withTestBroker { configuration, topology in
            let publisher = try makePublisher(configuration, topology)
            let watching = try Watching(
                configuration, topology, Lane.allCases.map { Subscription(queue: topology.jobQueue($0), prefetch: 10) })
            try await whileRunning(publisher, watching.consumer) {
                func retry(_ lane: Lane, _ delay: RetryDelay) -> OutgoingMessage {
                    var message = OutgoingMessage.job(topology, lane, headers: ["traceparent": "t"], body: Array(delay.rawValue.utf8))
                    message.exchange = topology.retryExchange(delay)
                    return message
                }
                let start = ContinuousClock.now
                let outcomes = await publisher.publish(
                    [retry(.bulk, .fiveSeconds), retry(.soon, .oneSecond), retry(.now, .oneSecond)], deadline: nil)
                #expect(outcomes == [.confirmed, .confirmed, .confirmed])
                let first = try await watching.take(2)
                // The broker's clock measures the delay; the test's clock may start a little later.
                #expect(start.duration(to: .now) >= .milliseconds(900))
                #expect(Set(first.map(\.queue)) == [topology.jobQueue(.soon), topology.jobQueue(.now)])
                let last = try await watching.take()
                #expect(last.queue == topology.jobQueue(.bulk))
                #expect(last.routingKey == "bulk")
                #expect(last.body == Array("5s".utf8))
                #expect(last.headers["traceparent"] == "t")
                #expect(last.contentType == "application/test")
                #expect(start.duration(to: .now) >= .milliseconds(4900))
            }
        }
    }

    /// RabbitMQ keeps 32 messages of a delayed queue on the way to the next one, and tries again what was refused there after minutes only.
    @Test("A lane whose queue is full delays no retries of the others") func fullLane() async throws {
        try await withTestBroker { configuration, topology in
            try await TestBroker.withConnection(configuration) { connection in
                let queue = topology.jobQueue(.bulk)
                try connection.deleteQueue(queue)
                try connection.declareQueue(
                    queue, arguments: ["x-queue-type": "quorum", "x-max-length": 1, "x-overflow": "reject-publish"])
                try connection.bind(queue: queue, to: topology.jobsExchange, routingKey: topology.jobRoutingKey(.bulk))
            }
            // It does not declare the queue as it should be.
            let publisher = try makePublisher(configuration, Topology(prefix: topology.prefix, ownership: .operators))
            let watching = try Watching(
                configuration, Topology(prefix: topology.prefix, ownership: .operators),
                [Subscription(queue: topology.jobQueue(.now), prefetch: 10)])
            try await whileRunning(publisher, watching.consumer) {
                while await publisher.publish([.job(topology, .bulk)], deadline: nil) == [.confirmed] {}
                func retries(_ lane: Lane, _ count: Int) async -> Bool {
                    let messages = (0..<count).map { _ in
                        var message = OutgoingMessage.job(topology, lane)
                        message.exchange = topology.retryExchange(.oneSecond)
                        return message
                    }
                    return await publisher.publish(messages, deadline: nil).allSatisfy { $0 == .confirmed }
                }
                #expect(await retries(.bulk, 40))
                #expect(await retries(.now, 1))
                let back = try await watching.take()
                #expect(back.routingKey == "now")
            }
        }
    }

    @Test("A discarded job goes to the dead letters with its routing key") func discardedJob() async throws {
        try await withTestBroker { configuration, topology in
            let publisher = try makePublisher(configuration, topology)
            let lanes = try Watching(configuration, topology, [Subscription(queue: topology.jobQueue(.soon), prefetch: 10)])
            let dead = try Watching(configuration, topology, [Subscription(queue: topology.deadQueue, prefetch: 10)])
            try await whileRunning(publisher, lanes.consumer, dead.consumer) {
                let id = PushID.random()
                #expect(await publisher.publish([.job(topology, .soon, id: id)], deadline: nil) == [.confirmed])
                lanes.consumer.discard([try await lanes.messages.next().deliveryTag])
                let letter = try await dead.take()
                #expect(letter.messageID == id)
                #expect(letter.routingKey == "soon")
            }
        }
    }

    @Test("The topology routes the outcomes of every app to the token service") func routesOutcomes() async throws {
        try await withTestBroker { configuration, topology in
            let publisher = try makePublisher(configuration, topology)
            let watching = try Watching(configuration, topology, [Subscription(queue: topology.tokenServiceOutcomesQueue, prefetch: 10)])
            try await whileRunning(publisher, watching.consumer) {
                let message = OutgoingMessage(
                    exchange: topology.outcomesExchange, routingKey: "shop.accepted", messageID: .random(), contentType: "x", body: [])
                #expect(await publisher.publish([message], deadline: nil) == [.confirmed])
                let outcome = try await watching.take()
                #expect(outcome.routingKey == "shop.accepted")
            }
        }
    }

    @Test("The topology never loses a dead letter and limits how often a job comes back") func deadLetters() throws {
        let topology = Topology(prefix: "p")
        // The broker may drop heartbeats, because no service reads them.
        for queue in topology.queues where queue.arguments["x-queue-type"] == "quorum" && queue.name != topology.heartbeatQueue {
            // Without reject-publish the broker falls back to at-most-once and says nothing.
            #expect(queue.arguments["x-overflow"] == "reject-publish", "\(queue.name)")
            #expect(queue.arguments["x-max-length-bytes"] != nil, "\(queue.name)")
            #expect(queue.arguments["x-dead-letter-routing-key"] == nil, "\(queue.name)")
            if queue.name == topology.deadQueue {
                // No queue follows the dead letters, so a delivery limit there would lose the job.
                #expect(queue.arguments["x-dead-letter-exchange"] == nil)
                #expect(try #require(queue.arguments["x-delivery-limit"]?.integer) > 1_000_000)
            } else {
                let waiting = [
                    topology.waitingOutcomesQueue: topology.outcomesExchange, topology.waitingCommandsQueue: topology.commandsExchange,
                ]
                let target =
                    topology.retryQueues.contains(queue.name)
                    ? topology.jobsExchange : waiting[queue.name] ?? topology.deadExchange
                #expect(queue.arguments["x-dead-letter-exchange"] == .string(target), "\(queue.name)")
                #expect(queue.arguments["x-dead-letter-strategy"] == "at-least-once", "\(queue.name)")
                #expect(queue.arguments["x-delivery-limit"] == 50, "\(queue.name)")
            }
        }
        let streams = topology.queues.filter { $0.arguments["x-queue-type"] == "stream" }
        #expect(streams.map(\.name) == ["p.control"])
        // The stream must not drop older fences because there are many.
        #expect(streams.first?.arguments["x-max-length-bytes"] == nil)
    }

    @Test("Without retries, the topology has everything but their exchanges and queues") func withoutRetries() {
        let whole = Topology(prefix: "p")
        let few = Topology(prefix: "p", hasRetries: false)
        func isRetry(_ name: String) -> Bool { name.hasPrefix("p.retry.") }
        #expect(few.exchanges.map(\.name) == whole.exchanges.map(\.name).filter { !isRetry($0) })
        #expect(few.queues.map(\.name) == whole.queues.map(\.name).filter { !isRetry($0) })
        #expect(few.bindings.map(\.queue) == whole.bindings.map(\.queue).filter { !isRetry($0) })
        #expect(whole.queues.count - few.queues.count == Lane.allCases.count * RetryDelay.allCases.count)
    }

    @Test("The definitions are JSON that names every exchange and queue") func definitionsFile() throws {
        let topology = Topology(prefix: "push")
        let json = try JSONValue.parse(topology.definitions(virtualHost: "shop"))
        func names(_ key: String) -> Set<String> {
            guard case .array(let elements) = json[key]?.kind else { return [] }
            return Set(elements.compactMap { $0["name"]?.stringValue })
        }
        #expect(
            names("exchanges") == [
                "push.jobs", "push.dead", "push.outcomes", "push.retry.lanes.1s", "push.retry.lanes.5s", "push.retry.lanes.30s",
                "push.retry.lanes.2m", "push.retry.lanes.10m", "push.retry.lanes.15m", "push.outcomes.waiting", "push.dead.waiting",
                "push.commands", "push.commands.waiting", "push.control.copies",
            ])
        #expect(
            names("queues") == [
                "push.jobs.now", "push.jobs.soon", "push.jobs.bulk", "push.dead", "push.outcomes.token-service", "push.control",
                "push.heartbeat", "push.retry.now.1s", "push.retry.now.5s", "push.retry.now.30s", "push.retry.now.2m",
                "push.retry.now.10m", "push.retry.now.15m", "push.retry.soon.1s", "push.retry.soon.5s", "push.retry.soon.30s",
                "push.retry.soon.2m", "push.retry.soon.10m", "push.retry.soon.15m", "push.retry.bulk.1s", "push.retry.bulk.5s",
                "push.retry.bulk.30s", "push.retry.bulk.2m", "push.retry.bulk.10m", "push.retry.bulk.15m", "push.outcomes.waiting",
                "push.commands", "push.dead.waiting", "push.commands.waiting",
            ])
    }
}

@Suite("A wanted delay")
struct RetryDelayTests {
    @Test(
        "A wanted delay is rounded up to the next retry queue",
        arguments: [
            (Duration.zero, RetryDelay.oneSecond), (.milliseconds(1000), .oneSecond), (.milliseconds(1001), .fiveSeconds),
            (.seconds(30), .thirtySeconds),
            (.seconds(31), .twoMinutes), (.seconds(121), .tenMinutes), (.seconds(601), .fifteenMinutes),
            (.seconds(86_400), .fifteenMinutes),
        ])
    func roundedUp(wanted: Duration, delay: RetryDelay) {
        #expect(RetryDelay.atLeast(wanted) == delay)
    }
}
