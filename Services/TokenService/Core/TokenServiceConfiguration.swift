package import Broker
package import Configuration
package import Logging
package import Observability
package import Postgres
package import PushModel
package import RabbitMQ

/// Every setting of the token service, read and checked once, before anything is opened.
///
/// Each key is an environment variable: `http.port` is `HTTP_PORT`. ``TokenServiceReference/settings`` describes them, which a test compares with this code.
package struct TokenServiceConfiguration: Sendable {
    package var host: String
    /// 0 lets the system choose.
    package var port: Int
    package var limits: RequestLimits
    /// Where `/healthz`, `/readyz` and `/metrics` are served; nil: on ``port``.
    package var operations: (host: String, port: Int)?
    /// Of the connections for requests.
    package var database: PostgresConfiguration
    /// Connections beside those of the requests: for the relay, the outcomes, every other service of the process, and the look-up of keys
    /// and apps.
    package var backgroundPoolSize: Int
    package var broker: RabbitMQConfiguration
    package var brokerPrefix: String
    package var topologyOwnership: Topology.Ownership
    /// An administrator's key that exists from the start.
    package var bootstrapKey: APIKeyText?
    /// Nil: there are no device credentials.
    package var deviceCredentialKeys: DeviceCredentialKeys?
    /// Accepted notifications that may wait for the broker before more are refused.
    package var backlogLimit: Int
    package var fenceTimeout: Duration
    package var relayInterval: Duration
    package var relayLease: Duration
    /// Installations that a fan-out reads in one transaction.
    package var fanOutPage: Int
    package var shutdownDeadline: Duration
    package var housekeeping: Housekeeper.Settings
    package var channels: ChannelSettings
    package var webhooks: WebhookSettings
    package var traces: TraceSettings

    /// - Parameter logger: Warns of secret files that others can read.
    /// - Throws: `ConfigurationError`, which names the environment variable and what it should be.
    package init(_ config: ConfigReader, logger: Logger) throws {
        host = config.text("http.host", default: "127.0.0.1")
        port = try config.integer("http.port", default: 8080, in: 0...65_535)
        limits = try RequestLimits(config)
        let operationsHost = config.text("operations.host", default: "127.0.0.1")
        operations = try config.optionalInteger("operations.port", in: 0...65_535).map { (host: operationsHost, port: $0) }
        database = try Self.database(config, logger: logger)
        backgroundPoolSize = try config.integer("postgres.backgroundPoolSize", default: 4, in: 1...100)
        broker = try Self.broker(config, logger: logger)
        brokerPrefix = config.text("broker.prefix", default: "push")
        topologyOwnership = try config.choice("broker.topology", default: .services)
        bootstrapKey = try Self.bootstrapKey(config, logger: logger)
        deviceCredentialKeys = try Self.deviceCredentialKeys(config, logger: logger)
        backlogLimit = try config.integer("backlog.limit", default: 100_000, in: 1...10_000_000)
        fenceTimeout = .milliseconds(try config.integer("fence.timeoutMs", default: 1000, in: 1...10_000))
        relayInterval = .milliseconds(try config.integer("relay.intervalMs", default: 1000, in: 10...60_000))
        relayLease = try config.seconds("relay.leaseSeconds", default: 30, in: 1...3600)
        fanOutPage = try config.integer("fanOut.pageInstallations", default: AudienceStore.installationsOfPage, in: 100...100_000)
        shutdownDeadline = try config.seconds("shutdown.deadlineSeconds", default: 20, in: 1...600)
        channels = ChannelSettings(
            listInterval: try config.seconds("channels.list.intervalSeconds", default: 3600, in: 1...86_400),
            commandTimeout: .milliseconds(try config.integer("channels.command.timeoutMs", default: 15_000, in: 100...300_000)))
        webhooks = try WebhookSettings(config, logger: logger)
        traces = try TraceSettings(config, logger: logger)
        housekeeping = Housekeeper.Settings(
            interval: try config.seconds("housekeeping.intervalSeconds", default: 3600, in: 1...86_400),
            historyDays: try config.integer("history.retentionDays", default: 90, in: 1...3650),
            retiredTokenDays: try config.integer("retiredToken.retentionDays", default: 90, in: 1...3650),
            receiptDays: try config.integer("receipt.retentionDays", default: 30, in: 1...3650),
            webhookDays: webhooks.retentionDays)
    }

    /// The log level; read before the logger exists.
    package static func logLevel(_ config: ConfigReader) throws -> Logger.Level {
        try config.choice("log.level", default: Logger.Level.info)
    }

    /// The settings that `migrate` needs, and no more.
    package static func database(_ config: ConfigReader, logger: Logger) throws -> PostgresConfiguration {
        let uri = try config.text("postgres.url", "a libpq connection URI, postgresql://user@host:5432/database", isSecret: true)
        let passwordFile = try config.optionalFile("postgres.passwordFile", logger: logger, isSecret: true)
        let poolSize = try config.integer("postgres.poolSize", default: 8, in: 1...100)
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
            throw ConfigurationError("postgres.url", expected: "a libpq connection URI (\(error.message))")
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
        let uri = try config.text("rabbitmq.url", "an AMQP URI, amqp[s]://user@host:5672,host:5672/vhost", isSecret: true)
        let passwordFile = try config.optionalFile("rabbitmq.passwordFile", logger: logger, isSecret: true)
        let authorityFile = try config.optionalFile("rabbitmq.caFile", logger: logger)
        do {
            return try RabbitMQConfiguration(
                uri: uri, passwordFile: passwordFile, authorityFile: authorityFile, connectionName: "token-service")
        } catch {
            throw ConfigurationError("rabbitmq.url", expected: "an AMQP URI (\(error.message))")
        }
    }

    private static func deviceCredentialKeys(_ config: ConfigReader, logger: Logger) throws -> DeviceCredentialKeys? {
        guard let text = try config.optionalSecretFile("deviceCredential.keysFile", logger: logger) else { return nil }
        guard let keys = DeviceCredentialKeys(text) else {
            throw ConfigurationError(
                "deviceCredential.keysFile",
                expected:
                    "a file with one key in each line, \(2 * DeviceCredentialKeys.minimumBytes) or more hex digits (openssl rand -hex 32)")
        }
        return keys
    }

    private static func bootstrapKey(_ config: ConfigReader, logger: Logger) throws -> APIKeyText? {
        guard let text = try config.optionalSecretFile("bootstrap.keyFile", logger: logger) else { return nil }
        guard let key = APIKeyText(text) else {
            throw ConfigurationError("bootstrap.keyFile", expected: "a file that holds one API key: \(APIKeyText.rule)")
        }
        return key
    }
}
