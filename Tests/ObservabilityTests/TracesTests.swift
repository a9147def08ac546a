import Configuration
import Foundation
import Logging
import Observability
import Testing

@Suite("Which work is traced, and how many spans wait for the collector")
struct TracesTests {
    private static let sampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    private static let unsampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
    private let metrics = PrometheusMetrics()
    private let silent = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })

    private func settings(_ variables: [String: String]) throws -> TraceSettings {
        try TraceSettings(ConfigReader(provider: EnvironmentVariablesProvider(environmentVariables: variables)), logger: silent)
    }

    private func traces(ratio: String) throws -> Traces {
        // No process listens there, and nothing is sent before the exporter runs.
        let settings = try settings(["OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER_ARG": ratio])
        let exporter = try #require(TraceExporter(settings, service: "test", metrics: metrics, logger: silent))
        return Traces(exporter: exporter, ratio: settings.ratio)
    }

    // MARK: Decisions

    @Test("A sender's decision is kept, whatever the ratio", arguments: ["0", "1"]) func senderDecides(ratio: String) throws {
        let traces = try traces(ratio: ratio)
        var random = SystemRandomNumberGenerator()
        let sender = try #require(TraceContext(traceparent: Self.sampled))
        let child = traces.begin(after: sender, using: &random)
        #expect(child.traceID == sender.traceID && child.spanID != sender.spanID && child.isSampled)
        let other = try #require(TraceContext(traceparent: Self.unsampled))
        #expect(traces.begin(after: other, using: &random) == other, "no span is recorded here, so the sender's stays the parent")
    }

    @Test("Without a sender the ratio decides", arguments: [(ratio: "0", least: 0, most: 0), ("0.25", 2200, 2800), ("1", 10_000, 10_000)])
    func ratioDecides(ratio: String, least: Int, most: Int) throws {
        let traces = try traces(ratio: ratio)
        var random = SystemRandomNumberGenerator()
        // 2,500 of 10,000; the standard deviation is 43.
        let sampled = (0..<10_000).count { _ in traces.begin(after: nil, using: &random).isSampled }
        #expect((least...most).contains(sampled))
    }

    @Test("While traces are off, nothing is sampled and a sender's trace passes unchanged") func off() throws {
        var random = SystemRandomNumberGenerator()
        let sender = try #require(TraceContext(traceparent: Self.sampled))
        #expect(Traces.off.begin(after: sender, using: &random) == sender)
        #expect(!Traces.off.begin(after: nil, using: &random).isSampled)
        #expect(Traces.off.context(Self.sampled) == nil)
    }

    @Test("A message's trace is read only if it is sampled and well-formed") func messages() throws {
        let traces = try traces(ratio: "0")
        #expect(traces.context(Self.sampled)?.traceparent == Self.sampled)
        for text in [nil, "", "1", "t1", Self.unsampled, Self.sampled + "1", String(Self.sampled.dropLast(2)) + "03x1"] as [String?] {
            #expect(traces.context(text) == nil, "\(text ?? "none")")
        }
    }

    // MARK: Bounds

    @Test("At most 16,384 spans wait; the others are dropped and counted") func bounded() throws {
        let traces = try traces(ratio: "1")
        let span = Span("work", .inner, .random(), parent: nil, start: 1, end: 2)
        for _ in 0..<200 { traces.record(Array(repeating: span, count: 100)) }
        #expect(metrics.render().contains("push_trace_spans_total{result=\"dropped\"} \(20_000 - TraceExporter.capacity)\n"))
    }

    // MARK: Settings

    @Test("Without an endpoint there is no exporter") func noEndpoint() throws {
        #expect(TraceExporter(try settings([:]), service: "test", metrics: metrics, logger: silent) == nil)
    }

    @Test(
        "A wrong setting is named",
        arguments: [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"), ("OTEL_TRACES_SAMPLER_ARG", "1.1"), ("OTEL_TRACES_SAMPLER_ARG", "-0.1"),
            ("OTEL_TRACES_SAMPLER_ARG", "often"), ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/does/not/exist"),
        ])
    func wrongSetting(name: String, value: String) {
        let error = #expect(throws: ConfigurationError.self) { try settings([name: value]) }
        #expect(error?.description.contains(name) == true, "\(String(describing: error))")
    }

    @Test("Headers come from a file, one in a line") func headers() throws {
        let path = NSTemporaryDirectory() + "/otlp-headers-\(UUID())"
        defer { try? FileManager.default.removeItem(atPath: path) }
        try Data("Authorization: Bearer a:b\nX-Tenant:push\n".utf8).write(to: URL(filePath: path))
        let headers = try settings(["OTEL_EXPORTER_OTLP_HEADERS_FILE": path]).headers
        #expect(headers.map(\.name) == ["Authorization", "X-Tenant"] && headers.map(\.value) == ["Bearer a:b", "push"])
        try Data("no colon\n".utf8).write(to: URL(filePath: path))
        let error = #expect(throws: ConfigurationError.self) { try settings(["OTEL_EXPORTER_OTLP_HEADERS_FILE": path]) }
        #expect(error?.description.contains("no colon") == false, "a header may be a secret")
    }
}
