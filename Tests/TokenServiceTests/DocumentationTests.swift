import Configuration
import FoundationEssentials
import HTTPTypes
import Logging
import Observability
import TestSupport
import Testing
import TokenService
import TokenServiceAPI
import TokenServiceApps
import TokenServiceRegistry
import TokenServiceSending

@Suite("The handbook says what the code does")
struct DocumentationTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    private static func text(of path: String) throws -> String {
        String(decoding: try Data(contentsOf: root.appending(path: path)), as: UTF8.self)
    }

    private static func routes() throws -> String { try text(of: "docs/reference/http.md") }

    /// The words in back-quotes that begin the rows of one section's table.
    private static func table(_ heading: String) throws -> [String] {
        let section = try #require(try routes().components("\n## ").first { $0.hasPrefix(heading) })
        return section.components("\n").filter { $0.hasPrefix("| `") }.map { String($0.dropFirst(3).prefix { $0 != "`" }) }
    }

    @Test("The reference has every setting that the service reads, and no other") func describedSettings() throws {
        let reporter = Reporter()
        let variables = ["POSTGRES_URL": "postgresql://push@localhost/push", "RABBITMQ_URL": "amqp://localhost/"]
        let config = ConfigReader(provider: EnvironmentVariablesProvider(environmentVariables: variables), accessReporter: reporter)
        _ = try TokenServiceConfiguration(config, logger: Logger(label: "test"))
        _ = try TokenServiceConfiguration.logLevel(config)
        #expect(TokenServiceReference.settings.map(\.variable).sorted() == reporter.variables.sorted())
    }

    /// Gauges come about with the service, counters and timers with labels when they first count.
    @Test("Every metric says what it is, by the rules of Prometheus") func everyMetricSaysWhatItIsByTheRulesOfPrometheus() throws {
        let variables = ["POSTGRES_URL": "postgresql://push@localhost/push", "RABBITMQ_URL": "amqp://localhost/"]
        let config = ConfigReader(provider: EnvironmentVariablesProvider(environmentVariables: variables))
        let registry = PrometheusMetrics()
        let logger = Logger(label: "test")
        let service = try TokenService(TokenServiceConfiguration(config, logger: logger), metrics: registry, logger: logger)
        for metric in TokenServiceReference.metrics {
            switch metric.kind {
            case .counter: _ = registry.makeCounter(label: metric.name, dimensions: [])
            case .histogram where metric.name.hasSuffix("_seconds"): _ = registry.makeTimer(label: metric.name, dimensions: [])
            case .histogram, .gauge: break
            }
        }
        let page = registry.render()
        #expect(MetricsLint.faults(of: page) == [])
        for metric in TokenServiceReference.metrics { #expect(page.contains("# HELP \(metric.name) "), "\(metric.name)") }
        withExtendedLifetime(service) {}
    }

    @Test("The table of routes has every route and no other") func routesTable() throws {
        let routes = APIRoute.all.map { "\($0.method.rawValue) \($0.path)" }
        #expect(try Self.table("API").sorted() == routes.sorted())
        let text = try Self.routes()
        for route in APIRoute.open { #expect(text.contains("`\(route.path)`") || text.contains("GET \(route.path)`"), "\(route.path)") }
    }

    @Test("The guides name every warning") func namedWarnings() throws {
        let registering = try Self.text(of: "docs/guides/register-devices.md")
        for code in RegistrationWarning.Code.allCases { #expect(registering.contains("`\(code.rawValue)`"), "\(code.rawValue)") }
        let text = try Self.text(of: "docs/guides/send-and-follow.md")
        for code in NotificationWarning.Code.allCases { #expect(text.contains("`\(code.rawValue)`"), "\(code.rawValue)") }
    }

    @Test(
        "An error names the wrong setting",
        arguments: [
            (["HTTP_PORT": "70000"], "HTTP_PORT must be a whole number from 0 to 65535, but is \"70000\"."),
            (["HTTP_PORT": "x"], "HTTP_PORT must be a whole number from 0 to 65535, but is \"x\"."),
            (["POSTGRES_URL": ""], "POSTGRES_URL must be a libpq connection URI, postgresql://user@host:5432/database, and is not set."),
            (["RABBITMQ_URL": ""], "RABBITMQ_URL must be an AMQP URI, amqp[s]://user@host:5672,host:5672/vhost, and is not set."),
            (
                ["RABBITMQ_URL": "amqps://broker/"],
                "RABBITMQ_URL must be an AMQP URI (amqps needs a file with the broker's certificate authority, RABBITMQ_CA_FILE)."
            ),
            (["BACKLOG_LIMIT": "0"], "BACKLOG_LIMIT must be a whole number from 1 to 10000000, but is \"0\"."),
            (
                ["BOOTSTRAP_KEY_FILE": "/nowhere"],
                "BOOTSTRAP_KEY_FILE must be the path of a readable file (there is no such file), but is \"/nowhere\"."
            ),
        ])
    func wrongSetting(settings: [String: String], sentence: String) throws {
        var variables = ["POSTGRES_URL": "postgresql://push@localhost/push", "RABBITMQ_URL": "amqp://localhost/"]
        variables.merge(settings) { $1 }
        let config = ConfigReader(provider: EnvironmentVariablesProvider(environmentVariables: variables))
        let error = #expect(throws: ConfigurationError.self) { try TokenServiceConfiguration(config, logger: Logger(label: "test")) }
        #expect(error?.description == sentence)
    }
}

extension String {
    fileprivate func components(_ separator: String) -> [String] {
        split(separator: separator, omittingEmptySubsequences: false).map(String.init)
    }
}
