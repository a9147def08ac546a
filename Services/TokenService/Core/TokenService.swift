package import Broker
import Foundation
import Hummingbird
import HummingbirdCore
package import Logging
package import Observability
package import Postgres
import PushModel
package import ServiceLifecycle
import TokenServiceAPI
import TokenServiceApps
import TokenServiceEvents
import TokenServiceKit
import TokenServiceOutcomes
import TokenServiceRegistry
import TokenServiceSending
import TokenServiceUpkeep
package import UnixSignals

/// The token service: makes every part, in the order in which they need each other.
///
/// The path of a notification: `NotificationsController.send` → `NotificationIntake.accept` → `JobPublisher.publish` → broker →
/// dispatcher → broker → `OutcomeConsumer.run` → `OutcomeApplication.apply`. The path of a registration:
/// `RegistrationController.register` → `InstallationRegistration.register` → `RegistryBatch.apply` → `FencePublisher.publish`.
package struct TokenService: Sendable {
    /// The pool for requests.
    package let pool: PostgresPool
    /// The pool for the services of this process, and for the look-up of keys and apps: however many requests wait for ``pool``, these go
    /// on.
    package let background: PostgresPool
    package let publisher: Publisher
    /// The services, in the order of their start. They stop in the opposite order: the server first, the record of the last publications
    /// last.
    package let services: [any Service]
    /// Every route that is served, `METHOD /path`.
    package let routes: [String]
    private let startup: Startup
    private let configuration: TokenServiceConfiguration
    private let logger: Logger

    /// Opens nothing yet.
    /// - Parameter onListening: Called with the port when the server accepts requests.
    package init(
        _ configuration: TokenServiceConfiguration, metrics registry: PrometheusMetrics, logger: Logger,
        onListening: @escaping @Sendable (Int) -> Void = { _ in }
    ) throws {
        self.configuration = configuration
        self.logger = logger
        let metrics = TokenServiceMetrics(registry: registry)
        registry.describe(TraceExporter.documented + [DocumentedMetric](BrokerMetrics.all))
        let topology = Topology(prefix: configuration.brokerPrefix, ownership: configuration.topologyOwnership, hasRetries: false)

        let exporter = TraceExporter(configuration.traces, service: "token-service", metrics: registry, logger: logger)
        let traces = Traces(exporter: exporter, ratio: configuration.traces.ratio)

        pool = PostgresPool(configuration.database)
        var ofServices = configuration.database
        ofServices.poolSize = configuration.backgroundPoolSize
        background = PostgresPool(ofServices)
        // A process renews the leases of its jobs while it tries to connect: for twice a lease, then the jobs are any process's.
        publisher = try Publisher(
            configuration: configuration.broker, topology: topology, outageLimit: configuration.publishing.relayLease * 2, logger: logger)
        let control = try Publisher(
            name: "control", configuration: configuration.broker, topology: topology, confirmLimit: .seconds(1), isOrdered: true,
            logger: logger)
        let publishing = PublishingParts(
            configuration.publishing, pool: pool, background: background, publisher: publisher, control: control, topology: topology,
            metrics: metrics.publishing, holdMetrics: metrics.holds, fanOutMetrics: metrics.fanOuts, traces: traces, logger: logger)
        metrics.observe(pool, named: "requests")
        metrics.observe(background, named: "background")
        let brakes = BrakeWatch()
        metrics.outcomes.observe(brakes)

        let events = EventStream(
            configuration.webhooks, pool: background, publisher: publisher, topology: topology, marks: publishing.marks,
            metrics: metrics.events,
            webhookMetrics: metrics.webhooks, logger: logger)
        let channels = ChannelService(pool: pool, settings: configuration.channels, wakeUp: WorkSignal())
        let channelsOfServices = ChannelService(pool: background, settings: channels.settings, wakeUp: channels.wakeUp)
        let received = BatchQueue<ReceivedMessage>()
        let consumer = try Consumer(
            configuration: configuration.broker, topology: topology,
            subscriptions: [Subscription(queue: topology.tokenServiceOutcomesQueue, prefetch: OutcomeConsumer.prefetch)],
            logger: logger, onMessages: { received.put(contentsOf: $0) })
        let outcomes = OutcomeConsumer(
            received: received, consumer: consumer, application: OutcomeApplication(pool: background),
            deadLetters: DeadLetterPublisher(publisher: publisher, topology: topology), brakes: brakes, webhooks: events.subscriptions,
            channels: channelsOfServices, metrics: metrics.outcomes, traces: traces, relay: publishing.wakeUp, logger: logger)

        let apps = AppStore(pool: pool, lookUps: background)
        let keys = KeyStore(pool: pool)
        let knownKeys = KeyStore(pool: background)
        let startup = Startup(
            pool: pool, keys: keys, bootstrapKey: configuration.keys.bootstrapKey, marks: publishing.exchange,
            migrator: try Schema.migrator(),
            logger: logger)
        self.startup = startup
        let readiness = ServiceReadiness(pool: pool, publisher: publisher, control: control, startup: startup)
        let console = try ConsoleController()
        var routes: [String] = []
        let uses = KeyUses(store: knownKeys, logger: logger)
        let server = Self.server(
            configuration, apps: apps, keys: keys,
            authenticator: Authenticator(store: knownKeys, uses: uses, hasStarted: { startup.progress == .done }), pool: pool,
            publishing: publishing,
            events: events, channels: channels,
            deadLetters: DeadLetterService(
                pool: pool, broker: configuration.broker, topology: topology,
                replaying: DeadLetterReplay(pool: pool, jobs: publishing.jobs, logger: logger)),
            console: console, metrics: metrics, traces: traces,
            operations: OperationsRoutes(metrics: registry, readiness: { await readiness.check() }), logger: logger,
            onListening: onListening, routes: &routes)
        self.routes = routes
        let housekeeper = Housekeeper(
            pool: background, apps: AppStore(pool: background, lookUps: background), fences: publishing.fences,
            settings: configuration.housekeeping, metrics: metrics.housekeeping,
            logger: logger)
        let reading: [any Service] =
            [
                publishing.relay, publishing.waits, housekeeper,
                ChannelWorker(service: channelsOfServices, publisher: publisher, topology: topology, logger: logger),
                ChannelWatch(pool: background, metrics: metrics.channels, logger: logger),
            ] + events.services
        let exporting: [any Service] = exporter.map { [$0] } ?? []
        let operating: [any Service] =
            configuration.operations.map { place in
                [
                    OperationsServer(
                        host: place.host, port: place.port, metrics: registry, logger: logger, readiness: { await readiness.check() },
                        onListening: { port in logger.info("Serving operations", metadata: [LogKey.operationsPort: "\(port)"]) })
                ]
            } ?? []
        services =
            exporting + operating + [startup, uses, publishing.confirms, publisher, control, consumer, outcomes]
            + reading.map { AfterStartup($0, startup) } + [
                server
            ]
    }

    /// Whether the schema is this program's and the bootstrap key is known.
    package var hasStarted: Bool { startup.progress == .done }

    /// Serves until a signal or a graceful shutdown, then finishes its work, within the deadline.
    package func run(gracefulShutdownSignals: [UnixSignal] = []) async throws {
        try await run(services, gracefulShutdownSignals: gracefulShutdownSignals)
    }

    /// Runs some of ``services`` only, until a signal or a graceful shutdown.
    package func run(_ services: [any Service], gracefulShutdownSignals: [UnixSignal] = []) async throws {
        var group = ServiceGroupConfiguration(
            services: services, gracefulShutdownSignals: gracefulShutdownSignals, logger: logger)
        group.maximumGracefulShutdownDuration = configuration.shutdownDeadline
        let result: Result<Void, any Error>
        do {
            result = .success(try await ServiceGroup(configuration: group).run())
        } catch {
            result = .failure(error)
        }
        await close()
        try result.get()
    }

    /// Closes the connections to the database.
    package func close() async {
        await pool.close()
        await background.close()
    }

    private static func server(
        _ configuration: TokenServiceConfiguration, apps: AppStore, keys: KeyStore, authenticator: Authenticator, pool: PostgresPool,
        publishing: PublishingParts, events: EventStream, channels: ChannelService, deadLetters: DeadLetterService,
        console: ConsoleController,
        metrics: TokenServiceMetrics,
        traces: Traces, operations: OperationsRoutes,
        logger: Logger, onListening: @escaping @Sendable (Int) -> Void, routes: inout [String]
    ) -> some Service {
        let limits = configuration.limits
        func half(of maximum: Int, _ reason: LoadShedding.Reason) -> SharedLimit {
            let share = RequestLimits.share(of: maximum)
            return SharedLimit(maximum, share: share, shareOfApp: share, reason: reason, metrics: metrics.limits)
        }
        let shedding = LoadShedding(limits: limits, metrics: metrics.limits)
        metrics.requests.inProgress.observe { Double(shedding.requestsInProgress) }
        metrics.requests.reading.observe { Double(shedding.requestsReading) }
        let streams = half(of: limits.concurrentStreams, .streams)
        metrics.requests.streams.observe { Double(streams.used) }
        let errors = InternalErrors(count: { metrics.requests.internalError() }, logger: logger)
        let admission = AdmissionMiddleware(
            authenticator: authenticator, deviceKeys: configuration.keys.deviceCredentialKeys, apps: apps,
            limits: AdmissionLimits(
                rates: RequestRates(defaultRate: limits.requestsPerSecondPerKey),
                // All callers together have the connections.
                callers: SharedLimit(
                    .max, share: limits.concurrentRequestsPerKey, shareOfApp: limits.concurrentRequestsPerApp, reason: .requests,
                    metrics: metrics.limits),
                shedding: shedding, bodies: half(of: limits.bodyBytes, .bodies)),
            metrics: metrics.limits, observation: RequestObservation(metrics: metrics.requests, traces: traces, errors: errors))
        let router = APIRouter(admission: admission)
        if configuration.operations == nil { router.mount(operations) }
        let registration = InstallationRegistration(pool: pool, fences: publishing.fences, metrics: metrics.registrations)
        metrics.registrations.changesWaiting.observe { Double(registration.waitingCount) }
        TokenServiceAPI(
            apps: AppsController(apps: apps),
            keys: KeysController(keys: keys, apps: apps, authenticator: authenticator),
            registration: RegistrationController(registration: registration, metrics: metrics.registrations),
            reading: ReadingController(pool: pool),
            activities: ActivitiesController(registration: registration, pool: pool, relay: publishing.wakeUp),
            bulk: BulkController(pool: pool, registration: registration, streams: streams, metrics: metrics.registrations, errors: errors),
            signOut: SignOutController(signOut: SignOut(pool: pool, fences: publishing.fences), metrics: metrics.registrations),
            quietHours: QuietHoursController(pool: pool),
            channels: ChannelsController(channels: channels),
            notifications: NotificationsController(
                pool: pool,
                intake: NotificationIntake(
                    pool: pool, publisher: publishing.jobs, backlog: publishing.backlog, relay: publishing.wakeUp,
                    holds: publishing.holds.cache,
                    traces: traces, metrics: metrics.notifications),
                cancellation: publishing.cancellation, uploads: half(of: limits.concurrentUploads, .uploads),
                metrics: metrics.notifications, errors: errors),
            notificationReading: NotificationReadingController(pool: pool),
            quarantine: QuarantineController(pool: pool, restoring: QuarantineRestore(pool: pool), metrics: metrics.registrations),
            privacy: PrivacyController(
                pool: pool, erasure: Erasure(pool: pool, fences: publishing.fences), export: UserExport(pool: pool), streams: streams,
                metrics: metrics.privacy,
                logger: logger),
            deadLetters: DeadLettersController(letters: deadLetters, metrics: metrics.deadLetters, logger: logger),
            audit: AuditController(pool: pool),
            holds: HoldsController(pool: pool, holds: publishing.holds),
            webhooks: WebhooksController(pool: pool, events: events, settings: configuration.webhooks),
            traffic: TrafficController(pool: pool, waits: publishing.waits),
            deviceCredentials: DeviceCredentialsController(pool: pool, keys: configuration.keys.deviceCredentialKeys),
            deviceReceipts: DeviceReceiptsController(intake: DeviceReceiptIntake(pool: pool), metrics: metrics.deviceReceipts),
            console: console
        ).bind(to: router)
        routes = router.routes
        let application = Application(
            responder: router.responder(), server: LoopChannel.server(limits, decide: { admission.decision(on: $0) }),
            configuration: ApplicationConfiguration(
                address: .hostname(configuration.host, port: configuration.port),
                availableConnectionsDelegate: MaximumAvailableConnections(limits.connections)),
            onServerRunning: { channel in
                let port = channel.localAddress?.port ?? configuration.port
                logger.info("Serving", metadata: [LogKey.port: "\(port)", LogKey.version: "\(BuildVersion.current)"])
                onListening(port)
            }, logger: logger)
        return ListeningService(
            application,
            on: ListeningPort(
                host: configuration.host, port: configuration.port, hostKey: TokenServiceConfiguration.host.key,
                portKey: TokenServiceConfiguration.port.key))
    }
}

/// The database schema that this program needs: the files in `Migrations`, which travel with the program.
package enum Schema {
    package static func migrator() throws -> Migrator {
        guard let resources = Bundle.module.resourcePath else {
            throw MissingResources(bundle: "push_TokenService")
        }
        return try Migrator(directory: resources + "/Migrations")
    }
}

/// Whether this process should get requests: only what a restart or another process could help with. A broker that is away does not count,
/// and neither does a backlog: accepted notifications wait in the database, and each app and lane has its own limit.
struct ServiceReadiness: Sendable {
    let pool: PostgresPool
    let publisher: Publisher
    let control: Publisher
    let startup: Startup

    func check() async -> Readiness {
        let isHealthy = await pool.isHealthy()
        var started = Readiness.Check("startup", isOK: true, "done")
        if case .waiting(let reason) = startup.progress { started = .init("startup", isOK: false, reason) }
        return Readiness([
            .init("database", isOK: isHealthy, isHealthy ? "answers" : "does not answer"),
            started,
            .init("broker", isOK: true, "\(publisher.state)"),
            .init("broker.control", isOK: true, "\(control.state)"),
        ])
    }
}
