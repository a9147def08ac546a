import ArgumentParser
import Broker
import Logging
import Observability
import Postgres
import SystemIO
import TokenService
import TokenServiceAPI
import UnixSignals

@main
struct TokenServiceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token-service", abstract: "Knows the devices, accepts notifications, applies what became of them.",
        discussion: TokenServiceReference.settings.help, version: BuildVersion.current.description,
        subcommands: [Serve.self, Migrate.self, OpenAPI.self, Reference.self], defaultSubcommand: Serve.self)

    struct Serve: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Serve until SIGTERM or SIGINT (the default).")

        func run() async throws {
            OpenFileLimit.raise()
            let environment = EnvironmentSettings()
            let metrics = bootstrapObservability(
                service: "token-service", level: try TokenServiceConfiguration.logLevel(environment.config))
            let logger = Logger(label: "token-service")
            let settings = try environment.read(TokenServiceReference.settings, logger: logger) {
                try TokenServiceConfiguration($0, logger: logger)
            }
            let service = try TokenService(settings, metrics: metrics, logger: logger)
            try await service.run(gracefulShutdownSignals: [.sigterm, .sigint])
        }
    }

    struct Migrate: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Bring the database's schema up to this program's, and end.")

        func run() async throws {
            let logger = Logger(label: "token-service")
            let settings = try EnvironmentSettings().read(TokenServiceConfiguration.ofDatabase, logger: logger) {
                try TokenServiceConfiguration.database($0, logger: logger)
            }
            let pool = PostgresPool(settings)
            let applied = try await Schema.migrator().migrate(pool)
            await pool.close()
            print(applied.isEmpty ? "The schema is up to date." : "Applied \(applied.map(String.init).joined(separator: ", ")).")
        }
    }

    struct Reference: ParsableCommand {
        enum Page: String, ExpressibleByArgument, CaseIterable {
            case settings, metrics, logKeys = "log-keys", errors, events
            case brokerMetrics = "broker-metrics", brokerLogKeys = "broker-log-keys", processMetrics = "process-metrics"
        }

        static let configuration = CommandConfiguration(abstract: "Print a table of the handbook's reference (Markdown), and end.")
        @Argument var page: Page

        func run() {
            switch page {
            case .settings: print(TokenServiceReference.settings.markdown)
            case .metrics: print(DocumentedMetric.markdown(TokenServiceReference.metrics))
            case .logKeys: print(DocumentedLogKey.markdown(TokenServiceReference.logKeys))
            case .errors: print(TokenServiceReference.errors)
            case .events: print(TokenServiceReference.events)
            case .brokerMetrics: print(DocumentedMetric.markdown([DocumentedMetric](BrokerMetrics.all)))
            case .brokerLogKeys: print(DocumentedLogKey.markdown(BrokerMetrics.logKeys.map { DocumentedLogKey($0.name, $0.meaning) }))
            case .processMetrics: print(DocumentedMetric.markdown(ProcessMetrics.documented))
            }
        }
    }

    struct OpenAPI: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "openapi", abstract: "Print the API's description (OpenAPI 3.1, JSON).")

        func run() { print(OpenAPIDocument.text) }
    }
}
