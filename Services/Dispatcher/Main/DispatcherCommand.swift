import ArgumentParser
import Dispatcher
import Logging
import Observability
import SystemIO
import UnixSignals

@main
struct DispatcherCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dispatcher", abstract: "Takes jobs from the broker, sends them to APNs, reports what became of them.",
        discussion: DispatcherReference.settings.help, version: BuildVersion.current.description,
        subcommands: [Run.self, Check.self, Definitions.self, Reference.self], defaultSubcommand: Run.self)

    struct Run: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Work until SIGTERM or SIGINT (the default); SIGHUP has the credentials read at once.")

        func run() async throws {
            OpenFileLimit.raise()
            let environment = EnvironmentSettings()
            let metrics = bootstrapObservability(service: "dispatcher", level: try DispatcherSettings.logLevel(environment.config))
            let logger = Logger(label: "dispatcher")
            let settings = try environment.read(DispatcherReference.settings, logger: logger) { try DispatcherSettings($0, logger: logger) }
            let dispatcher = try Dispatcher(settings, metrics: metrics, logger: logger)
            try await dispatcher.run(gracefulShutdownSignals: [.sigterm, .sigint], reloadSignals: [.sighup])
        }
    }

    struct Definitions: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "topology", abstract: "Print the broker's definitions, for rabbitmqctl import_definitions, and end.")
        @Option(help: "First word of every exchange and queue; without it, that of BROKER_PREFIX.") var prefix: String?
        @Option(help: "The virtual host they are for; without it, that of RABBITMQ_URL, or / where that is not set.") var virtualHost:
            String?

        func run() throws {
            let logger = Logger(label: "dispatcher")
            print(
                try EnvironmentSettings().read(DispatcherSettings.ofTopology, logger: logger) { config in
                    try Dispatcher.definitions(config, prefix: prefix, virtualHost: virtualHost, logger: logger)
                })
        }
    }

    struct Reference: ParsableCommand {
        enum Page: String, ExpressibleByArgument, CaseIterable {
            case settings, metrics, logKeys = "log-keys", answers
        }

        static let configuration = CommandConfiguration(abstract: "Print a table of the handbook's reference (Markdown), and end.")
        @Argument var page: Page

        func run() {
            switch page {
            case .settings: print(DispatcherReference.settings.markdown)
            case .metrics: print(DocumentedMetric.markdown(DispatcherReference.metrics))
            case .logKeys: print(DocumentedLogKey.markdown(DispatcherReference.logKeys))
            case .answers: print(DispatcherReference.answers)
            }
        }
    }

    struct Check: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Check settings, credentials and keys, and end.")

        func run() throws {
            let logger = Logger(label: "dispatcher")
            let settings = try EnvironmentSettings().read(DispatcherReference.settings, logger: logger) {
                try DispatcherSettings($0, logger: logger)
            }
            print(try Dispatcher.check(settings, logger: logger))
        }
    }
}
