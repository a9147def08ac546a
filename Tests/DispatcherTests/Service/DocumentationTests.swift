import Configuration
import Foundation
import Observability
import Synchronization
import Testing

@testable import Dispatcher

@Suite("The README says what the code does")
struct DocumentationTests {
    /// The first cell of every row of the tables that follow a heading, up to the next heading.
    private func firstCells(under heading: String) throws -> [String] {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let text = String(decoding: try Data(contentsOf: root.appending(path: "Services/Dispatcher/README.md")), as: UTF8.self)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        let start = try #require(lines.firstIndex(of: "## \(heading)"))
        let section = lines[(start + 1)...].prefix { !$0.hasPrefix("## ") }
        return section.filter { $0.hasPrefix("| `") }.compactMap { $0.split(separator: "`").dropFirst().first.map(String.init) }
    }

    @Test("Every setting that is read is in the table, and no other")
    func settings() throws {
        let reporter = KeyReporter()
        let provider = EnvironmentVariablesProvider(environmentVariables: [
            "RABBITMQ_URL": "amqp://broker", "APNS_CREDENTIALS_FILE": try TestIdentity.shared.get().credentialsFile,
        ])
        _ = try DispatcherSettings(ConfigReader(provider: provider, accessReporter: reporter), logger: .silent)
        #expect(try Set(firstCells(under: "Settings")) == reporter.variables)
    }

    @Test("Every metric is in the table, and no other")
    func metrics() throws {
        #expect(try firstCells(under: "Metrics").sorted() == MetricName.all.sorted())
        #expect(Set(MetricName.all).count == MetricName.all.count)
    }
}

/// Remembers which settings were asked for, as environment variables.
private final class KeyReporter: AccessReporter {
    private let seen = Mutex<Set<String>>([])

    var variables: Set<String> { seen.withLock { $0 } }

    func report(_ event: AccessEvent) {
        seen.withLock { _ = $0.insert(ConfigurationError.variable(event.metadata.key.components.joined(separator: "."))) }
    }
}
