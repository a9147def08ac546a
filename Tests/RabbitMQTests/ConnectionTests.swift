import PushModel
import RabbitMQ
import SystemIO
import TestSupport
import Testing

@Suite("A connection to the broker", .timeLimit(.minutes(5)))
struct ConnectionTests {
    @Test("A connection with a wrong password reports the refusal") func wrongPassword() throws {
        let uri = try testURI().replacing("guest:guest", with: "guest:wrong")
        let configuration = try RabbitMQConfiguration(uri: uri)
        #expect { try RabbitMQConnection.open(configuration) } throws: { ($0 as? RabbitMQError)?.code == .connectionClosed(403) }
    }

    @Test("A broker is unreachable at a port without a listener") func closedPort() throws {
        let configuration = try RabbitMQConfiguration(uri: "amqp://guest:guest@127.0.0.1:\(FreePorts.closed)/")
        #expect { try RabbitMQConnection.open(configuration) } throws: { ($0 as? RabbitMQError)?.code == .unreachable }
    }

    @Test("A connection gives up on a server that never answers") func muteServer() throws {
        let listener = try TCPListener(host: "127.0.0.1", port: 0)
        let configuration = try RabbitMQConfiguration(uri: "amqp://guest:guest@127.0.0.1:\(listener.port)/")
        #expect { try RabbitMQConnection.open(configuration) } throws: { ($0 as? RabbitMQError)?.code == .timedOut }
    }

    @Test("A connection refuses to work without heartbeats") func withoutHeartbeats() throws {
        var configuration = try RabbitMQConfiguration(uri: testURI())
        configuration.heartbeat = .zero
        #expect { try RabbitMQConnection.open(configuration) } throws: { ($0 as? RabbitMQError)?.code == .configuration }
    }

    @Test("A connection knows the broker's version") func brokerVersion() async throws {
        try await LiveConnection.use { live in
            let version = try live.connection.brokerMajorVersion()
            #expect(version >= 3)
            live.connection.close()
            #expect(throws: RabbitMQError.self) { try live.connection.brokerMajorVersion() }
        }
    }

    @Test("A connection ends when it declares a queue with other arguments") func otherArguments() async throws {
        try await LiveConnection.use { live in
            #expect { try live.connection.declareQueue(live.queue, arguments: ["x-max-length": 5]) } throws: {
                ($0 as? RabbitMQError)?.code == .channelClosed(406)
            }
            #expect { try live.connection.messageCount(live.queue) } throws: { ($0 as? RabbitMQError)?.code == .connectionLost }
        }
    }

    @Test("A connection ends when a queue is missing") func missingQueue() async throws {
        try await LiveConnection.use { live in
            #expect { try live.connection.messageCount("test-missing-\(PushID.random())") } throws: {
                ($0 as? RabbitMQError)?.code == .channelClosed(404)
            }
        }
    }

    @Test("A connection ends when another thread shuts its socket down") func otherThread() async throws {
        try await LiveConnection.use { live in
            let breaker = live.connection.breaker
            let thread = try SystemThread.start(name: "breaker") { breaker.shutDown() }
            #expect { try live.next { _ in nil as Bool? } } throws: { ($0 as? RabbitMQError)?.code == .connectionLost }
            thread.join()
            live.connection.close()
            breaker.shutDown()
        }
    }

    @Test("A connection answers heartbeats while it only waits") func answersHeartbeats() async throws {
        // Several heartbeats of one second pass each way. The broker disconnects a client that misses them.
        try await LiveConnection.use(configure: { $0.heartbeat = .seconds(1) }) { live in
            let end = ContinuousClock.now + .seconds(4)
            let wakeUp = try WakeUp()
            var events: [RabbitMQEvent] = []
            while ContinuousClock.now < end {
                try live.connection.receive(into: &events)
                try live.connection.wait(orUntil: wakeUp.descriptor, timeout: .milliseconds(250))
            }
            #expect(try live.connection.messageCount(live.queue) == 0)
        }
    }

    /// Two of three nodes are away: one takes no connection, and the name of the other does not resolve.
    @Test("A client tries the next node at once") func nextNode() async throws {
        var configuration = try RabbitMQConfiguration(uri: testURI())
        configuration.nodes += [.init(host: "127.0.0.1", port: FreePorts.closed), .init(host: "nowhere.invalid", port: 5672)]
        for _ in 1...8 {
            let connection = try RabbitMQConnection.open(configuration)
            connection.close()
        }
    }

    /// If a dispatcher's publisher notices a fault of its node, the fault must also hold for its reader of the control stream.
    @Test("All connections go to the same node, also after the loss of a node") func sameNode() throws {
        let configuration = try RabbitMQConfiguration(uri: testURI())
        let broker = configuration.nodes[0]
        var nodes = try (1...3).map { _ in try FaultProxy(toHost: broker.host, port: broker.port) }
        defer { for node in nodes { node.stop() } }
        var copies = [configuration, configuration]
        for index in copies.indices { copies[index].nodes = nodes.map { .init(host: "127.0.0.1", port: $0.port) } }
        for round in 1...3 {
            let connections = try (1...6).map { number in try RabbitMQConnection.open(copies[number % 2]) }
            let reached = nodes.indices.filter { nodes[$0].bytesFromClients > 0 }
            #expect(reached.count == 1, "round \(round)")
            for connection in connections { connection.close() }
            // This node is away from now on.
            for index in reached { nodes.remove(at: index).stop() }
        }
    }

    /// Every node would give the same answer, and each wrong password costs the account an attempt.
    @Test("A client with a wrong password asks only one node") func oneAttempt() async throws {
        var configuration = try RabbitMQConfiguration(uri: testURI().replacing("guest:guest", with: "guest:wrong"))
        let broker = configuration.nodes[0]
        let proxies = try (1...2).map { _ in try FaultProxy(toHost: broker.host, port: broker.port) }
        defer { for proxy in proxies { proxy.stop() } }
        configuration.nodes = proxies.map { .init(host: "127.0.0.1", port: $0.port) }
        #expect { try RabbitMQConnection.open(configuration) } throws: { ($0 as? RabbitMQError)?.code == .connectionClosed(403) }
        #expect(proxies.count { $0.bytesFromClients > 0 } == 1)
    }

    @Test("A connection notices a broker that falls silent") func silentBroker() async throws {
        var configuration = try RabbitMQConfiguration(uri: testURI())
        let direct = configuration.nodes[0]
        let proxy = try FaultProxy(toHost: direct.host, port: direct.port)
        defer { proxy.stop() }
        configuration.nodes = [.init(host: "127.0.0.1", port: proxy.port)]
        configuration.heartbeat = .seconds(1)
        let connection = try RabbitMQConnection.open(configuration)
        try connection.selectConfirms()
        proxy.set(.blackHole)
        // The silent node still takes connections, but it has failed, so the client asks it last.
        let other = try FaultProxy(toHost: direct.host, port: direct.port)
        defer { other.stop() }
        var both = configuration
        both.nodes.append(.init(host: "127.0.0.1", port: other.port))
        let wakeUp = try WakeUp()
        var events: [RabbitMQEvent] = []
        #expect {
            while true {
                try connection.receive(into: &events)
                try connection.wait(orUntil: wakeUp.descriptor, timeout: .milliseconds(250))
            }
        } throws: {
            ($0 as? RabbitMQError)?.code == .heartbeatTimeout
        }
        #expect(try RabbitMQConnection.open(both).peer == "127.0.0.1:\(other.port)")
    }

    @Test("A signal wakes a waiting connection") func wakesUp() async throws {
        try await LiveConnection.use { live in
            let wakeUp = try WakeUp()
            var events: [RabbitMQEvent] = []
            try live.connection.receive(into: &events)
            let thread = try SystemThread.start(name: "waker") { wakeUp.signal() }
            try live.connection.wait(orUntil: wakeUp.descriptor, timeout: .seconds(50))
            thread.join()
        }
    }
}
