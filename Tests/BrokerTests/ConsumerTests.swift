import Broker
import Observability
import PushModel
import RabbitMQ
import ServiceLifecycleTestKit
import TestBroker
import TestSupport
import Testing

@Suite("A consumer", .timeLimit(.minutes(5)))
struct ConsumerTests {
    private func fill(_ configuration: RabbitMQConfiguration, _ topology: Topology, _ lane: Lane = .now, _ bodies: [[UInt8]]) async throws {
        let publisher = try makePublisher(configuration, topology)
        try await whileRunning(publisher) {
            #expect(await publisher.publish(bodies.map { .job(topology, lane, body: $0) }, deadline: nil).allSatisfy(\.isConfirmed))
        }
    }

    @Test("A consumer settles acknowledged messages in any order") func settlesInAnyOrder() async throws {
        try await withTestBroker { configuration, topology in
            try await fill(configuration, topology, .now, (0..<300).map { [UInt8(truncatingIfNeeded: $0)] })
            let watching = try Watching(configuration, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 300)])
            try await testGracefulShutdown { trigger in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await watching.consumer.run() }
                    let messages = try await watching.messages.next(300)
                    #expect(messages.map { $0.body[0] } == (0..<300).map { UInt8(truncatingIfNeeded: $0) })
                    for message in messages.shuffled() { watching.consumer.acknowledge([message.deliveryTag]) }
                    trigger.triggerGracefulShutdown()
                    try await group.waitForAll()
                }
            }
            #expect(watching.consumer.unsettled == 0)
            #expect(try await TestBroker.messageCount(topology.jobQueue(.now), configuration) == 0)
        }
    }

    /// The gap after each message prevents that one acknowledgement covers two. RabbitMQ keeps acknowledgements that it cannot pass to the
    /// queue at once, and forgets them when the connection closes.
    @Test("A consumer that ends loses none of many acknowledgements") func keepsAcknowledgements() async throws {
        try await withTestBroker { configuration, topology in
            let queue = Subscription(queue: topology.jobQueue(.now), prefetch: 2000)
            try await fill(configuration, topology, .now, (0..<2000).map { $0.isMultiple(of: 2) ? [0] : [1] })
            let watching = try Watching(configuration, topology, [queue], drainTimeout: .zero)
            try await testGracefulShutdown { trigger in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await watching.consumer.run() }
                    let messages = try await watching.messages.next(2000)
                    watching.consumer.acknowledge(messages.filter { $0.body == [1] }.map(\.deliveryTag))
                    trigger.triggerGracefulShutdown()
                    try await group.waitForAll()
                }
            }
            // Messages that come again come in their first order.
            let again = try Watching(configuration, topology, [queue])
            let left = try await whileRunning(again.consumer) { try await again.take(1000) }
            #expect(left.count { $0.body == [1] } == 0)
        }
    }

    @Test("A consumer holds no more than the prefetch of each subscription")
    func holdsNoMoreThanThePrefetchOfEachSubscription() async throws {
        try await withTestBroker { configuration, topology in
            try await fill(configuration, topology, .now, (0..<20).map { [$0] })
            try await fill(configuration, topology, .bulk, (0..<20).map { [$0] })
            let watching = try Watching(
                configuration, topology,
                [Subscription(queue: topology.jobQueue(.now), prefetch: 7), Subscription(queue: topology.jobQueue(.bulk), prefetch: 3)])
            try await whileRunning(watching.consumer) {
                let messages = try await watching.messages.next(10)
                #expect(messages.count { $0.queue == topology.jobQueue(.now) } == 7)
                #expect(messages.count { $0.queue == topology.jobQueue(.bulk) } == 3)
                // Room in one lane brings messages of that lane only.
                let now = messages.filter { $0.queue == topology.jobQueue(.now) }
                watching.consumer.acknowledge(now.map(\.deliveryTag))
                #expect(try await watching.messages.next(7).allSatisfy { $0.queue == topology.jobQueue(.now) })
                #expect(watching.messages.waiting.isEmpty)
            }
        }
    }

    @Test("A consumer returns a message to its queue") func returnsMessage() async throws {
        try await withTestBroker { configuration, topology in
            try await fill(configuration, topology, .now, [[1]])
            let watching = try Watching(configuration, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 5)])
            try await whileRunning(watching.consumer) {
                let first = try await watching.messages.next()
                #expect(!first.redelivered)
                watching.consumer.giveBack([first.deliveryTag])
                let again = try await watching.take()
                #expect(again.body == [1])
                #expect(again.redelivered)
            }
        }
    }

    @Test("After a cut a consumer gets unsettled messages again and ignores their old receipts") func ignoresOldReceipts() async throws {
        try await withProxiedBroker { direct, proxied, topology, proxy in
            try await fill(direct, topology, .now, (0..<10).map { [$0] })
            let watching = try Watching(proxied, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 20)])
            try await whileRunning(watching.consumer) {
                #expect(try await watching.connections.next())
                let first = try await watching.messages.next(10)
                proxy.cut()
                #expect(try await watching.connections.next() == false)
                #expect(try await watching.connections.next())
                let again = try await watching.messages.next(10)
                #expect(Set(again.map(\.body)) == Set(first.map(\.body)))
                // These delivery tags name deliveries of the old connection. On the new one they would settle the wrong messages.
                watching.consumer.acknowledge(first.map(\.deliveryTag))
                watching.consumer.giveBack(first.map(\.deliveryTag))
                watching.consumer.acknowledge(again.prefix(4).map(\.deliveryTag))
                watching.consumer.giveBack(again.dropFirst(4).map(\.deliveryTag))
                let last = try await watching.messages.next(6)
                #expect(Set(last.map(\.body)) == Set(again.dropFirst(4).map(\.body)))
                #expect(watching.consumer.isConnected && watching.consumer.peer?.contains(":") == true)
            }
        }
    }

    @Test("A consumer reconnects after a network that vanished silently") func silentNetwork() async throws {
        try await withProxiedBroker(heartbeat: .seconds(2)) { direct, proxied, topology, proxy in
            let watching = try Watching(proxied, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 20)])
            try await whileRunning(watching.consumer) {
                _ = try await watching.connections.first { $0 }
                proxy.set(.deafClient)
                // The broker sends this message, and it never arrives.
                try await fill(direct, topology, .now, [[1]])
                _ = try await watching.connections.first { !$0 }
                proxy.set(.forwarding)
                _ = try await watching.connections.first { $0 }
                let message = try await watching.take()
                #expect(message.body == [1])
                #expect(message.redelivered)
            }
        }
    }

    @Test("A consumer survives a second settlement of a message") func settlesTwice() async throws {
        try await withTestBroker { configuration, topology in
            try await fill(configuration, topology, .now, [[1], [2]])
            let watching = try Watching(configuration, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 1)])
            try await whileRunning(watching.consumer) {
                let first = try await watching.messages.next()
                watching.consumer.acknowledge([first.deliveryTag, first.deliveryTag])
                watching.consumer.giveBack([first.deliveryTag])
                watching.consumer.discard([first.deliveryTag])
                #expect(try await watching.take().body == [2])
                // A second answer to a tag would have closed the channel.
                #expect(try await watching.connections.next())
                #expect(watching.connections.waiting.isEmpty)
            }
        }
    }

    @Test("A consumer reconnects when an operator deleted its queue") func deletedQueue() async throws {
        try await withTestBroker { configuration, topology in
            let watching = try Watching(configuration, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 5)])
            // No other client may declare the queue now. If the queue is back within milliseconds, RabbitMQ 3.10 does not notify the
            // consumer.
            try await whileRunning(watching.consumer) {
                #expect(try await watching.connections.next())
                try await TestBroker.withConnection(configuration) { try $0.deleteQueue(topology.jobQueue(.now)) }
                #expect(try await watching.connections.next() == false)
                #expect(try await watching.connections.next())
                try await fill(configuration, topology, .now, [[3]])
                #expect(try await watching.take().body == [3])
            }
        }
    }

    /// RabbitMQ 3.10 usually does not notify the consumer in this case, and holds its messages.
    @Test("A consumer reads on when its queue was deleted and declared again at once") func redeclaredQueue() async throws {
        try await withTestBroker { configuration, topology in
            let watching = try Watching(
                configuration, topology,
                [Subscription(queue: topology.jobQueue(.now), prefetch: 5), Subscription(queue: topology.jobQueue(.bulk), prefetch: 5)],
                silenceLimit: .milliseconds(100))
            try await whileRunning(watching.consumer) {
                #expect(try await watching.connections.next())
                try await TestBroker.withConnection(configuration) { connection in
                    try connection.deleteQueue(topology.jobQueue(.now))
                    try topology.declare(on: connection)
                }
                try await fill(configuration, topology, .now, [[2], [3]])
                #expect(try await watching.take(2).map(\.body) == [[2], [3]])
            }
            #expect(watching.messages.waiting.isEmpty)
        }
    }

    @Test("A consumer that stops taking takes no more messages and settles the ones it has") func stopsAndSettles() async throws {
        try await withTestBroker { configuration, topology in
            try await fill(configuration, topology, .now, (0..<10).map { [$0] })
            let watching = try Watching(configuration, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 4)])
            try await testGracefulShutdown { trigger in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await watching.consumer.run() }
                    let held = try await watching.messages.next(4)
                    watching.consumer.stopTaking()
                    watching.consumer.acknowledge(held.map(\.deliveryTag))
                    trigger.triggerGracefulShutdown()
                    try await group.waitForAll()
                }
            }
            #expect(watching.messages.waiting.isEmpty)
            // The consumer did not take the messages after the four. The broker makes them ready again when it notices that the channel is
            // closed.
            while try await TestBroker.messageCount(topology.jobQueue(.now), configuration) < 6 { await Task.yield() }
            let left = try await TestBroker.messageCount(topology.jobQueue(.now), configuration)
            #expect(left == 6)
        }
    }

    @Test("A consumer acknowledges messages that are settled after a graceful stop began") func settlesDuringStop() async throws {
        try await withTestBroker { configuration, topology in
            try await fill(configuration, topology, .now, (0..<4).map { [$0] })
            let watching = try Watching(configuration, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 10)])
            let publisher = try makePublisher(configuration, topology)
            try await whileRunning(publisher) {
                try await testGracefulShutdown { trigger in
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        group.addTask { try await watching.consumer.run() }
                        let held = try await watching.messages.next(4)
                        trigger.triggerGracefulShutdown()
                        // A round trip to the broker. At its end the consumer has cancelled its subscription and waits for these
                        // acknowledgements.
                        #expect(await publisher.publish([.job(topology, .bulk)], deadline: nil) == [.confirmed])
                        watching.consumer.acknowledge(held.map(\.deliveryTag))
                        try await group.waitForAll()
                    }
                }
            }
            let left = try await TestBroker.messageCount(topology.jobQueue(.now), configuration)
            #expect(left == 0)
        }
    }

    @Test("A consumer declares no topology after a stop request") func declaresNothing() async throws {
        try await withProxiedBroker { direct, proxied, _, proxy in
            let topology = Topology(prefix: TestBroker.uniquePrefix())
            let watching = try Watching(proxied, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 5)])
            try await stopWhileConnecting(watching.consumer, through: proxy)
            await #expect(throws: RabbitMQError.self) { try await TestBroker.messageCount(topology.jobQueue(.now), direct) }
        }
    }

    @Test("A graceful stop waits for unsettled messages, but not for ever") func waitsAtStop() async throws {
        try await withTestBroker { configuration, topology in
            try await fill(configuration, topology, .now, [[1], [2]])
            let watching = try Watching(
                configuration, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 5)], drainTimeout: .milliseconds(300))
            try await testGracefulShutdown { trigger in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await watching.consumer.run() }
                    _ = try await watching.take()
                    _ = try await watching.messages.next()
                    trigger.triggerGracefulShutdown()
                    try await group.waitForAll()
                }
            }
            // The acknowledged one is gone, the other one is back.
            let again = try Watching(configuration, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 5)])
            let left = try await whileRunning(again.consumer) { try await again.take() }
            #expect(left.body == [2])
        }
    }

    @Test("A consumer dead-letters a message that is too large") func deadLetters() async throws {
        try await withTestBroker { configuration, topology in
            try await fill(configuration, topology, .now, [[UInt8](repeating: 1, count: 5000), [2]])
            var careful = configuration
            careful.maximumBodyBytes = 4999
            let watching = try Watching(careful, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 5)])
            let dead = try Watching(configuration, topology, [Subscription(queue: topology.deadQueue, prefetch: 5)])
            try await whileRunning(watching.consumer, dead.consumer) {
                let taken = try await watching.take()
                #expect(taken.body == [2])
                let letter = try await dead.take()
                #expect(letter.body.count == 5000)
            }
        }
    }

    @Test("A consumer reads a stream on over another connection on request") func readsOn() async throws {
        try await withTestBroker { configuration, topology in
            let publisher = try makePublisher(configuration, topology)
            let watching = try Watching(configuration, topology, [.stream(topology.controlStream, prefetch: 100)])
            try await whileRunning(publisher, watching.consumer) {
                let isUp = try await watching.connections.next()
                #expect(isUp)
                for round in 0..<3 as Range<UInt8> {
                    let messages = (0..<4 as Range<UInt8>).map { OutgoingMessage.control(topology, body: [round, $0]) }
                    #expect(await publisher.publish(messages, deadline: nil).allSatisfy(\.isConfirmed))
                    let taken = try await watching.take(4)
                    #expect(taken.map(\.body) == (0..<4).map { [round, $0] })
                    watching.consumer.readAnew(because: "a test")
                    publisher.reconnect(because: "a test")
                    let changes = try await watching.connections.next(2)
                    #expect(changes == [false, true])
                }
                #expect(watching.messages.waiting.isEmpty)
            }
        }
    }

    @Test("A consumer reads a stream from its first message up to its own marker") func readsToMarker() async throws {
        try await withTestBroker { configuration, topology in
            let publisher = try makePublisher(configuration, topology)
            try await whileRunning(publisher) {
                let old = (0..<500).map { OutgoingMessage.control(topology, body: [UInt8(truncatingIfNeeded: $0)]) }
                #expect(await publisher.publish(old, deadline: nil).allSatisfy(\.isConfirmed))
                let watching = try Watching(configuration, topology, [.stream(topology.controlStream, prefetch: 100)])
                try await whileRunning(watching.consumer) {
                    let marker = PushID.random()
                    #expect(await publisher.publish([.control(topology, body: [99], id: marker)], deadline: nil) == [.confirmed])
                    var offsets: [Int64] = []
                    while true {
                        let message = try await watching.take()
                        offsets.append(try #require(message.streamOffset))
                        if message.messageID == marker { break }
                    }
                    #expect(offsets == Array(0...500))
                }
            }
        }
    }

    @Test("After a cut a consumer continues a stream after the last message it delivered") func continuesStream() async throws {
        try await withProxiedBroker { direct, proxied, topology, proxy in
            let publisher = try makePublisher(direct, topology)
            let watching = try Watching(proxied, topology, [.stream(topology.controlStream, prefetch: 50)])
            try await whileRunning(publisher, watching.consumer) {
                _ = try await watching.connections.first { $0 }
                for round in 0..<4 {
                    let some = (0..<100).map { OutgoingMessage.control(topology, body: [UInt8($0)]) }
                    #expect(await publisher.publish(some, deadline: nil).allSatisfy(\.isConfirmed))
                    let taken = try await watching.take(100)
                    #expect(taken.compactMap(\.streamOffset) == (0..<100).map { Int64(round * 100 + $0) })
                    proxy.cut()
                    _ = try await watching.connections.first { !$0 }
                    _ = try await watching.connections.first { $0 }
                }
            }
        }
    }

    /// The new stream counts from 0 again.
    @Test("A consumer reads a deleted stream from its new beginning, and counts the deletion", arguments: [false, true])
    func deletedStream(isDeclaredAtOnce: Bool) async throws {
        try await withTestBroker { configuration, topology in
            let publisher = try makePublisher(configuration, topology)
            let metrics = PrometheusMetrics()
            let watching = try Watching(
                configuration, topology, [.stream(topology.controlStream, prefetch: 50)], silenceLimit: .milliseconds(100),
                metrics: metrics)
            let uncounted = #"push_broker_connection_renewals_total{client="consumer"} 0"#
            #expect(metrics.render().contains(uncounted))
            try await whileRunning(publisher, watching.consumer) {
                let old = (0..<20).map { OutgoingMessage.control(topology, body: [UInt8($0)]) }
                #expect(await publisher.publish(old, deadline: nil).allSatisfy(\.isConfirmed))
                _ = try await watching.take(20)
                _ = try await watching.connections.first { $0 }
                try await TestBroker.withConnection(configuration) { connection in
                    try connection.deleteQueue(topology.controlStream)
                    if isDeclaredAtOnce { try topology.declare(on: connection) }
                }
                // The consumer reports the lost connection to its user.
                _ = try await watching.connections.first { !$0 }
                _ = try await watching.connections.first { $0 }
                #expect(await publisher.publish([.control(topology, body: [99])], deadline: nil) == [.confirmed])
                // The test asks for another reading until the message arrives.
                while watching.messages.waiting.isEmpty {
                    watching.consumer.readAnew(because: "a test")
                    _ = try await watching.connections.first { !$0 }
                    _ = try await watching.connections.first { $0 }
                    // A round trip to the broker, so that messages in flight arrive.
                    #expect(await publisher.publish([.job(topology)], deadline: nil) == [.confirmed])
                }
                #expect(try await watching.take().body == [99])
                #expect(!metrics.render().contains(uncounted))
            }
        }
    }
}
