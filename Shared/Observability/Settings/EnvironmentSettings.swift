package import Configuration
import FoundationEssentials
package import Logging
import Synchronization

/// The settings in this process's environment. They have no prefix, so an unknown variable is mostly another program's. One whose name
/// nearly equals that of an unset setting of this program is a misspelt setting.
package struct EnvironmentSettings: Sendable {
    package let config: ConfigReader
    private let names: Set<String>
    private let asked = AskedNames()

    package init(_ variables: [String: String] = ProcessInfo.processInfo.environment) {
        config = ConfigReader(provider: EnvironmentVariablesProvider(environmentVariables: variables), accessReporter: asked)
        names = Set(variables.filter { !$0.value.isEmpty }.keys)
    }

    /// Warns of misspelt settings, also if `body` throws: the missing setting may be one of them.
    package func read<Settings>(logger: Logger, _ body: (ConfigReader) throws -> Settings) rethrows -> Settings {
        defer {
            for (found, meant) in nearMisses(of: asked.variables, among: names) {
                logger.warning("Unknown setting \(found); did you mean \(meant)?", metadata: ["setting": "\(found)"])
            }
        }
        return try body(config)
    }
}

/// The environment variables that were read.
private final class AskedNames: AccessReporter {
    private let seen = Mutex<Set<String>>([])

    var variables: Set<String> { seen.withLock { $0 } }

    func report(_ event: AccessEvent) {
        seen.withLock { _ = $0.insert(ConfigurationError.variable(event.metadata.key.components.joined(separator: "."))) }
    }
}
