import APNsSimulator
import ArgumentParser
import Configuration
import Logging
import Observability
import ServiceLifecycle
import UnixSignals

@main
struct APNsSimulatorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apns-simulator", abstract: "Stands in for Apple's push service, over real TLS and HTTP/2.",
        discussion: SimulatorSetting.help, version: BuildVersion.current.description,
        subcommands: [Serve.self, Journal.self], defaultSubcommand: Serve.self)

    struct Serve: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Serve until SIGTERM or SIGINT (the default).", discussion: SimulatorSetting.help)

        func run() async throws {
            let config = ConfigReader(provider: EnvironmentVariablesProvider())
            bootstrapObservability(service: "apns-simulator", level: try APNsSimulatorConfiguration.logLevel(config))
            let logger = Logger(label: "apns-simulator")
            let simulator = try APNsSimulator(APNsSimulatorConfiguration(config, logger: logger), logger: logger)
            let group = ServiceGroup(
                configuration: ServiceGroupConfiguration(
                    services: [SimulatorService(simulator, logger: logger)], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger))
            try await group.run()
        }
    }
}
