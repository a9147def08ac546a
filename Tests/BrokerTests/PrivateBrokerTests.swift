import Broker
import Foundation
import Logging
import PushModel
import RabbitMQ
import Synchronization
import TestBroker
import TestServers
import TestSupport
import Testing

/// All cases share one private broker, because it takes ten seconds to start. They run one after another, because they freeze and starve
/// it.
@Suite("With a broker that is frozen, starved or guarded", .serialized, .timeLimit(.minutes(5)))
struct PrivateBrokerTests {
    @Test("Clients keep their promises with a frozen, starved or guarded broker") func promises() async throws {
        try TestServers.require()
        let broker = try await PrivateBroker.start()
        let result: Result<Void, any Error>
        do {
            try await importsTheDefinitionsThatDeclareWouldMake(broker)
            try await checksTheBrokersCertificateInsideTheHandshake(broker)
            try await goesOnAfterABrokenHandshake(broker)
            try await saysThatItIsBlockedAndGoesOnAfterwards(broker)
            try await publishesAgainWhereAConfirmationIsOverdue(broker)
            try await aQueueThatDoesNotAnswerDelaysItsOwnMessagesOnly(broker)
            try await aNewConnectionGoesOnBesideASilentQueue(broker)
            try await doesNotBelieveAConfirmationThatPassesOverAMessage(broker)
            try await looksAgainForTheLeaderOfAQueueThatRefuses(broker)
            try await neverHangsACallerWhileTheBrokerIsFrozen(broker)
            result = .success(())
        } catch {
            result = .failure(error)
        }
        await broker.stop()
        try result.get()
    }

    private func importsTheDefinitionsThatDeclareWouldMake(_ broker: PrivateBroker) async throws {
        let configuration = try RabbitMQConfiguration(uri: broker.uri)
        let topology = Topology(prefix: "imported", ownership: .operators)
        let file = "\(broker.folder)/definitions.json"
        try Data(topology.definitions()).write(to: URL(fileURLWithPath: file))
        try await broker.control("import_definitions", file)
        try await TestBroker.withConnection(configuration) { connection in
            try topology.check(on: connection)
            // A single differing argument would be a 406.
            try topology.declare(on: connection)
        }
        let publisher = try makePublisher(configuration, topology)
        try await whileRunning(publisher) {
            // The bindings are there too.
            let messages = Lane.allCases.map { OutgoingMessage.job(topology, $0) }
            #expect(await publisher.publish(messages, deadline: nil).allSatisfy(\.isConfirmed))
        }
    }

    private func checksTheBrokersCertificateInsideTheHandshake(_ broker: PrivateBroker) async throws {
        for host in ["localhost", "127.0.0.1"] {
            let configuration = try RabbitMQConfiguration(
                uri: "amqps://guest:guest@\(host):\(broker.tlsPort)/", authorityFile: broker.authorityFile)
            let count = try await TestBroker.withConnection(configuration) { connection in
                try connection.declareQueue("tls", arguments: ["x-queue-type": "quorum"])
                return try connection.messageCount("tls")
            }
            #expect(count == 0)
        }
        // First another authority, then a name of the broker that is not in its certificate (an old spelling of 127.0.0.1).
        for (host, authority) in [("localhost", "\(broker.folder)/server.pem"), ("127.1", broker.authorityFile)] {
            let configuration = try RabbitMQConfiguration(uri: "amqps://guest:guest@\(host):\(broker.tlsPort)/", authorityFile: authority)
            await #expect {
                try await TestBroker.withConnection(configuration) { _ in }
            } throws: {
                ($0 as? RabbitMQError)?.code == .untrusted
            }
        }
    }

    /// A node whose certificate has ended, or a load balancer without a target, breaks every handshake off. Here it is a port without TLS.
    private func goesOnAfterABrokenHandshake(_ broker: PrivateBroker) async throws {
        let plain = try RabbitMQConfiguration(uri: broker.uri).nodes[0]
        let broken = try (1...3).map { _ in try FaultProxy(toHost: plain.host, port: plain.port) }
        defer { for node in broken { node.stop() } }
        var wasAsked = false
        for _ in 1...8 {
            // A new proxy has a new port, and so another place among the nodes.
            let good = try FaultProxy(toHost: "127.0.0.1", port: broker.tlsPort)
            defer { good.stop() }
            var configuration = try RabbitMQConfiguration(
                uri: "amqps://guest:guest@localhost:\(good.port)/", authorityFile: broker.authorityFile)
            configuration.nodes += broken.map { .init(host: "localhost", port: $0.port) }
            for _ in 1...2 { try RabbitMQConnection.open(configuration).close() }
            wasAsked = wasAsked || broken.contains { $0.bytesFromClients > 0 }
        }
        #expect(wasAsked, "a broken node came first at least once")
        var hopeless = try RabbitMQConfiguration(uri: "amqps://guest:guest@localhost:1/", authorityFile: broker.authorityFile)
        hopeless.nodes = broken.map { .init(host: "localhost", port: $0.port) }
        #expect { try RabbitMQConnection.open(hopeless) } throws: { ($0 as? RabbitMQError)?.code == .untrusted }
    }

    /// A suspended queue confirms nothing, while its node and the connection work.
    private func publishesAgainWhereAConfirmationIsOverdue(_ broker: PrivateBroker) async throws {
        let configuration = try RabbitMQConfiguration(uri: broker.uri)
        let topology = Topology(prefix: "still")
        let publisher = try makePublisher(configuration, topology, confirmLimit: .seconds(2))
        try await whileRunning(publisher) {
            #expect(await publisher.publish([.job(topology, .now)], deadline: nil) == [.confirmed])
            try await broker.control("eval", "sys:suspend('%2F_\(topology.jobQueue(.now))').")
            async let outcome = publisher.publish([.job(topology, .now)], deadline: nil)
            let deadline = ContinuousClock.now + .seconds(60)
            while publisher.state == .ready, .now < deadline { try await Task.sleep(for: .milliseconds(20)) }
            #expect(publisher.state == .connecting && publisher.peer == nil)
            // Nothing else is published. The queue counts as silent until it answers, over each next connection.
            for isConnected in [false, true, false, true] {
                while (publisher.state == .ready) != isConnected, .now < deadline { try await Task.sleep(for: .milliseconds(5)) }
                #expect(publisher.stalledQueues == 1)
            }
            try await broker.control("eval", "sys:resume('%2F_\(topology.jobQueue(.now))').")
            #expect(await outcome == [.confirmed])
            #expect(await publisher.publish([.job(topology, .now)], deadline: nil) == [.confirmed])
            while publisher.stalledQueues > 0, .now < deadline { try await Task.sleep(for: .milliseconds(5)) }
            #expect(publisher.stalledQueues == 0)
        }
    }

    /// The channel that publishes to a queue that stands still does so too: at its first message, or after 32, whatever comes first.
    private func aQueueThatDoesNotAnswerDelaysItsOwnMessagesOnly(_ broker: PrivateBroker) async throws {
        let configuration = try RabbitMQConfiguration(uri: broker.uri)
        let topology = Topology(prefix: "silent")
        let isReplaced = Gate()
        let publisher = try Publisher(
            configuration: configuration, topology: topology, maximumPending: 2_000, confirmLimit: .seconds(2),
            logger: Logger(label: "test") { _ in LogWatcher { if $0.contains("go over another channel") { isReplaced.open() } } })
        func bulk(_ count: Int = 1) async -> Bool {
            let messages = (0..<count).map { _ in OutgoingMessage.job(topology, .bulk) }
            return await publisher.publish(messages, deadline: .seconds(60)).allSatisfy { $0 == .confirmed }
        }
        try await whileRunning(publisher) {
            // While something is answered, the connection is well.
            let others = Task { while !Task.isCancelled { _ = await publisher.publish([.job(topology, .soon)], deadline: .seconds(60)) } }
            defer { others.cancel() }
            #expect(await publisher.publish([.job(topology, .now)], deadline: nil) == [.confirmed])
            try await broker.control("eval", "sys:suspend('%2F_\(topology.jobQueue(.now))').")
            // Answered singly: the second message does not wait for the first one of its publication.
            let answers = Signal<PublishAnswer>()
            publisher.publish([.job(topology, .now), .job(topology, .bulk)]) { answers.send(contentsOf: $0) }
            #expect(try await answers.next() == PublishAnswer(index: 1, outcome: .confirmed))
            // More than the channel takes for such a queue, and more of the others than the reader takes for such a channel.
            let many = Signal<PublishAnswer>()
            publisher.publish((0..<150).map { _ in .job(topology, .now) }) { many.send(contentsOf: $0) }
            #expect(await bulk(1_000))
            var moved = OutgoingMessage.job(topology, .now)
            moved.fallbackExchanges = [topology.deadExchange]
            // Before and after the first message is published again.
            for _ in 1...2 {
                #expect(await bulk())
                // It goes to the next exchange that it names, as if it had been stored in the first.
                #expect(await publisher.publish([moved], deadline: .seconds(60)) == [.confirmed])
                try await isReplaced.wait()
            }
            #expect(await bulk(1_000))
            #expect(publisher.state == .ready, "the connection of all other messages stays")
            // Bounded: what waits for the silent queue leaves room for the others.
            let refused = await publisher.publish((0..<300).map { _ in .job(topology, .now) }, deadline: .seconds(5))
            #expect(refused.contains(.failed(.stalled)) && refused.contains(.failed(.deadlineExceeded)))
            #expect(await bulk())
            #expect(answers.waiting.isEmpty && many.waiting.isEmpty)
            try await broker.control("eval", "sys:resume('%2F_\(topology.jobQueue(.now))').")
            #expect(try await answers.next() == PublishAnswer(index: 0, outcome: .confirmed))
            for _ in 0..<150 { #expect(try await many.next().outcome == .confirmed) }
            #expect(await publisher.publish([.job(topology, .now)], deadline: .seconds(60)) == [.confirmed])
        }
    }

    /// The queue stands still before a channel has published to it, as after the loss of a node, and messages with many routing keys go
    /// there.
    private func aNewConnectionGoesOnBesideASilentQueue(_ broker: PrivateBroker) async throws {
        let configuration = try RabbitMQConfiguration(uri: broker.uri)
        let topology = Topology(prefix: "mute")
        let declaring = try makePublisher(configuration, topology)
        try await whileRunning(declaring) { #expect(await declaring.publish([.job(topology, .bulk)], deadline: nil) == [.confirmed]) }
        let answersAgain = Gate()
        let publisher = try Publisher(
            configuration: configuration, topology: topology, confirmLimit: .seconds(2),
            logger: Logger(label: "test") { _ in LogWatcher { if $0.contains("answers again") { answersAgain.open() } } })
        func outcome(_ app: Int) -> OutgoingMessage {
            OutgoingMessage(
                exchange: topology.outcomesExchange, routingKey: "app\(app).accepted", messageID: .random(), contentType: "text/plain",
                body: [],
                fallbackExchanges: [topology.waitingOutcomesExchange])
        }
        try await broker.control("eval", "sys:suspend('%2F_\(topology.tokenServiceOutcomesQueue)').")
        try await whileRunning(publisher) {
            let others = Task { while !Task.isCancelled { _ = await publisher.publish([.job(topology, .soon)], deadline: .seconds(60)) } }
            defer { others.cancel() }
            let outcomes = Signal<PublishAnswer>()
            publisher.publish((0..<30).map(outcome)) { outcomes.send(contentsOf: $0) }
            for _ in 0..<20 {
                #expect(await publisher.publish([.job(topology, .bulk)], deadline: .seconds(10)) == [.confirmed])
            }
            // They are stored elsewhere.
            for _ in 0..<30 { #expect(try await outcomes.next().outcome.isConfirmed) }
            #expect(publisher.state == .ready)
            // A line whose messages have another exchange finds out that its queue answers again, also over a new connection.
            publisher.reconnect(because: "a test wants it")
            #expect(await publisher.publish([.job(topology, .bulk), outcome(1)], deadline: .seconds(60)).allSatisfy(\.isConfirmed))
            try await broker.control("eval", "sys:resume('%2F_\(topology.tokenServiceOutcomesQueue)').")
            #expect(await publisher.publish((0..<30).map(outcome), deadline: .seconds(60)).allSatisfy(\.isConfirmed))
            try await answersAgain.wait()
            let before = try await TestBroker.messageCount(topology.tokenServiceOutcomesQueue, configuration)
            for app in 0..<8 { #expect(await publisher.publish([outcome(app)], deadline: .seconds(60)) == [.confirmed]) }
            #expect(try await TestBroker.messageCount(topology.tokenServiceOutcomesQueue, configuration) >= before + 7)
        }
    }

    /// One of the two queues is suspended, so the confirms come in the wrong order, as from a stream with a new leader.
    private func doesNotBelieveAConfirmationThatPassesOverAMessage(_ broker: PrivateBroker) async throws {
        let configuration = try RabbitMQConfiguration(uri: broker.uri)
        let topology = Topology(prefix: "order")
        let publisher = try makePublisher(configuration, topology, isOrdered: true)
        try await whileRunning(publisher) {
            #expect(await publisher.publish([.job(topology, .now)], deadline: nil) == [.confirmed])
            try await broker.control("eval", "sys:suspend('%2F_\(topology.jobQueue(.now))').")
            let early = PublishCount()
            publisher.publishAll([.job(topology, .now)]) { _ in early.add(1) }
            publisher.publishAll([.job(topology, .bulk)]) { _ in early.add(1) }
            let deadline = ContinuousClock.now + .seconds(60)
            while publisher.state == .ready, .now < deadline { try await Task.sleep(for: .milliseconds(5)) }
            #expect(publisher.state == .connecting)
            #expect(early.value == 0)
            try await broker.control("eval", "sys:resume('%2F_\(topology.jobQueue(.now))').")
            #expect(await publisher.publish([.job(topology, .bulk)], deadline: nil) == [.confirmed])
            #expect(early.value == 2)
        }
        // The other queue's message was published twice, once over each connection.
        let count = try await TestBroker.messageCount(topology.jobQueue(.bulk), configuration)
        #expect(count == 3)
    }

    /// The queue's record names a missing node as its leader, as it does just after the loss of that node.
    private func looksAgainForTheLeaderOfAQueueThatRefuses(_ broker: PrivateBroker) async throws {
        let configuration = try RabbitMQConfiguration(uri: broker.uri)
        let topology = Topology(prefix: "lost")
        let publisher = try makePublisher(configuration, topology)
        try await whileRunning(publisher) {
            #expect(await publisher.publish([.job(topology, .bulk)], deadline: nil) == [.confirmed])
            try await broker.control(
                "eval",
                """
                Update = fun() -> rabbit_amqqueue:update(rabbit_misc:r(<<"/">>, queue, <<"\(topology.jobQueue(.now))">>),
                    fun(Queue) -> {Name, _} = amqqueue:get_pid(Queue), amqqueue:set_pid(Queue, {Name, away@nowhere}) end) end,
                case erlang:function_exported(rabbit_misc, execute_mnesia_transaction, 1) of
                    true -> rabbit_misc:execute_mnesia_transaction(Update);
                    false -> Update()
                end.
                """)
            // The queue's leader mends its record within five seconds. The other queue takes everything meanwhile.
            let deadline = ContinuousClock.now + .seconds(60)
            var outcomes: [Lane: [PublishOutcome]] = [:]
            while outcomes[.now]?.last != .confirmed, .now < deadline {
                let lanes: [Lane] = [.now, .bulk, .now]
                let answers = await publisher.publish(lanes.map { .job(topology, $0) }, deadline: nil)
                for (lane, answer) in zip(lanes, answers) { outcomes[lane, default: []].append(answer) }
                try await Task.sleep(for: .milliseconds(20))
            }
            #expect(outcomes[.now]?.last == .confirmed)
            #expect(outcomes[.bulk]?.allSatisfy(\.isConfirmed) == true)
            // The broker stored every confirmed message, over either connection. RabbitMQ reports a count of zero while the record is
            // wrong.
            let confirmed = outcomes[.now]?.count { $0.isConfirmed } ?? 0
            var taken = 0
            while taken < confirmed, .now < deadline {
                taken = try await TestBroker.messageCount(topology.jobQueue(.now), configuration)
                try await Task.sleep(for: .milliseconds(20))
            }
            #expect(taken >= confirmed)
            #expect(try await TestBroker.messageCount(topology.jobQueue(.bulk), configuration) >= 1 + (outcomes[.bulk]?.count ?? 0))
        }
    }

    private func saysThatItIsBlockedAndGoesOnAfterwards(_ broker: PrivateBroker) async throws {
        let direct = try RabbitMQConfiguration(uri: broker.uri)
        let proxy = try FaultProxy(toHost: direct.nodes[0].host, port: direct.nodes[0].port)
        defer { proxy.stop() }
        var configuration = direct
        configuration.nodes = [.init(host: direct.nodes[0].host, port: proxy.port)]
        let topology = Topology(prefix: "alarm")
        let blocked = Gate()
        let unblocked = Gate()
        let publisher = try Publisher(
            configuration: configuration, topology: topology,
            logger: Logger(label: "test") { _ in
                LogWatcher { message in
                    if message.contains("short of resources") { blocked.open() }
                    if message.contains("takes messages again") { unblocked.open() }
                }
            })
        let watching = try Watching(direct, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 100)])
        try await whileRunning(publisher, watching.consumer) {
            #expect(await publisher.publish([.job(topology)], deadline: nil) == [.confirmed])
            _ = try await watching.take()
            try await broker.control("set_vm_memory_high_watermark", "0")
            let outcomes = Signal<[PublishOutcome]>()
            let ids = (0..<500).map { _ in PushID.random() }
            publisher.publishAll(ids.map { .job(topology, id: $0) }) { outcomes.send($0) }
            try await blocked.wait()
            #expect(publisher.state == .blocked)
            #expect(outcomes.waiting.isEmpty)
            // After this the publisher writes only heartbeats.
            let written = proxy.bytesFromClients
            publisher.publish((0..<200).map { _ in .job(topology, .bulk, body: [UInt8](repeating: 1, count: 1000)) }) { _ in }
            // A caller waits no longer than its deadline.
            #expect(await publisher.publish([.job(topology)], deadline: .milliseconds(50)) == [.failed(.deadlineExceeded)])
            // The proxy may not have read all earlier bytes. The two hundred messages would be more than those.
            #expect(proxy.bytesFromClients < written + 100_000)
            try await broker.control("set_vm_memory_high_watermark", "0.4")
            try await unblocked.wait()
            #expect(try await outcomes.next() == [PublishOutcome](repeating: .confirmed, count: 500))
            #expect(publisher.state == .ready)
            let stored = try await watching.take(500)
            #expect(Set(stored.compactMap(\.messageID)).isSuperset(of: ids.prefix(400)))
        }
    }

    private func neverHangsACallerWhileTheBrokerIsFrozen(_ broker: PrivateBroker) async throws {
        var configuration = try RabbitMQConfiguration(uri: broker.uri)
        configuration.heartbeat = .seconds(2)
        let topology = Topology(prefix: "frozen")
        let away = Gate()
        let publisher = try Publisher(
            configuration: configuration, topology: topology,
            logger: Logger(label: "test") { _ in LogWatcher { if $0.contains("No connection") { away.open() } } })
        try await whileRunning(publisher) {
            #expect(await publisher.publish([.job(topology)], deadline: nil) == [.confirmed])
            try broker.freeze()
            let outcomes = Signal<[PublishOutcome]>()
            publisher.publishAll((0..<300).map { _ in .job(topology) }) { outcomes.send($0) }
            #expect(await publisher.publish([.job(topology)], deadline: .milliseconds(50)) == [.failed(.deadlineExceeded)])
            // After two heartbeats. The library's own publish would hang here for ever (#780).
            try await away.wait()
            #expect(publisher.state == .connecting)
            #expect(await publisher.publish([.job(topology)], deadline: .milliseconds(50)) == [.failed(.deadlineExceeded)])
            #expect(outcomes.waiting.isEmpty)
            try broker.thaw()
            #expect(try await outcomes.next() == [PublishOutcome](repeating: .confirmed, count: 300))
        }
    }
}

/// Gives a test every logged message.
struct LogWatcher: LogHandler {
    let onMessage: @Sendable (String) -> Void
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    init(_ onMessage: @escaping @Sendable (String) -> Void) { self.onMessage = onMessage }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { onMessage(event.message.description) }
}

private final class PublishCount: Sendable {
    private let count = Mutex(0)
    var value: Int { count.withLock { $0 } }
    func add(_ number: Int) { count.withLock { $0 += number } }
}
