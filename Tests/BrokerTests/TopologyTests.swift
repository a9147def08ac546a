import PushModel
import RabbitMQ
import StrictJSON
import TestBroker
import TestSupport
import Testing

@testable import Broker

@Suite("The broker's topology", .timeLimit(.minutes(5)))
struct TopologyTests {
    @Test func isDeclaredAsOftenAsOneLikes() async throws {
        try await withTestBroker { configuration, topology in
            try await TestBroker.withConnection(configuration) { connection in
                try topology.declare(on: connection)
                try topology.check(on: connection)
            }
        }
    }

    /// A classic queue lives on one node: while that is away, it can be neither declared nor checked, and no connection comes up.
    @Test func everyQueueIsReplicated() {
        for queue in Topology().queues {
            #expect([RabbitMQValue.string("quorum"), .string("stream")].contains(queue.arguments["x-queue-type"]), "\(queue.name)")
        }
    }

    @Test func heartbeatsAreConfirmedAndDoNotPileUp() async throws {
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

    @Test func isMissedByServicesThatMayNotDeclareIt() async throws {
        let topology = Topology(prefix: TestBroker.uniquePrefix(), ownership: .operators)
        let configuration = try TestBroker.configuration()
        await #expect {
            try await TestBroker.withConnection(configuration) { try topology.establish(on: $0) }
        } throws: {
            ($0 as? RabbitMQError)?.code == .channelClosed(404)
        }
    }

    @Test func leadsEveryLaneToItsOwnQueue() async throws {
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

    @Test func bringsARetriedJobBackToItsOwnLaneAndHoldsAShortDelayBehindNoLongerOne() async throws {
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
                // The broker's own clock measures the delay; ours may have begun a little later.
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

    @Test func parksWhatIsDiscardedWithItsRoutingKey() async throws {
        try await withTestBroker { configuration, topology in
            let publisher = try makePublisher(configuration, topology)
            let lanes = try Watching(configuration, topology, [Subscription(queue: topology.jobQueue(.soon), prefetch: 10)])
            let dead = try Watching(configuration, topology, [Subscription(queue: topology.deadQueue, prefetch: 10)])
            try await whileRunning(publisher, lanes.consumer, dead.consumer) {
                let id = PushID.random()
                #expect(await publisher.publish([.job(topology, .soon, id: id)], deadline: nil) == [.confirmed])
                lanes.consumer.discard([try await lanes.messages.next().receipt])
                let parked = try await dead.take()
                #expect(parked.messageID == id)
                #expect(parked.routingKey == "soon")
            }
        }
    }

    @Test func carriesOutcomesOfEveryAppToTheTokenService() async throws {
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

    @Test func neverLosesADeadLetterAndLimitsWhatMayComeBack() throws {
        let topology = Topology(prefix: "p")
        // Heartbeats are nobody's: they may be dropped.
        for queue in topology.queues where queue.arguments["x-queue-type"] == "quorum" && queue.name != topology.heartbeatQueue {
            // Without reject-publish the broker falls back to at-most-once and says nothing.
            #expect(queue.arguments["x-overflow"] == "reject-publish", "\(queue.name)")
            #expect(queue.arguments["x-max-length-bytes"] != nil, "\(queue.name)")
            #expect(queue.arguments["x-dead-letter-routing-key"] == nil, "\(queue.name)")
            if queue.name == topology.deadQueue {
                // Nothing follows the parking lot: a limit that is reached there would lose the job.
                #expect(queue.arguments["x-dead-letter-exchange"] == nil)
                #expect(try #require(queue.arguments["x-delivery-limit"]?.integer) > 1_000_000)
            } else {
                let target =
                    RetryDelay.allCases.map(topology.retryQueue).contains(queue.name)
                    ? topology.jobsExchange
                    : queue.name == topology.waitingOutcomesQueue ? topology.outcomesExchange : topology.deadExchange
                #expect(queue.arguments["x-dead-letter-exchange"] == .string(target), "\(queue.name)")
                #expect(queue.arguments["x-dead-letter-strategy"] == "at-least-once", "\(queue.name)")
                #expect(queue.arguments["x-delivery-limit"] == 50, "\(queue.name)")
            }
        }
        let streams = topology.queues.filter { $0.arguments["x-queue-type"] == "stream" }
        #expect(streams.map(\.name) == ["p.control"])
        // Older fences must not go because there are many.
        #expect(streams.first?.arguments["x-max-length-bytes"] == nil)
    }

    @Test func definitionsAreJSONThatNamesEverything() throws {
        let topology = Topology(prefix: "push")
        let json = try JSONValue.parse(topology.definitions(virtualHost: "shop"))
        func names(_ key: String) -> Set<String> {
            guard case .array(let elements) = json[key]?.kind else { return [] }
            return Set(elements.compactMap { $0["name"]?.stringValue })
        }
        #expect(
            names("exchanges") == [
                "push.jobs", "push.dead", "push.outcomes", "push.retry.1s", "push.retry.5s", "push.retry.30s", "push.retry.2m",
                "push.retry.10m",
                "push.retry.15m", "push.outcomes.waiting",
            ])
        #expect(
            names("queues") == [
                "push.jobs.now", "push.jobs.soon", "push.jobs.bulk", "push.dead", "push.outcomes.token-service", "push.control",
                "push.heartbeat", "push.retry.1s", "push.retry.5s", "push.retry.30s", "push.retry.2m", "push.retry.10m", "push.retry.15m",
                "push.outcomes.waiting",
            ])
    }
}

@Suite("A wanted delay")
struct RetryDelayTests {
    @Test(arguments: [
        (Duration.zero, RetryDelay.oneSecond), (.milliseconds(1000), .oneSecond), (.milliseconds(1001), .fiveSeconds),
        (.seconds(30), .thirtySeconds),
        (.seconds(31), .twoMinutes), (.seconds(121), .tenMinutes), (.seconds(601), .fifteenMinutes), (.seconds(86_400), .fifteenMinutes),
    ])
    func isRoundedUpToAQueue(wanted: Duration, delay: RetryDelay) {
        #expect(RetryDelay.atLeast(wanted) == delay)
    }
}
