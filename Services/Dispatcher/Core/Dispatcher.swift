package import APNs
import Broker
package import Logging
package import Observability
import PushModel
import RabbitMQ
package import ServiceLifecycle
import SystemIO
package import UnixSignals

/// The dispatcher: everything is constructed here, in the order in which one needs the other.
///
/// The path of a job: `DispatcherCore.take` → `sift` → `send` → `APNsPool.submit` → `finish` → `settle` → `flush` → `Publisher.publish` →
/// `confirm` → `Consumer.acknowledge`. All of it in the core's files, in that order (DESIGN.md section 5).
package struct Dispatcher: Sendable {
    /// In the order in which they start; they stop in the opposite one, so that publisher and broker outlive the work.
    package let services: [any Service]
    private let settings: DispatcherSettings
    private let logger: Logger

    /// Reads the credentials; opens nothing yet.
    /// - Parameters:
    ///   - pools: What every pool can be told; `connections` comes from the settings.
    ///   - onListening: Told the operations port once requests are taken.
    /// - Throws: one sentence for a person: ``CredentialsError``, `RabbitMQError`, `TLSError` or `SystemError`.
    package init(
        _ settings: DispatcherSettings, metrics registry: PrometheusMetrics, logger: Logger,
        pools poolConfiguration: APNsPoolConfiguration = APNsPoolConfiguration(), onListening: @escaping @Sendable (Int) -> Void = { _ in }
    ) throws {
        self.settings = settings
        self.logger = logger
        let directory = CredentialDirectory(try CredentialsFile(path: settings.credentialsFile))
        let topology = Topology(prefix: settings.brokerPrefix, ownership: settings.topologyOwnership)
        let broker = try settings.broker()
        let gate = ControlGate()
        let metrics = DispatcherMetrics(registry: registry)
        let notes = NoteLog(logger: logger)
        let wakeUp = try WakeUp()
        let inbox = Mailbox<CoreEvent>(wakeUp: wakeUp)
        let (mayStart, start) = AsyncStream.makeStream(of: Void.self)

        let pools = try Self.pools(settings, poolConfiguration, directory, gate: gate, inbox: inbox, notes: notes, logger: logger)
        let publisher = try Publisher(
            name: "publisher", configuration: broker, topology: topology, drainTimeout: settings.shutdownDeadline * 0.1, logger: logger)
        let jobs = try Consumer(
            name: "jobs", configuration: broker, topology: topology,
            subscriptions: Lane.allCases.map { lane in
                Subscription(queue: topology.jobQueue(lane), prefetch: UInt16(clamping: settings.prefetch[lane] ?? 1))
            },
            drainTimeout: settings.shutdownDeadline * 0.1, logger: logger, onMessages: { inbox.post(.jobsReceived($0)) },
            onConnectionChange: { inbox.post(.jobsConnection(isUp: $0)) })
        let control = try Consumer(
            name: "control", configuration: broker, topology: topology,
            subscriptions: [.stream(topology.controlStream, prefetch: 1000)], drainTimeout: .zero, logger: logger,
            onMessages: { inbox.post(.controlReceived($0)) }, onConnectionChange: { inbox.post(.controlConnection(isUp: $0)) })

        var rules = CoreRules(topology: topology, source: "/push/dispatcher/\(settings.instance)")
        rules.retries.maximumAttempts = settings.maximumAttempts
        let loop = CoreLoop(
            inbox: inbox, wakeUp: wakeUp,
            peers: CoreLoop.Peers(
                pools: pools, publisher: publisher, jobs: jobs, control: control,
                startTaking: {
                    start.yield()
                    start.finish()
                }),
            deadlines: CoreLoop.Deadlines(pools: settings.shutdownDeadline * 0.6, all: settings.shutdownDeadline * 0.75),
            metrics: metrics, notes: notes
        ) { [rules] in DispatcherCore(rules: rules, directory: directory, gate: gate, seed: .random(in: .min ... .max)) }

        metrics.observe({ loop.status }, gate: gate)
        for pool in pools { metrics.observe(pool) }
        let readiness = DispatcherReadiness(loop: loop, publisher: publisher, jobs: jobs, pools: pools)
        services = [
            OperationsServer(
                host: settings.operationsHost, port: settings.operationsPort, metrics: registry, logger: logger,
                readiness: { readiness.check() },
                onListening: { port in
                    logger.info(
                        "Serving operations",
                        metadata: [
                            LogKey.port: "\(port)", LogKey.instance: "\(settings.instance)", LogKey.version: "\(BuildVersion.current)",
                        ])
                    onListening(port)
                }),
            publisher, control, JobsConsumerService(consumer: jobs, mayStart: mayStart),
            DispatchService(loop: loop, inbox: inbox, pools: pools, logger: logger),
        ]
    }

    /// Works until a signal or a graceful shutdown, then finishes what was begun, within the deadline.
    package func run(gracefulShutdownSignals: [UnixSignal] = []) async throws {
        try await serviceGroup(gracefulShutdownSignals: gracefulShutdownSignals).run()
    }

    package func serviceGroup(gracefulShutdownSignals: [UnixSignal] = []) -> ServiceGroup {
        var group = ServiceGroupConfiguration(services: services, gracefulShutdownSignals: gracefulShutdownSignals, logger: logger)
        group.maximumGracefulShutdownDuration = settings.shutdownDeadline
        return ServiceGroup(configuration: group)
    }

    /// What `BROKER_TOPOLOGY=operators` expects to find, as a RabbitMQ definitions file.
    package static func definitions(prefix: String, virtualHost: String) -> String {
        String(decoding: Topology(prefix: prefix).definitions(virtualHost: virtualHost), as: UTF8.self)
    }

    /// Reads everything that ``init(_:metrics:logger:pools:onListening:)`` would, and connects to nothing.
    /// - Returns: what there is, for a person.
    package static func check(_ settings: DispatcherSettings) throws -> String {
        let directory = CredentialDirectory(try CredentialsFile(path: settings.credentialsFile))
        let broker = try settings.broker()
        let pools = directory.pools.map { pool in
            let endpoint = settings.endpoint(pool.environment)
            return "  \(pool.credential.name) (\(pool.environment.rawValue)) at \(endpoint.host):\(endpoint.port)"
        }
        return "The configuration is good. Broker: \(broker). Pools:\n" + pools.joined(separator: "\n")
    }

    private static func pools(
        _ settings: DispatcherSettings, _ configuration: APNsPoolConfiguration, _ directory: CredentialDirectory, gate: ControlGate,
        inbox: Mailbox<CoreEvent>, notes: NoteLog, logger: Logger
    ) throws -> [APNsPool] {
        var configuration = configuration
        configuration.connections = settings.connections
        return try directory.pools.map { pool in
            try APNsPool(
                configuration: configuration, credential: pool.credential, endpoint: settings.endpoint(pool.environment),
                environment: pool.environment, gate: { batch, request in gate.stopReason(for: request, of: batch) },
                onFinished: { inbox.post(contentsOf: $0.map(CoreEvent.batchFinished)) },
                onEvent: { notes.write($0, credential: pool.credential.name, environment: pool.environment.rawValue) }, logger: logger)
        }
    }
}
