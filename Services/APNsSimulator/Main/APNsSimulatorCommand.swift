import APNsSimulator
import ArgumentParser
import Logging
import Observability
import ServiceLifecycle
import UnixSignals

@main
struct APNsSimulatorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apns-simulator", abstract: "Stands in for Apple's push service, over real TLS and HTTP/2.",
        discussion: """
            To serve takes no subcommand: apns-simulator, or for a bad day
            apns-simulator --scenario bad-day (see apns-simulator scenarios).


            """ + SimulatorSetting.help, version: BuildVersion.current.description,
        subcommands: [Serve.self, Scenarios.self, Watch.self, Journal.self, Reference.self], defaultSubcommand: Serve.self)

    struct Reference: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print the settings as a table of the handbook's reference (Markdown), and end.")

        func run() { print(SimulatorSetting.all.markdown) }
    }

    struct Serve: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Serve until SIGTERM or SIGINT (the default).", discussion: SimulatorSetting.help)

        @Option(help: "What goes wrong from the start: one of apns-simulator scenarios. Overrides SCENARIO.") var scenario: String?
        @Option(help: "The same from a file. Overrides SCENARIO_FILE.") var scenarioFile: String?

        func validate() throws {
            if scenario != nil, scenarioFile != nil { throw ValidationError("Either --scenario or --scenario-file.") }
        }

        func run() async throws {
            let environment = EnvironmentSettings()
            bootstrapObservability(service: "apns-simulator", level: try APNsSimulatorConfiguration.logLevel(environment.config))
            let logger = Logger(label: "apns-simulator")
            let begun = try scenario.map { try ReadyScenario.named($0) } ?? scenarioFile.map { try Scenario(file: $0) }
            var settings = try environment.read(SimulatorSetting.all, logger: logger) {
                try APNsSimulatorConfiguration($0, logger: logger)
            }
            if let begun { settings.scenario = begun }
            let simulator = try APNsSimulator(settings, logger: logger)
            let group = ServiceGroup(
                configuration: ServiceGroupConfiguration(
                    services: [SimulatorService(simulator, logger: logger)], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger))
            try await group.run()
        }
    }
}
