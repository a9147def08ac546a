package import Configuration
package import Logging

/// Where spans go. The names are OpenTelemetry's (specification: OTLP Exporter Configuration), so that a fleet has one set of variables.
package struct TraceSettings: Sendable {
    /// `http://host:4318`; nil: traces are off.
    package var endpoint: String?
    package var ratio: Double
    /// Sent with each request, for example the collector's key.
    package var headers: [(name: String, value: String)]
    /// PEM authorities besides the system's.
    package var authorityFile: String?

    package init(_ config: ConfigReader, logger: Logger) throws(ConfigurationError) {
        ratio = try config.fraction("otel.traces.sampler.arg", default: 0.01)
        headers = try Self.headers(config, logger: logger)
        authorityFile = try config.optionalFile("otel.exporter.otlp.certificate", logger: logger)
        guard config.optionalText("otel.exporter.otlp.endpoint") != nil else { return }
        _ = try config.url("otel.exporter.otlp.endpoint", schemes: ["http", "https"], credentials: "otel.exporter.otlp.headers.file")
        endpoint = config.optionalText("otel.exporter.otlp.endpoint")
    }

    /// One `Name: value` in a line.
    private static func headers(_ config: ConfigReader, logger: Logger) throws(ConfigurationError) -> [(name: String, value: String)] {
        let key = "otel.exporter.otlp.headers.file"
        guard let text = try config.optionalSecretFile(key, logger: logger) else { return [] }
        var headers: [(name: String, value: String)] = []
        for line in text.split(whereSeparator: \.isNewline) {
            let parts = line.split(separator: ":", maxSplits: 1).map { $0.trimmed }
            guard parts.count == 2, !parts[0].isEmpty, !parts[0].contains(" ") else {
                throw ConfigurationError(key, expected: "a file with one `Name: value` in each line")
            }
            headers.append((parts[0], parts[1]))
        }
        return headers
    }

    package static let documented: [DocumentedSetting] = [
        DocumentedSetting(
            "otel.exporter.otlp.endpoint", "none",
            "`http://host:4318` of an OpenTelemetry collector, which gets spans at `/v1/traces` (OTLP, JSON); without it nothing is traced"),
        DocumentedSetting(
            "otel.traces.sampler.arg", "0.01",
            "which part of the requests without a `traceparent` is traced, 0 to 1; a sender's own decision is kept"),
        DocumentedSetting(
            "otel.exporter.otlp.headers.file", "none",
            "a file with one `Name: value` in each line, sent to the collector; read at start"),
        DocumentedSetting(
            "otel.exporter.otlp.certificate", "the system's",
            "PEM authorities that the collector's certificate may come from, besides the system's"),
    ]
}

extension Substring {
    fileprivate var trimmed: String {
        var text = self
        while text.first?.isWhitespace == true { text.removeFirst() }
        while text.last?.isWhitespace == true { text.removeLast() }
        return String(text)
    }
}
