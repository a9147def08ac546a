package import Configuration
import FoundationEssentials
package import Logging

/// The known name that a misspelt one most likely means: one mistake away, or two in a name of eight letters or more. A mistake is an extra
/// letter, a missing one, a wrong one, or two that changed places.
package func nearestName(to word: String, among names: some Sequence<String>) -> String? {
    let bound = min(2, max(1, word.count / 4))
    let ranked = names.map { (name: $0, mistakes: mistakes(Array(word.utf8), Array($0.utf8))) }
    return ranked.filter { $0.mistakes <= bound }.min { ($0.mistakes, $0.name) < ($1.mistakes, $1.name) }?.name
}

/// The unknown names that are most likely misspelt known ones.
package func nearMisses(of known: Set<String>, among names: Set<String>) -> [(found: String, meant: String)] {
    // A known name that is set was not misspelt; the name beside it is another program's.
    let unset = known.subtracting(names)
    return names.subtracting(known).sorted().compactMap { name in nearestName(to: name, among: unset).map { (name, $0) } }
}

/// The optimal string alignment distance.
private func mistakes(_ a: [UInt8], _ b: [UInt8]) -> Int {
    var older: [Int] = []
    var last = Array(0...b.count)
    for i in a.indices {
        var row = [i + 1]
        for j in b.indices {
            var cost = min(last[j] + (a[i] == b[j] ? 0 : 1), last[j + 1] + 1, row[j] + 1)
            if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] { cost = min(cost, older[j - 1] + 1) }
            row.append(cost)
        }
        (older, last) = (last, row)
    }
    return last[b.count]
}

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
