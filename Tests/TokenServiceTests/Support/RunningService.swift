import AsyncHTTPClient
import Broker
import Configuration
import FoundationEssentials
import Logging
import Observability
import Postgres
import PushModel
import RabbitMQ
import ServiceLifecycle
import StrictJSON
import TestBroker
import TestDatabase
import TestSupport
import TokenService
import TokenServiceUpkeep

/// A token service that runs in this process, with a database and a broker topology of its own, spoken to over HTTP.
struct RunningService {
    static let admin = APIKeyText.generate()

    let service: TokenService
    let metrics: PrometheusMetrics
    let pool: PostgresPool
    let broker: RabbitMQConfiguration
    let topology: Topology
    let client: APITestClient
    /// As SIGTERM does it: returns at once.
    let stop: @Sendable () async -> Void

    /// How a test wants it; everything else is as in production.
    struct Options: Sendable {
        var settings: [String: String] = [:]
        /// Which of the services run: a process that died before it published is one without a publisher.
        var without: @Sendable (any Service) -> Bool = { _ in false }
        /// Speak to the servers through these ports instead.
        var postgresPort: Int?
        var brokerPort: Int?
        /// Another account at the database than the one that owns everything.
        var postgresUser: String?
        /// Makes the service's own connections less patient than a test's.
        var database: @Sendable (inout PostgresConfiguration) -> Void = { _ in }
        /// What no setting changes.
        var housekeeping: @Sendable (inout Housekeeper.Settings) -> Void = { _ in }
        /// How long a shutdown may take before everything is cancelled; nil: as long as a busy machine needs.
        var shutdownDeadline: Duration?
        var logger = Logger(label: "test")

        /// Housekeeping begins half a minute after the start. On a busy machine it would remove the old rows of a test that has not ended
        /// by then, so it runs where the test sets its interval.
        fileprivate func includes(_ service: any Service) -> Bool {
            if service is Housekeeper, settings["HOUSEKEEPING_INTERVAL_SECONDS"] == nil { return false }
            return !without(service)
        }
    }

    /// Migrated database, declared topology, service; all gone afterwards.
    static func run(_ options: Options = Options(), _ body: @Sendable (RunningService) async throws -> Void) async throws {
        let migrations = try migrationsDirectory()
        try await withTestDatabase(migrations: migrations) { pool, uri in
            try await withTestBroker(hasRetries: false) { broker, topology in
                try await start(options, pool: pool, uri: uri, broker: broker, topology: topology, body)
            }
        }
    }

    /// In a database that exists already, with the schema that it has.
    static func run(
        on pool: PostgresPool, uri: String, _ options: Options, _ body: @Sendable (RunningService) async throws -> Void
    ) async throws {
        try await withTestBroker(hasRetries: false) { broker, topology in
            try await start(options, pool: pool, uri: uri, broker: broker, topology: topology, body)
        }
    }

    /// One more process beside another: same database, same topology.
    func another(_ options: Options = Options(), _ body: @Sendable (RunningService) async throws -> Void) async throws {
        try await Self.start(options, pool: pool, uri: client.databaseURI, broker: broker, topology: topology, body)
    }

    /// Returns when the metric has the value: counters move after the commit that they count.
    func counted(_ series: String, _ value: Int) async throws {
        _ = try await eventually { metrics.render().contains("push_token_service_\(series) \(value)\n") ? true : nil }
    }

    /// A counter's value now; 0 where it has none.
    func counter(_ series: String) -> Int {
        let start = "push_token_service_\(series) "
        let line = metrics.render().split(separator: "\n").first { $0.hasPrefix(start) }
        return line.flatMap { Int($0.dropFirst(start.count)) } ?? 0
    }

    static func migrationsDirectory() throws -> String {
        URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Services/TokenService/Core/Migrations").path
    }

    private static func start(
        _ options: Options, pool: PostgresPool, uri: String, broker: RabbitMQConfiguration, topology: Topology,
        _ body: @Sendable (RunningService) async throws -> Void
    ) async throws {
        let keyFile = try TemporaryFile(admin.text)
        defer { keyFile.remove() }
        let amqp = try TestBroker.uri()
        var variables = [
            "HTTP_PORT": "0", "BROKER_PREFIX": topology.prefix, "BOOTSTRAP_KEY_FILE": keyFile.path,
            "POSTGRES_URL": options.postgresPort.map { replacePort(of: uri, with: $0) } ?? uri,
            "RABBITMQ_URL": options.brokerPort.map { replacePort(of: amqp, with: $0) } ?? amqp,
            "RELAY_INTERVAL_MS": "50", "POSTGRES_POOL_SIZE": "4",
            // Where the broker is there, its word comes, however busy the machine is.
            "FENCE_TIMEOUT_MS": "10000",
        ]
        if let user = options.postgresUser { variables["POSTGRES_URL"] = replaceUser(of: uri, with: user) }
        variables.merge(options.settings) { $1 }
        let metrics = PrometheusMetrics()
        var logger = options.logger
        logger.logLevel = .error
        let config = ConfigReader(provider: EnvironmentVariablesProvider(environmentVariables: variables))
        let listening = Signal<Int>()
        var configuration = try TokenServiceConfiguration(config, logger: logger)
        if options.postgresPort == nil { configuration.database.bePatient() }
        options.database(&configuration.database)
        options.housekeeping(&configuration.housekeeping)
        let service = try TokenService(
            configuration, metrics: metrics, logger: logger, onListening: { listening.send($0) })
        let running = service.services.filter { options.includes(($0 as? AfterStartup)?.service ?? $0) }
        var group = ServiceGroupConfiguration(services: running, logger: logger)
        group.maximumGracefulShutdownDuration = options.shutdownDeadline ?? .seconds(240)
        let services = ServiceGroup(configuration: group)
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                do {
                    try await services.run()
                } catch is CancellationError where options.shutdownDeadline != nil {
                    // The test leaves the shutdown too little time, and some services say so.
                }
            }
            let client = APITestClient(port: try await listening.next(), key: admin.text, databaseURI: uri)
            do {
                if options.postgresPort == nil, running.contains(where: { $0 is Startup }) {
                    _ = try await eventually { service.hasStarted ? true : nil }
                }
                // What is accepted before that is the relay's from the beginning. A test that speaks through a port of its own says itself
                // when.
                if options.brokerPort == nil, running.contains(where: { $0 is Publisher }) {
                    _ = try await eventually { service.publisher.state == .ready ? true : nil }
                }
                try await body(
                    RunningService(
                        service: service, metrics: metrics, pool: pool, broker: broker, topology: topology, client: client,
                        stop: { await services.triggerGracefulShutdown() }))
            } catch {
                await services.triggerGracefulShutdown()
                throw error
            }
            await services.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
        await service.close()
    }

    struct Missing: Error, CustomStringConvertible { let description: String }

    /// Where a URI's server listens.
    static func port(of uri: String) throws -> Int {
        guard let port = URLComponents(string: uri)?.port else { throw Missing(description: "the URI names no port") }
        return port
    }

    static func replaceUser(of uri: String, with user: String) -> String {
        guard var parts = URLComponents(string: uri) else { return uri }
        parts.user = user
        return parts.string ?? uri
    }

    private static func replacePort(of uri: String, with port: Int) -> String {
        guard var parts = URLComponents(string: uri) else { return uri }
        parts.host = "127.0.0.1"
        parts.port = port
        return parts.string ?? uri
    }
}

struct TemporaryFile {
    let path: String

    init(_ content: String) throws {
        let url = FileManager.default.temporaryDirectory.appending(path: "push-test-\(PushID.random())")
        try Data(content.utf8).write(to: url)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: url.path)
        path = url.path
    }

    func remove() {
        do { try FileManager.default.removeItem(atPath: path) } catch { print("a temporary file stays behind: \(path)") }
    }
}
