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

    @Test("Each of the thirty-eight lessons names tests that there are")
    func lessons() throws {
        let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let text = String(decoding: try Data(contentsOf: tests.appending(path: "DispatcherTests/README.md")), as: UTF8.self)
        let rows = text.split(separator: "\n").filter { $0.hasPrefix("| ") && $0.dropFirst(2).first?.isNumber == true }
        #expect(rows.compactMap { Int($0.dropFirst(2).prefix { $0.isNumber }) } == Array(1...38))
        var functions: Set<Substring> = []
        for case let file as URL in try #require(FileManager.default.enumerator(at: tests, includingPropertiesForKeys: nil))
        where file.pathExtension == "swift" {
            let source = String(decoding: try Data(contentsOf: file), as: UTF8.self)
            for match in source.matches(of: /func ([A-Za-z0-9]+)\(/) { functions.insert(match.output.1) }
        }
        for row in rows {
            let quoted = row.split(separator: "`", omittingEmptySubsequences: false).enumerated().filter { $0.offset % 2 == 1 }.map(
                \.element)
            // Types and settings begin with a capital.
            let named = quoted.filter { $0.first?.isLowercase == true }
            for name in named { #expect(functions.contains(name), "\(row.prefix(40)): \(name)") }
            #expect(!named.isEmpty, "\(row.prefix(40))")
        }
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
