import Configuration
import Foundation
import Observability
import Synchronization
import TestIdentity
import Testing

@testable import Dispatcher

@Suite("The reference's tables and the table of lessons say what the code does")
struct DocumentationTests {
    @Test("Every setting that is read is in the table, and no other")
    func settings() throws {
        let reporter = KeyReporter()
        let provider = EnvironmentVariablesProvider(environmentVariables: [
            "RABBITMQ_URL": "amqp://broker", "APNS_CREDENTIALS_FILE": try TestIdentity.configured.get().credentialsFile,
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

    @Test("The tables have the log keys and the metrics that the code declares")
    func declared() {
        let keys = DispatcherReference.logKeys.map(\.name)
        #expect(keys.contains("message.id") && DispatcherLogKey.messageID == "message.id" && Set(keys).count == keys.count)
        let metrics = DispatcherReference.metrics.map(\.name)
        for name in ["push_dispatcher_jobs_taken_total", "push_dispatcher_holds", "push_dispatcher_apns_pool_state"] {
            #expect(metrics.contains(name), "\(name)")
        }
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
