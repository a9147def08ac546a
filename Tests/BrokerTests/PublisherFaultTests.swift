import Broker
import Dispatch
import Logging
import PushModel
import RabbitMQ
import TestBroker
import TestSupport
import Testing

@Suite("A publisher whose connection breaks", .timeLimit(.minutes(5)))
struct PublisherFaultTests {
    @Test("A publisher loses no message through many cuts") func manyCuts() async throws {
        try await withProxiedBroker { direct, proxied, topology, proxy in
            let publisher = try makePublisher(proxied, topology)
            let outcomes = Signal<[PublishOutcome]>()
            var ids: Set<PushID> = []
            try await whileRunning(publisher) {
                for _ in 0..<6 {
                    for _ in 0..<10 {
                        let some = (0..<40).map { _ in PushID.random() }
                        ids.formUnion(some)
                        publisher.publishAll(some.map { .job(topology, id: $0, body: [UInt8](repeating: 9, count: 2000)) }) {
                            outcomes.send($0)
                        }
                    }
                    // The cut comes in the middle of this round's confirms.
                    let first = try await outcomes.next()
                    proxy.cut()
                    let others = try await outcomes.next(9)
                    let failed = (others + [first]).joined().filter { !$0.isConfirmed }
                    #expect(failed.isEmpty)
                }
            }
            #expect(proxy.accepted.waiting.count >= 4, "the cuts did not make the publisher reconnect")
            #expect(try await stored(direct, topology, atLeast: ids) == ids)
        }
    }

    @Test("A publisher publishes unconfirmed messages again with the same id") func sameID() async throws {
        try await withProxiedBroker { direct, proxied, topology, proxy in
            let publisher = try makePublisher(proxied, topology)
            let watching = try Watching(direct, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 100)])
            let outcomes = Signal<[PublishOutcome]>()
            try await whileRunning(publisher, watching.consumer) {
                #expect(await publisher.publish([.job(topology)], deadline: nil) == [.confirmed])
                _ = try await watching.take()
                // The broker gets and stores the messages, but its confirms do not arrive.
                proxy.set(.deafClient)
                let ids = (0..<50).map { _ in PushID.random() }
                publisher.publishAll(ids.map { .job(topology, id: $0) }) { outcomes.send($0) }
                #expect(try await watching.take(50).compactMap(\.messageID) == ids)
                // A consumer may have a message before its publisher has the confirm.
                _ = try await proxy.losses.next()
                #expect(outcomes.waiting.isEmpty)
                proxy.set(.forwarding)
                #expect(try await outcomes.next() == [PublishOutcome](repeating: .confirmed, count: 50))
                #expect(try await watching.take(50).compactMap(\.messageID) == ids)
            }
        }
    }

    @Test("A publisher notices a network that vanished silently") func silentNetwork() async throws {
        try await withProxiedBroker(heartbeat: .seconds(2)) { direct, proxied, topology, proxy in
            let publisher = try makePublisher(proxied, topology)
            let ids = (0..<20).map { _ in PushID.random() }
            try await whileRunning(publisher) {
                #expect(await publisher.publish([.job(topology, id: ids[0])], deadline: nil) == [.confirmed])
                _ = try await proxy.accepted.next()
                proxy.set(.blackHole)
                let outcomes = Signal<[PublishOutcome]>()
                publisher.publishAll(ids.dropFirst().map { .job(topology, id: $0) }) { outcomes.send($0) }
                // A second connection means that the publisher gave up the first one after two silent heartbeats.
                _ = try await proxy.accepted.next()
                #expect(publisher.state == .connecting)
                #expect(outcomes.waiting.isEmpty)
                proxy.set(.forwarding)
                #expect(try await outcomes.next().allSatisfy(\.isConfirmed))
            }
            #expect(try await stored(direct, topology, atLeast: Set(ids)) == Set(ids))
        }
    }

    @Test("The watchdog frees a publisher from a write that hangs") func hangingWrite() async throws {
        try await withProxiedBroker { direct, proxied, topology, proxy in
            var patient = proxied
            // The heartbeat must not end the hanging write.
            patient.heartbeat = .seconds(60)
            let cut = Gate()
            let publisher = try Publisher(
                configuration: patient, topology: topology, watchdogLimit: .seconds(1),
                logger: Logger(label: "test") { _ in LogWatcher { if $0.contains("its connection was cut") { cut.open() } } })
            let outcomes = Signal<[PublishOutcome]>()
            try await whileRunning(publisher) {
                #expect(await publisher.publish([.job(topology, .bulk)], deadline: nil) == [.confirmed])
                _ = try await proxy.accepted.next()
                proxy.set(.paused)
                // More than the socket buffers of both hops hold together.
                publisher.publishAll([.job(topology, .bulk, body: [UInt8](repeating: 1, count: 48 << 20))]) { outcomes.send($0) }
                // The watchdog cuts the connection, and not TCP_USER_TIMEOUT after fifteen seconds; the publisher reconnects.
                try await cut.wait()
                _ = try await proxy.accepted.next()
            }
            #expect(outcomes.waiting == [[.failed(.stopped)]])
        }
    }

    /// Each confirmation is later than the limit, on every connection.
    @Test("A publisher that keeps the order gives a slow broker more time with each connection", .timeLimit(.minutes(5)))
    func slowConfirmations() async throws {
        try await withProxiedBroker { _, proxied, topology, proxy in
            let few = Topology(prefix: topology.prefix, hasRetries: false)
            let publisher = try makePublisher(proxied, few, confirmLimit: .milliseconds(100), isOrdered: true)
            try await whileRunning(publisher) {
                func entry() -> OutgoingMessage {
                    OutgoingMessage(exchange: "", routingKey: topology.controlStream, messageID: .random(), contentType: "x", body: [])
                }
                #expect(await publisher.publish([entry()], deadline: nil) == [.confirmed])
                proxy.set(LinkConditions(toClient: .delayed(by: .milliseconds(375))))
                #expect(await publisher.publish([entry()], deadline: .seconds(120)) == [.confirmed])
            }
        }
    }

    @Test("A message that is taken back before it is written is not published") func withdrawn() async throws {
        try await withTestBroker { configuration, topology in
            let publisher = try makePublisher(configuration, topology)
            let withdrawal = Withdrawal()
            var early = OutgoingMessage.job(topology)
            early.withdrawal = withdrawal
            // Messages wait until the publisher runs.
            let answers = Signal<PublishAnswer>()
            publisher.publish([early, .job(topology)]) { answers.send(contentsOf: $0) }
            withdrawal.make()
            try await whileRunning(publisher) {
                let outcomes = [try await answers.next(), try await answers.next()].sorted { $0.index < $1.index }.map(\.outcome)
                #expect(outcomes == [.failed(.withdrawn), .confirmed])
                #expect(try await TestBroker.messageCount(topology.jobQueue(.now), configuration) == 1)
            }
        }
    }

    @Test("What waits for a connection for too long is given up, and is not published later") func longOutage() async throws {
        try await withProxiedBroker { direct, proxied, topology, proxy in
            let publisher = try makePublisher(proxied, topology, outageLimit: .milliseconds(1))
            func becomes(_ state: PublisherState) async { while publisher.state != state { await Task.yield() } }
            try await whileRunning(publisher) {
                await becomes(.ready)
                #expect(await publisher.publish([.job(topology)], deadline: nil) == [.confirmed])
                proxy.set(.refusing)
                proxy.cut()
                await becomes(.connecting)
                #expect(
                    await publisher.publish([.job(topology), .job(topology, .bulk)], deadline: .seconds(60))
                        == [.failed(.disconnected), .failed(.disconnected)])
                #expect(publisher.pending == 0)
                proxy.set(.forwarding)
                await becomes(.ready)
                #expect(await publisher.publish([.job(topology)], deadline: nil) == [.confirmed])
            }
            #expect(try await TestBroker.messageCount(topology.jobQueue(.now), direct) == 2)
            #expect(try await TestBroker.messageCount(topology.jobQueue(.bulk), direct) == 0)
        }
    }

    @Test("What waits while each new connection breaks at the first message is given up, too") func brokenAtEachMessage() async throws {
        try await withProxiedBroker { _, proxied, topology, proxy in
            // Enough to open a connection, and not for the large message.
            proxy.set(LinkConditions(toServer: .ending(after: 500_000, .reset)))
            let publisher = try makePublisher(proxied, topology, outageLimit: .seconds(4))
            try await whileRunning(publisher) {
                while publisher.state != .ready { await Task.yield() }
                #expect(await publisher.publish([.job(topology)], deadline: nil) == [.confirmed])
                let large = OutgoingMessage.job(topology, body: [UInt8](repeating: 1, count: 1 << 20))
                #expect(await publisher.publish([large], deadline: .seconds(60)) == [.failed(.disconnected)])
                #expect(proxy.accepted.waiting.count > 1, "no connection opened again")
                // Until a connection is there, each message is given up at once.
                while publisher.state != .ready { await Task.yield() }
                #expect(await publisher.publish([.job(topology)], deadline: nil) == [.confirmed])
            }
        }
    }

    /// The publisher's thread stands still while the confirmations come and the connection ends.
    @Test("Confirmations that come together with the end of the connection count") func confirmationsBeforeTheEnd() async throws {
        try await withProxiedBroker { direct, proxied, topology, proxy in
            let publisher = try makePublisher(proxied, topology)
            let (standsStill, mayGoOn) = (Gate(), DispatchSemaphore(value: 0))
            let outcomes = Signal<PublishAnswer>()
            try await whileRunning(publisher) {
                #expect(await publisher.publish([.job(topology)], deadline: nil) == [.confirmed])
                // More than a window: when the first answers are reported, the thread has just written others.
                publisher.publish((0..<200).map { _ in .job(topology) }) { answers in
                    outcomes.send(contentsOf: answers)
                    standsStill.open()
                    mayGoOn.wait()
                }
                defer { mayGoOn.signal() }
                try await standsStill.wait()
                let answered = outcomes.waiting.count
                // The broker confirms a moment after it has stored them, and nothing says when the last confirmation has come.
                let queue = topology.jobQueue(.now)
                var (stored, sent) = (0, -1)
                while stored <= 1 + answered || sent != proxy.bytesFromServer {
                    sent = proxy.bytesFromServer
                    try await Task.sleep(for: .milliseconds(300))
                    stored = try await TestBroker.messageCount(queue, direct)
                }
                proxy.set(LinkConditions(toClient: .ending(after: 0, .close)))
                proxy.set(.forwarding)
                for _ in 0..<200 { mayGoOn.signal() }
                for _ in 0..<200 { #expect(try await outcomes.next().outcome == .confirmed) }
                let unanswered = stored - 1 - answered
                #expect(try await TestBroker.messageCount(queue, direct) < 201 + unanswered, "all of them were published again")
            }
        }
    }

    @Test("A publisher that keeps the order takes no slow answer for a queue that stands still") func orderedNeverStalls() async throws {
        try await withProxiedBroker(heartbeat: .seconds(30)) { _, proxied, topology, proxy in
            let stalled = Signal<Void>()
            let publisher = try Publisher(
                configuration: proxied, topology: topology, confirmLimit: .seconds(20), isOrdered: true,
                logger: Logger(label: "test") { _ in LogWatcher { if $0.contains("does not answer") { stalled.send(()) } } })
            func entry() -> OutgoingMessage {
                OutgoingMessage(exchange: "", routingKey: topology.controlStream, messageID: .random(), contentType: "x", body: [])
            }
            try await whileRunning(publisher) {
                #expect(await publisher.publish([entry()], deadline: nil) == [.confirmed])
                // Longer than the nine seconds after which a silent connection's queues count as silent.
                proxy.set(LinkConditions(toClient: .delayed(by: .milliseconds(9600))))
                async let first = publisher.publish([entry()], deadline: nil)
                async let second = publisher.publish([entry()], deadline: nil)
                #expect(await [first, second] == [[.confirmed], [.confirmed]])
            }
            #expect(stalled.waiting.isEmpty)
        }
    }

    @Test("A connection that stands still says nothing about its queues: no message takes a detour") func silentConnection() async throws {
        try await withProxiedBroker { direct, proxied, topology, proxy in
            let publisher = try makePublisher(proxied, topology, confirmLimit: .seconds(60))
            func outcomes(_ count: Int) -> [OutgoingMessage] {
                (0..<count).map { _ in
                    OutgoingMessage(
                        exchange: topology.outcomesExchange, routingKey: "shop.accepted", messageID: .random(), contentType: "x", body: [],
                        fallbackExchanges: [topology.waitingOutcomesExchange])
                }
            }
            try await whileRunning(publisher) {
                #expect(await publisher.publish(outcomes(1), deadline: nil) == [.confirmed])
                proxy.set(.paused)
                async let answers = publisher.publish(outcomes(20), deadline: nil)
                // The passing of time is what is tested: less than the nine seconds of a silent connection.
                try await Task.sleep(for: .seconds(4))
                async let later = publisher.publish(outcomes(20), deadline: nil)
                while publisher.pending < 40 { await Task.yield() }
                proxy.cut()
                proxy.set(.forwarding)
                #expect(await [answers, later] == Array(repeating: Array(repeating: .confirmed, count: 20), count: 2))
                #expect(try await TestBroker.messageCount(topology.waitingOutcomesQueue, direct) == 0)
            }
        }
    }

    /// Takes the messages of the lane `now` until all of `ids` are there and the queue is empty.
    private func stored(_ configuration: RabbitMQConfiguration, _ topology: Topology, atLeast ids: Set<PushID>) async throws -> Set<PushID>
    {
        let ready = try await TestBroker.messageCount(topology.jobQueue(.now), configuration)
        let watching = try Watching(configuration, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 500)])
        return try await whileRunning(watching.consumer) {
            let taken = try await watching.take(max(ready, ids.count))
            return Set(taken.compactMap(\.messageID))
        }
    }
}
