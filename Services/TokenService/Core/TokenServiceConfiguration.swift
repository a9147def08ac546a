package import Broker
package import Configuration
import HTTPTypes
package import Logging
package import Observability
package import Postgres
import PushModel
package import RabbitMQ
package import TokenServiceApps
package import TokenServiceEvents
import TokenServiceKit
package import TokenServiceSending
package import TokenServiceUpkeep

/// Every setting of the token service, read and checked once, before anything is opened.
///
/// Each key is an environment variable: `http.port` is `HTTP_PORT`. Every room of the service declares its own settings.
package struct TokenServiceConfiguration: Sendable {
    package var host: String
    package var port: Int
    package var limits: RequestLimits
    /// Where `/healthz`, `/readyz` and `/metrics` are served; nil: on ``port``.
    package var operations: (host: String, port: Int)?
    /// The connections for requests.
    package var database: PostgresConfiguration
    package var backgroundPoolSize: Int
    package var broker: RabbitMQConfiguration
    package var brokerPrefix: String
    package var topologyOwnership: Topology.Ownership
    package var keys: KeySettings
    package var publishing: PublishingSettings
    package var shutdownDeadline: Duration
    package var housekeeping: Housekeeper.Settings
    package var channels: ChannelSettings
    package var webhooks: WebhookSettings
    package var traces: TraceSettings

    /// - Parameter logger: Warns of secret files that others can read.
    /// - Throws: `ConfigurationError`, which names the environment variable and what it should be.
    package init(_ config: ConfigReader, logger: Logger) throws {
        host = try config.read(Self.host)
        port = try config.read(Self.port)
        limits = try RequestLimits(config)
        let operationsHost = try config.read(Self.operationsHost)
        operations = try config.read(Self.operationsPort).map { (host: operationsHost, port: $0) }
        database = try Self.database(config, logger: logger)
        backgroundPoolSize = try config.read(Self.backgroundPoolSize)
        broker = try Self.broker(config, logger: logger)
        brokerPrefix = try config.read(Self.brokerPrefix)
        topologyOwnership = try config.read(Self.topologyOwnership)
        keys = try KeySettings(config, logger: logger)
        publishing = try PublishingSettings(config)
        shutdownDeadline = try config.read(Self.shutdownDeadline)
        channels = try ChannelSettings(config)
        webhooks = try WebhookSettings(config, logger: logger)
        traces = try TraceSettings(config, logger: logger)
        housekeeping = try Housekeeper.Settings(config, webhookDays: webhooks.retentionDays)
    }

    package static let all =
        ([
            [host, port, operationsPort, operationsHost], RequestLimits.all, ofDatabase,
            [backgroundPoolSize, brokerURI, brokerPasswordFile, brokerAuthorityFile, brokerPrefix, topologyOwnership], KeySettings.all,
            PublishingSettings.all, [shutdownDeadline], Housekeeper.Settings.all, ChannelSettings.all, WebhookSettings.all, [level],
            TraceSettings.all,
        ] as [[any DocumentedSetting]]).flatMap(\.self)

    static let host = Setting("http.host", "127.0.0.1", "where to listen")
    static let port = Setting("http.port", 8080, in: 0...65_535, "the port of the API; 0 lets the system choose")
    private static let operationsPort = Setting(
        optional: "operations.port", in: 0...65_535,
        "serves `/healthz`, `/readyz` and `/metrics` on a port of their own; without it they are on `HTTP_PORT`")
    private static let operationsHost = Setting("operations.host", "127.0.0.1", "where to listen on `OPERATIONS_PORT`")
    private static let databaseURI = Setting(
        required: "postgres.url", "a libpq connection URI, postgresql://user@host:5432/database",
        "several hosts and TLS options included; only a server that takes writes is used")
    private static let databasePasswordFile = FileSetting(
        "postgres.password.file", isSecret: true, "file with the password, read anew for every connection")
    private static let poolSize = Setting(
        "postgres.pool.size", 8, in: 1...100, "connections for requests; apps take turns at them")
    private static let backgroundPoolSize = Setting(
        "postgres.background.pool.size", 4, in: 1...100,
        "connections beside those: for the relay, the outcomes, the other services of the process, and the look-up of keys and apps")
    private static let brokerURI = Setting(
        required: "rabbitmq.url", "an AMQP URI, amqp[s]://user@host:5672,host:5672/vhost",
        "one host or several, each a name or an address; see the guide Three nodes")
    private static let brokerPasswordFile = FileSetting(
        "rabbitmq.password.file", isSecret: true, "file with the password, read anew at every connect")
    private static let brokerAuthorityFile = FileSetting(
        "rabbitmq.ca.file", "the broker's certificate authority, PEM; required with `amqps`")
    private static let brokerPrefix = Setting("broker.prefix", "push", "what every exchange and queue name begins with")
    private static let topologyOwnership = Setting(
        "broker.topology", Topology.Ownership.services,
        "`services`: the services declare exchanges and queues; `operators`: they only check that `dispatcher topology` was imported")
    private static let shutdownDeadline = Setting.seconds(
        "shutdown.deadline.seconds", 20, in: 1...600, "how long a graceful stop may take")
    private static let level = Setting("log.level", Logger.Level.info, "lines below it are not logged")

    /// The log level; read before the logger exists.
    package static func logLevel(_ config: ConfigReader) throws -> Logger.Level { try config.read(level) }

    /// The settings that `migrate` needs, and no more.
    package static let ofDatabase: [any DocumentedSetting] = [databaseURI, databasePasswordFile, poolSize]

    package static func database(_ config: ConfigReader, logger: Logger) throws -> PostgresConfiguration {
        let uri = try config.read(databaseURI)
        let passwordFile = try config.read(databasePasswordFile, logger: logger)
        let poolSize = try config.read(Self.poolSize)
        do {
            var database = try PostgresConfiguration(uri: uri, passwordFile: passwordFile)
            database.poolSize = poolSize
            database.applicationName = "token-service"
            // Longer than PostgreSQL takes to find a deadlock (deadlock_timeout, 1 s): a transaction that PostgreSQL ends for a deadlock
            // runs again, one that waits too long for a lock does not.
            database.lockTimeout = .milliseconds(1500)
            database.sessionSettings = planning
            database.planLifetime = .seconds(32)
            return database
        } catch {
            throw databaseURI.error(expected: "a libpq connection URI (\(error.message))")
        }
    }

    /// Every statement finds its rows by an index, one key after another, for every size of a table: a kept plan that reads a table as a
    /// whole gets slower with every row. `planLifetime` notices that a table has grown. If the order of joins matters, a statement has a
    /// subquery with ORDER BY or LIMIT, which PostgreSQL does not merge into the rest. StatementPlanTests checks the plans.
    package static let planning = [
        // To plan an acceptance takes 0.51 ms, to run it 0.24 ms.
        "plan_cache_mode": "force_generic_plan",
        // Without it, 174 plans of 281 statements on an empty, a small, a large and a grown database read a table as a whole.
        "enable_seqscan": "off",
        // Without one of these, 38 to 66 plans read an index as a whole, or all of an app's rows, and compare them with the keys.
        "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_material": "off",
        // To compile the status of a notification takes 36 ms, and 540 ms without statistics of the tables; to run it takes 0.2 ms.
        "jit": "off",
    ]

    private static func broker(_ config: ConfigReader, logger: Logger) throws -> RabbitMQConfiguration {
        let uri = try config.read(brokerURI)
        let passwordFile = try config.read(brokerPasswordFile, logger: logger)
        let authorityFile = try config.read(brokerAuthorityFile, logger: logger)
        do {
            return try RabbitMQConfiguration(
                uri: uri, passwordFile: passwordFile, authorityFile: authorityFile, connectionName: "token-service")
        } catch {
            throw brokerURI.error(expected: "an AMQP URI (\(error.message))")
        }
    }
}

/// The settings, metrics and log keys of the token service, as `--help`, `/metrics` and the handbook show them.
package enum TokenServiceReference {
    package static let settings = TokenServiceConfiguration.all
    package static let metrics = PrometheusMetrics.documented { _ = TokenServiceMetrics(registry: $0) } + TraceExporter.documented
    package static let logKeys = LogKey.documented

    /// Every word that the `code` of a problem document can be.
    package static var errors: String {
        MarkdownTable(
            "status", "code", "when", "the same request may succeed later",
            rows: ProblemCode.allCases.map { ($0, $0.kind, $0.kind.status.code) }.sorted { ($0.2, $0.0.rawValue) < ($1.2, $1.0.rawValue) }
                .map {
                    code, kind, status in
                    [
                        "\(status)", "`\(code.rawValue)`", kind.when,
                        kind.isRetryable ? (kind.retryAfterSeconds != nil ? "yes: `Retry-After`" : "yes") : "no",
                    ]
                }
        ).text
    }

    /// Every event: its topic, by which webhooks filter, and its CloudEvents type.
    package static var events: String {
        MarkdownTable(
            "topic", "CloudEvents `type`", "routing key",
            rows: (EventTopic.notifications + EventTopic.installations + EventTopic.deviceReceipts).map {
                ["`\($0)`", "`push.\($0).v1`", "`<app>.\($0)`"]
            }
                + OutcomeClass.allCases.map {
                    ["`\(EventTopic.delivery($0))`", "`\(OutcomeEvent.type)`", "`<app>.\($0.rawValue)`"]
                }
        ).text
    }
}
