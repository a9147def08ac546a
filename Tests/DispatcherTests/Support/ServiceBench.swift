import APNs
import APNsSimulator
import Broker
import Configuration
import Foundation
import Logging
import Observability
import OpenSSL
import PushModel
import RabbitMQ
import ServiceLifecycle
import Synchronization
import TestBroker
import TestIdentity
import TestSupport

@testable import Dispatcher

/// A real broker, a simulated APNs over real TLS, and a way to publish jobs and read outcomes.
struct ServiceBench: Sendable {
    let simulator: APNsSimulator
    let uri: String
    let topology: Topology
    let broker: RabbitMQConfiguration
    let publisher: Publisher
    /// Every outcome event, in the order of the outcomes' queue.
    let events = Signal<OutcomeEvent>()
    /// The same events as raw messages.
    let outcomes = Signal<ReceivedMessage>()
    let deadLetters = Signal<ReceivedMessage>()
    /// Answers to commands for channels.
    let channelAnswers = Signal<ChannelAnswer>()

    struct NotConfirmed: Error {}

    /// A dispatcher with its own settings that runs until it is stopped.
    struct Running: Sendable {
        let group: ServiceGroup
        let task: Task<Void, any Error>
        let registry: PrometheusMetrics
        /// Gets the operations port when it listens.
        let operationsPort: Signal<Int>

        /// Stops it like SIGTERM.
        func stop() async throws {
            await group.triggerGracefulShutdown()
            try await task.value
        }
    }

    func startDispatcher(
        logger: Logger = .silent, _ change: (inout DispatcherSettings) -> Void = { _ in },
        pools changePools: (inout APNsPoolConfiguration) -> Void = { _ in }
    ) throws -> Running {
        let identity = try TestIdentity.configured.get()
        let config = ConfigReader.environment([
            "OPERATIONS_PORT": "0", "RABBITMQ_URL": uri, "BROKER_PREFIX": topology.prefix,
            "APNS_CREDENTIALS_FILE": identity.credentialsFile, "APNS_CA_FILE": identity.certificateFile,
            "APNS_PRODUCTION_URL": "https://localhost:\(simulator.productionPort)",
            "APNS_SANDBOX_URL": "https://localhost:\(simulator.sandboxPort)",
            "APNS_PRODUCTION_CHANNELS_URL": "https://localhost:\(simulator.port(.production, isManagement: true))",
            "APNS_SANDBOX_CHANNELS_URL": "https://localhost:\(simulator.port(.sandbox, isManagement: true))", "APNS_CONNECTIONS": "1",
            "APNS_CONNECTIONS_MAXIMUM": "1",
        ])
        var settings = try DispatcherSettings(config, logger: .silent)
        change(&settings)
        var pools = APNsPoolConfiguration()
        pools.backoffBase = .milliseconds(20)
        changePools(&pools)
        let registry = PrometheusMetrics()
        let port = Signal<Int>()
        let dispatcher = try Dispatcher(settings, metrics: registry, logger: logger, pools: pools, onListening: { port.send($0) })
        let group = dispatcher.serviceGroup()
        return Running(group: group, task: Task { try await group.run() }, registry: registry, operationsPort: port)
    }

    func publish(_ job: PushJob) async throws { try await publish([job]) }

    func publish(_ jobs: [PushJob]) async throws {
        try await publish(
            jobs.map { job in
                OutgoingMessage(
                    exchange: topology.jobsExchange, routingKey: topology.jobRoutingKey(job.lane), messageID: .random(),
                    contentType: PushJob.contentType, headers: [PushJob.appHeader: job.app.text], body: job.encoded())
            })
    }

    func publish(_ control: ControlMessage) async throws {
        try await publish([
            OutgoingMessage(
                exchange: "", routingKey: topology.controlStream, messageID: .random(), contentType: ControlMessage.contentType,
                body: control.encoded())
        ])
    }

    func publish(_ command: ChannelCommand) async throws {
        try await publish([
            OutgoingMessage(
                exchange: "", routingKey: topology.commandsQueue, messageID: command.id, contentType: ChannelCommand.contentType,
                body: command.encoded())
        ])
    }

    func publish(_ messages: [OutgoingMessage]) async throws {
        guard await publisher.publish(messages, deadline: .seconds(30)).allSatisfy(\.isConfirmed) else { throw NotConfirmed() }
    }

    /// Final outcomes by delivery, until `count` deliveries have one. Counts how often each came.
    func finalOutcomes(_ count: Int) async throws -> [PushID: [OutcomeClass]] {
        var outcomes: [PushID: [OutcomeClass]] = [:]
        while outcomes.count < count {
            let event = try await events.next()
            guard event.isFinal else { continue }
            for delivery in event.deliveries { outcomes[delivery.id, default: []].append(event.outcome) }
        }
        return outcomes
    }

    func waitingJobs() async throws -> Int {
        var count = 0
        for lane in Lane.allCases { count += try await TestBroker.messageCount(topology.jobQueue(lane), broker) }
        return count
    }
}

extension ConfigReader {
    /// Reads these variables as a process would its environment.
    static func environment(_ variables: [String: String]) -> ConfigReader {
        ConfigReader(provider: EnvironmentVariablesProvider(environmentVariables: variables))
    }
}

extension Logger {
    static var silent: Logger { Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }) }
}

/// Starts everything but a dispatcher, and takes it down again however the body ends.
/// - Parameters:
///   - uri: Of another broker than the one that all tests share.
///   - listensAfter: Until it opens, outcomes and dead letters stay in their queues. Nil: they are taken from the beginning.
func withServiceBench(
    _ change: (inout APNsSimulatorConfiguration) -> Void = { _ in }, uri: String? = nil, listensAfter: Gate? = nil,
    _ body: @Sendable (ServiceBench) async throws -> Void
) async throws {
    let identity = try TestIdentity.configured.get()
    var configuration = APNsSimulatorConfiguration(
        certificateFile: identity.certificateFile, keyFile: identity.keyFile,
        keys: [ProviderKey(teamID: TestIdentity.teamID, keyID: TestIdentity.keyID, publicKey: identity.key.publicKey)])
    change(&configuration)
    let simulator = try APNsSimulator(configuration, logger: .silent)
    try simulator.start()
    defer { simulator.stop() }
    try await withTestBroker(uri: uri) { broker, topology in
        // Everything is declared. A connection of the bench's must not bring back at any later time what a test takes away.
        let others = Topology(prefix: topology.prefix, hasRetries: false)
        let bench = ServiceBench(
            simulator: simulator, uri: try uri ?? TestBroker.uri(), topology: topology, broker: broker,
            publisher: try Publisher(name: "test", configuration: broker, topology: others, logger: .silent))
        let listener = try Consumer(
            name: "listener", configuration: broker, topology: others,
            // Never acknowledged: the prefetch is more than any test makes.
            subscriptions: [
                Subscription(queue: topology.tokenServiceOutcomesQueue, prefetch: 2000),
                Subscription(queue: topology.deadQueue, prefetch: 2000),
            ],
            logger: .silent,
            onMessages: { messages in
                for message in messages {
                    if message.queue == topology.deadQueue {
                        bench.deadLetters.send(message)
                    } else if let answer = try? ChannelAnswer(decoding: message.body) {
                        bench.channelAnswers.send(answer)
                    } else if let event = try? OutcomeEvent(decoding: message.body) {
                        bench.outcomes.send(message)
                        bench.events.send(event)
                    }
                }
            })
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await bench.publisher.run() }
            group.addTask {
                try await listensAfter?.wait()
                try await listener.run()
            }
            let result: Result<Void, any Error>
            do { result = .success(try await body(bench)) } catch { result = .failure(error) }
            group.cancelAll()
            try result.get()
        }
    }
}
