package import Configuration
import FoundationEssentials
package import Logging

/// The settings in this process's environment. They have no prefix, so an unknown variable is mostly another program's. One whose name
/// nearly equals that of an unset setting of this program is a misspelt setting.
package struct EnvironmentSettings: Sendable {
    package let config: ConfigReader
    private let names: Set<String>

    package init(_ variables: [String: String] = ProcessInfo.processInfo.environment) {
        config = ConfigReader(provider: EnvironmentVariablesProvider(environmentVariables: variables))
        names = Set(variables.filter { !$0.value.isEmpty }.keys)
    }

    /// Warns of misspelt settings, also if `body` throws: the missing setting may be one of them.
    /// - Parameter known: Every setting that `body` reads.
    package func read<Settings>(
        _ known: [any DocumentedSetting], logger: Logger, _ body: (ConfigReader) throws -> Settings
    ) rethrows -> Settings {
        for (found, meant) in nearMisses(of: Set(known.map(\.variable)), among: names) {
            logger.warning("Unknown setting \(found); did you mean \(meant)?", metadata: ["setting": "\(found)"])
        }
        return try body(config)
    }
}
