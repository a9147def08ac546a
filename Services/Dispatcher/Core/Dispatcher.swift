package import APNs
import Broker
package import Configuration
package import Logging
package import Observability
import OpenSSL
import PushModel
import RabbitMQ
package import ServiceLifecycle
import SystemIO
package import UnixSignals

/// The dispatcher: makes all parts, in the order in which they need each other.
///
/// docs/path.md has the path of a job, steps 4 to 9.
package struct Dispatcher: Sendable {
    /// The services in the order in which they start; they stop in the opposite one, so that publisher and broker outlive the work.
    package let services: [any Service]
    private let credentials: CredentialKeeper
    private let settings: DispatcherSettings
    private let logger: Logger

    /// Reads the credentials; opens nothing yet.
    /// - Parameters:
    ///   - pools: the configuration of every pool; `connections` comes from the settings.
    ///   - onListening: gets the operations port once the server accepts requests.
    /// - Throws: one sentence for a person: ``CredentialsError``, `RabbitMQError`, `TLSError` or `SystemError`.
    package init(
        _ settings: DispatcherSettings, metrics registry: PrometheusMetrics, logger: Logger,
        pools poolConfiguration: APNsPoolConfiguration = APNsPoolConfiguration(), onListening: @escaping @Sendable (Int) -> Void = { _ in }
    ) throws {
        self.settings = settings
        self.logger = logger
        let file = try CredentialsFile(path: settings.credentialsFile)
        // The publisher declares the retries, for all connections.
        let whole = Topology(prefix: settings.brokerPrefix, ownership: settings.topologyOwnership)
        let topology = Topology(prefix: settings.brokerPrefix, ownership: settings.topologyOwnership, hasRetries: false)
        let broker = settings.broker
        let gate = ControlGate()
        let metrics = DispatcherMetrics(registry: registry)
        registry.describe(TraceExporter.documented + [DocumentedMetric](BrokerMetrics.all))
        let notes = NoteLog(logger: logger)
        let wakeUp = try WakeUp()
        let inbox = Mailbox<CoreEvent>(wakeUp: wakeUp)
        let requests = ChannelRequests()

        let loops = try APNsEventLoops(threads: settings.apnsThreads)
        let maker = PoolMaker(
            settings: settings, configuration: poolConfiguration, loops: loops, gate: gate, inbox: inbox, requests: requests, notes: notes,
            logger: logger)
        let pools = PoolTable(onFinished: { maker.finish($0) }, make: { (plan, service) throws(TLSError) in try maker.make(plan, service) })
        let credentials = try CredentialKeeper(
            path: settings.credentialsFile, file: file, table: pools, logger: logger, counted: { metrics.countReload(isAdopted: $0) },
            adopt: { inbox.post(.credentialsChanged($0)) })
        self.credentials = credentials
        let directory = CredentialDirectory(credentials.plan)
        let publisher = try Publisher(
            name: "publisher", configuration: broker, topology: whole, drainTimeout: settings.shutdownDeadline * 0.05, logger: logger)
        let markers = try Publisher(
            name: "markers", configuration: broker, topology: topology, drainTimeout: .zero, confirmLimit: .seconds(1), isOrdered: true,
            logger: logger)
        // A queue that stands still keeps its own consumer from beginning, at every node.
        let ownNode = broker.withNodeOfItsOwn
        var consumers: [Lane: Consumer] = [:]
        for lane in settings.lanes {
            consumers[lane] = try Consumer(
                name: "jobs-\(lane.rawValue)", configuration: ownNode, topology: topology,
                subscriptions: [Subscription(queue: topology.jobQueue(lane), prefetch: UInt16(clamping: settings.prefetch[lane] ?? 1))],
                drainTimeout: settings.shutdownDeadline * 0.05, logger: logger, onMessages: { inbox.post(.jobsReceived($0)) },
                onConnectionChange: { inbox.post(.jobsConnection(lane, isUp: $0)) })
        }
        let jobs = consumers
        let (commandMessages, command) = AsyncStream.makeStream(of: ReceivedMessage.self)
        let commands = try Consumer(
            name: "commands", configuration: broker, topology: topology,
            subscriptions: [Subscription(queue: topology.commandsQueue, prefetch: ChannelCommandService.prefetch)],
            drainTimeout: settings.shutdownDeadline * 0.05, logger: logger, onMessages: { for message in $0 { command.yield(message) } })
        let control = try Consumer(
            name: "control", configuration: broker, topology: topology,
            subscriptions: [
                .stream(topology.controlStream, prefetch: 1000), .copies(of: topology.controlCopiesExchange, prefetch: 1000),
            ], drainTimeout: .zero, logger: logger,
            onMessages: { inbox.post(.controlReceived($0)) }, onConnectionChange: { inbox.post(.controlConnection(isUp: $0)) })

        let late = LateConsumers(settings.lanes.compactMap { jobs[$0] } + [commands])

        var rules = CoreRules(topology: topology, source: "/push/dispatcher/\(settings.instance)")
        rules.retries.maximumAttempts = settings.maximumAttempts
        rules.prefetch = settings.prefetch
        rules.deliveries[.bulk] = settings.bulkDeliveries
        rules.confirmPatience = Int64(settings.confirmPatience)
        rules.waitingPatience = settings.waitingPatience
        let exporter = TraceExporter(
            settings.traces, service: "dispatcher", instance: settings.instance, metrics: registry, logger: logger)
        rules.traces = Traces(exporter: exporter, ratio: settings.traces.ratio)
        let loop = CoreLoop(
            inbox: inbox, wakeUp: wakeUp,
            peers: CoreLoop.Peers(
                pools: pools, publisher: publisher, markers: markers, jobs: jobs, commands: commands, control: control,
                startTaking: { late.begin() }),
            deadlines: CoreLoop.Deadlines(
                pools: settings.shutdownDeadline * 0.6, retiring: poolConfiguration.requestTimeout * 2,
                all: settings.shutdownDeadline * 0.85),
            metrics: metrics, notes: notes
        ) { [rules] in DispatcherCore(rules: rules, directory: directory, gate: gate, seed: .random(in: .min ... .max)) }

        metrics.observe({ loop.status }, gate: gate)
        metrics.observe({ pools.views() }, { credentials.standing })
        let readiness = DispatcherReadiness(
            loop: loop, publisher: publisher, jobs: jobs, commands: commands, pools: pools, credentials: credentials)
        let exporting: [any Service] = exporter.map { [$0] } ?? []
        services =
            exporting + [
                OperationsServer(
                    host: settings.operationsHost, port: settings.operationsPort, metrics: registry, logger: logger,
                    readiness: { readiness.check() },
                    onListening: { port in
                        logger.info(
                            "Serving operations",
                            metadata: [
                                DispatcherLogKey.port: "\(port)", DispatcherLogKey.instance: "\(settings.instance)",
                                DispatcherLogKey.version: "\(BuildVersion.current)",
                            ])
                        onListening(port)
                    }),
                publisher, markers, control, late,
                ChannelCommandService(
                    messages: commandMessages, consumer: commands, requests: requests, pools: pools, credentials: credentials,
                    publisher: publisher, topology: topology, source: rules.source, isStopping: { loop.status.isStopping },
                    metrics: metrics, logger: logger),
                DispatchService(loop: loop, credentials: credentials, logger: logger),
                CredentialWatch(
                    keeper: credentials,
                    reporter: CredentialReporter(table: pools, publisher: publisher, topology: topology, source: rules.source),
                    interval: settings.credentialsCheck),
            ]
    }

    /// Works until a signal or a graceful shutdown, then finishes its work, within the deadline.
    /// - Parameter reloadSignals: the signals on which it reads the credentials at once.
    package func run(gracefulShutdownSignals: [UnixSignal] = [], reloadSignals: [UnixSignal] = []) async throws {
        // Before any service runs: once it is ready, such a signal reloads the credentials and does not end the process.
        let reloads = reloadSignals.isEmpty ? nil : await UnixSignalsSequence(trapping: reloadSignals)
        try await serviceGroup(gracefulShutdownSignals: gracefulShutdownSignals, reloads: reloads).run()
    }

    package func serviceGroup(gracefulShutdownSignals: [UnixSignal] = [], reloads: UnixSignalsSequence? = nil) -> ServiceGroup {
        var services = services
        if let reloads { services.append(CredentialReload(keeper: credentials, signals: reloads)) }
        var group = ServiceGroupConfiguration(services: services, gracefulShutdownSignals: gracefulShutdownSignals, logger: logger)
        group.maximumGracefulShutdownDuration = settings.shutdownDeadline
        return ServiceGroup(configuration: group)
    }

    /// The topology that `BROKER_TOPOLOGY=operators` expects, as a RabbitMQ definitions file.
    /// - Parameters:
    ///   - config: The settings of the services that will use it. No setting needs to be there.
    ///   - prefix: Instead of the settings' own.
    ///   - virtualHost: Instead of the settings' own.
    package static func definitions(
        _ config: ConfigReader, prefix: String?, virtualHost: String?, logger: Logger
    ) throws(ConfigurationError) -> String {
        var host = virtualHost
        if host == nil, config.isSet(DispatcherSettings.brokerURI) {
            host = try DispatcherSettings.broker(config, logger: logger).virtualHost
        }
        let ownPrefix = try config.read(DispatcherSettings.brokerPrefix)
        let topology = Topology(prefix: prefix ?? ownPrefix)
        return String(decoding: topology.definitions(virtualHost: host ?? "/"), as: UTF8.self)
    }

    /// Reads the same files as ``init(_:metrics:logger:pools:onListening:)``, and connects to nothing. A certificate outside its time is an
    /// error here; a dispatcher that runs warns of it, because its other credentials serve.
    /// - Parameter now: UNIX seconds; nil: by this machine's clock.
    /// - Returns: a summary for a person.
    package static func check(
        _ settings: DispatcherSettings, logger: Logger, now: Int64? = nil
    ) throws -> String {
        let now = now ?? WallClock.milliseconds() / 1000
        let file = try CredentialsFile(path: settings.credentialsFile)
        file.files.warn(logger)
        let faults = file.entries.compactMap { entry in entry.validity.fault(at: now).map { "\(entry.credential.name): \($0)" } }
        guard faults.isEmpty else { throw CredentialsError(settings.credentialsFile, faults, files: file.files) }
        let plan = CredentialPlan(file)
        let broker = settings.broker
        let pools = plan.pools.map { "  " + Self.line($0, at: settings.endpoint($0.environment), now: now) }
        let lanes = settings.lanes.map(\.rawValue).joined(separator: ", ")
        let proxy = settings.proxy.map { " APNs is reached through the proxy \($0.host):\($0.port)." } ?? ""
        return "The configuration is good. Broker: \(broker). Lanes: \(lanes).\(proxy) Pools:\n" + pools.joined(separator: "\n")
    }

    private static func line(_ pool: CredentialPlan.Pool, at endpoint: APNsEndpoint, now: Int64) -> String {
        var line = "\(pool.credential.name) (\(pool.environment.rawValue)) at \(endpoint.host):\(endpoint.port)"
        if !pool.entry.topics.isEmpty { line += ", for \(pool.entry.topics.joined(separator: " "))" }
        if case .certificate(_, let notAfter) = pool.entry.validity {
            line += ", certificate valid for \((notAfter - now) / 86_400) days"
        }
        return line + (pool.entry.probeTopic.map { ", proven at start with \($0)" } ?? ", proven by its first delivery (no probe_topic)")
    }
}

/// Declares every log metadata key of this service with its meaning. Units are in the name. `DispatcherLogKey.app` is the string `"app"`.
@dynamicMemberLookup
enum DispatcherLogKey {
    struct Keys: Sendable {
        let api = DocumentedLogKey("api", "what a pool sends: `device`, `broadcast` or `channels`")
        let app = DocumentedLogKey("app", "an app's slug")
        let command = DocumentedLogKey("command.id", "a command for a broadcast channel")
        let count = DocumentedLogKey("count", "how many")
        let address = DocumentedLogKey("server.address", "address and port of APNs")
        let credential = DocumentedLogKey("credential", "the name of a credential")
        let days = DocumentedLogKey("days", "days until a certificate ends")
        let deliveries = DocumentedLogKey("deliveries", "deliveries in the job or message")
        let detail = DocumentedLogKey("detail", "the other side's own words")
        let environment = DocumentedLogKey("environment", "`production` or `sandbox`")
        let hold = DocumentedLogKey("hold.id", "a hold")
        let holds = DocumentedLogKey("holds", "holds in force")
        let instance = DocumentedLogKey("instance", "the dispatcher's name: `INSTANCE`")
        let lane = DocumentedLogKey("lane", "`now`, `soon` or `bulk`")
        let messageID = DocumentedLogKey("message.id", "a message of RabbitMQ")
        let new = DocumentedLogKey("new", "credentials that are new")
        let notification = DocumentedLogKey("notification.id", "a notification")
        let operation = DocumentedLogKey("operation", "what a command asks of APNs: `create`, `read`, `delete` or `list`")
        let outage = DocumentedLogKey("outage_ms", "how long it lasted, in milliseconds")
        let port = DocumentedLogKey("http.port", "the port of `/healthz`, `/readyz` and `/metrics`")
        let reason = DocumentedLogKey("reason", "why, in one word or in the other side's words")
        let result = DocumentedLogKey("result", "what became of a command")
        let state = DocumentedLogKey("state", "the state of a pool")
        let version = DocumentedLogKey("version", "this program's version and commit")
    }

    static let documented = DocumentedLogKey.all(of: keys)
    private static let keys = Keys()

    static subscript(dynamicMember key: KeyPath<Keys, DocumentedLogKey>) -> String { keys[keyPath: key].name }
}
