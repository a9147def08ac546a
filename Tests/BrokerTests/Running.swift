import Broker
import CoreMetrics
import Logging
import PushModel
import RabbitMQ
import ServiceLifecycle
import ServiceLifecycleTestKit
import Synchronization
import TestBroker
import TestSupport

let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

/// Runs services while `body` runs, then cancels them and waits until they have ended.
func whileRunning<R: Sendable>(_ services: any Service..., body: () async throws -> R) async throws -> R {
    try await withThrowingTaskGroup(of: Void.self) { group in
        for service in services { group.addTask { try await service.run() } }
        let result: Result<R, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        group.cancelAll()
        try await group.waitForAll()
        return try result.get()
    }
}

extension Publisher {
    /// Calls `completion` when every message has its outcome.
    func publishAll(_ messages: [OutgoingMessage], _ completion: @escaping @Sendable ([PublishOutcome]) -> Void) {
        let known = Mutex<[Int: PublishOutcome]>([:])
        publish(messages) { answers in
            let all = known.withLock { known in
                for answer in answers { known[answer.index] = answer.outcome }
                return known.count == messages.count ? messages.indices.compactMap { known[$0] } : nil
            }
            if let all { completion(all) }
        }
    }
}

extension OutgoingMessage {
    /// A message to the queue of a lane.
    static func job(
        _ topology: Topology, _ lane: Lane = .now, id: PushID = .random(), headers: [String: String] = [:], body: [UInt8] = [1]
    ) -> Self {
        OutgoingMessage(
            exchange: topology.jobsExchange, routingKey: topology.jobRoutingKey(lane), messageID: id, contentType: "application/test",
            headers: headers, body: body)
    }

    static func control(_ topology: Topology, body: [UInt8], id: PushID = .random()) -> Self {
        OutgoingMessage(exchange: "", routingKey: topology.controlStream, messageID: id, contentType: "application/test", body: body)
    }
}

/// A consumer whose messages and connection changes are signals.
final class Watching: Sendable {
    let consumer: Consumer
    let messages: Signal<ReceivedMessage>
    let connections: Signal<Bool>

    init(
        _ configuration: RabbitMQConfiguration, _ topology: Topology, _ subscriptions: [Subscription],
        drainTimeout: Duration = .seconds(20),
        silenceLimit: Duration = .seconds(30),
        metrics: any MetricsFactory = NOOPMetricsHandler.instance
    ) throws {
        let messages = Signal<ReceivedMessage>()
        let connections = Signal<Bool>()
        consumer = try withMetricsFactory(metrics) {
            try Consumer(
                configuration: configuration, topology: topology, subscriptions: subscriptions, drainTimeout: drainTimeout,
                silenceLimit: silenceLimit, logger: quiet, onMessages: { messages.send(contentsOf: $0) },
                onConnectionChange: { connections.send($0) })
        }
        self.messages = messages
        self.connections = connections
    }

    /// The next message, acknowledged.
    func take() async throws -> ReceivedMessage {
        let message = try await messages.next()
        consumer.acknowledge([message.deliveryTag])
        return message
    }

    func take(_ count: Int) async throws -> [ReceivedMessage] {
        var taken: [ReceivedMessage] = []
        while taken.count < count { taken.append(try await take()) }
        return taken
    }
}

func makePublisher(
    _ configuration: RabbitMQConfiguration, _ topology: Topology, maximumPending: Int = 10_000, drainTimeout: Duration = .seconds(120),
    watchdogLimit: Duration = .seconds(20), confirmLimit: Duration = .seconds(120), outageLimit: Duration? = nil,
    isOrdered: Bool = false
) throws -> Publisher {
    try Publisher(
        configuration: configuration, topology: topology, maximumPending: maximumPending, drainTimeout: drainTimeout,
        watchdogLimit: watchdogLimit, confirmLimit: confirmLimit, outageLimit: outageLimit, isOrdered: isOrdered,
        logger: quiet)
}

/// Gives a test a topology on the real broker and a fault proxy on the way to it.
/// - Parameter heartbeat: Clients notice silence after two heartbeats, even the silence of a busy machine.
func withProxiedBroker(
    heartbeat: Duration = .seconds(10),
    _ body: (_ direct: RabbitMQConfiguration, _ proxied: RabbitMQConfiguration, Topology, FaultProxy) async throws -> Void
) async throws {
    try await withTestBroker { direct, topology in
        let proxy = try FaultProxy(toHost: direct.nodes[0].host, port: direct.nodes[0].port)
        defer { proxy.stop() }
        var proxied = direct
        proxied.nodes = [.init(host: "127.0.0.1", port: proxy.port)]
        proxied.heartbeat = heartbeat
        try await body(direct, proxied, topology, proxy)
    }
}

/// Requests the stop while the service waits for the broker's first bytes, and then lets them through.
func stopWhileConnecting(_ service: some Service, through proxy: FaultProxy) async throws {
    proxy.set(.paused)
    try await testGracefulShutdown { trigger in
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await service.run() }
            _ = try await proxy.accepted.next()
            trigger.triggerGracefulShutdown()
            proxy.set(.forwarding)
            try await group.waitForAll()
        }
    }
}
