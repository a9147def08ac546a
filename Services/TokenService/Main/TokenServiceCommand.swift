import ArgumentParser
import Configuration
import Logging
import Observability
import Postgres
import TokenService
import UnixSignals

@main
struct TokenServiceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token-service", abstract: "Knows the devices, accepts notifications, applies what became of them.",
        discussion: "Settings are environment variables; the service's README lists them.", version: BuildVersion.current.description,
        subcommands: [Serve.self, Migrate.self, OpenAPI.self], defaultSubcommand: Serve.self)

    struct Serve: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Serve until SIGTERM or SIGINT (the default).")

        func run() async throws {
            let config = ConfigReader(provider: EnvironmentVariablesProvider())
            let metrics = bootstrapObservability(service: "token-service", level: try TokenServiceConfiguration.logLevel(config))
            let logger = Logger(label: "token-service")
            let service = try TokenService(TokenServiceConfiguration(config, logger: logger), metrics: metrics, logger: logger)
            try await service.run(gracefulShutdownSignals: [.sigterm, .sigint])
        }
    }

    struct Migrate: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Bring the database's schema up to this program's, and end.")

        func run() async throws {
            let config = ConfigReader(provider: EnvironmentVariablesProvider())
            let pool = PostgresPool(try TokenServiceConfiguration.database(config, logger: Logger(label: "token-service")))
            let applied = try await Schema.migrator().migrate(pool)
            await pool.close()
            print(applied.isEmpty ? "The schema is up to date." : "Applied \(applied.map(String.init).joined(separator: ", ")).")
        }
    }

    struct OpenAPI: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "openapi", abstract: "Print the API's description (OpenAPI 3.1, YAML).")

        func run() { print(OpenAPIDocument.text) }
    }
}
