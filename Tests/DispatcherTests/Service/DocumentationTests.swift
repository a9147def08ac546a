import Configuration
import Foundation
import Observability
import Synchronization
import Testing

@testable import Dispatcher

@Suite("The reference's tables and the table of lessons say what the code does")
struct DocumentationTests {
    @Test("Every setting that is read is in the table, and no other")
    func settings() throws {
        let reporter = KeyReporter()
        let provider = EnvironmentVariablesProvider(environmentVariables: [
            "RABBITMQ_URL": "amqp://broker", "APNS_CREDENTIALS_FILE": try TestIdentity.shared.get().credentialsFile,
        ])
        _ = try DispatcherSettings(ConfigReader(provider: provider, accessReporter: reporter), logger: .silent)
        #expect(DispatcherReference.settings.map(\.variable).sorted() == reporter.variables.sorted())
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

    @Test("Every key of log lines is in the table, and no other")
    func logKeys() throws {
        let names = URL(filePath: #filePath).deletingLastPathComponent().appending(
            path: "../../../Services/Dispatcher/Core/DispatcherNames.swift")
        let text = try String(contentsOf: names, encoding: .utf8)
        let keys = try #require(text.components(separatedBy: "enum MetricName").first).matches(of: /static let \w+ = "([^"]+)"/)
        #expect(DispatcherReference.logKeys.map(\.name).sorted() == keys.map { String($0.output.1) }.sorted())
    }

    @Test("Every metric is in the table, and no other")
    func metrics() throws {
        let names = MetricName.all + TraceExporter.documented.map(\.name)
        #expect(DispatcherReference.metrics.map(\.name).sorted() == names.sorted())
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
