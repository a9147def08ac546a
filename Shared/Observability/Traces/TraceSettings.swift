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
        ratio = try config.read(Self.ratio)
        headers = try Self.headers(config, logger: logger)
        authorityFile = try config.read(Self.authorityFile, logger: logger)
        endpoint = try config.read(Self.endpoint)?.text
    }

    package static let all: [any DocumentedSetting] = [endpoint, ratio, headersFile, authorityFile]

    private static let endpoint = Setting(
        url: "otel.exporter.otlp.endpoint", schemes: ["http", "https"], credentials: headersFile,
        "an OpenTelemetry collector, as a rule on port 4318, which gets spans at `/v1/traces` (OTLP, JSON); without it nothing is traced")
    private static let ratio = Setting(
        fraction: "otel.traces.sampler.arg", 0.01,
        "which part of the requests without a `traceparent` is traced; a sender's own decision is kept")
    private static let headersFile = FileSetting(
        secret: "otel.exporter.otlp.headers.file", "a file with one `Name: value` in each line, sent to the collector; read at start")
    private static let authorityFile = FileSetting(
        "otel.exporter.otlp.certificate", shown: "the system's",
        "PEM authorities that the collector's certificate may come from, besides the system's")

    /// One `Name: value` in a line.
    private static func headers(_ config: ConfigReader, logger: Logger) throws(ConfigurationError) -> [(name: String, value: String)] {
        guard let text = try config.read(headersFile, logger: logger) else { return [] }
        var headers: [(name: String, value: String)] = []
        for line in text.split(whereSeparator: \.isNewline) {
            let parts = line.split(separator: ":", maxSplits: 1).map { $0.trimmed }
            guard parts.count == 2, !parts[0].isEmpty, !parts[0].contains(" ") else {
                throw headersFile.error(expected: "a file with one `Name: value` in each line")
            }
            headers.append((parts[0], parts[1]))
        }
        return headers
    }
}

extension Substring {
    fileprivate var trimmed: String {
        var text = self
        while text.first?.isWhitespace == true { text.removeFirst() }
        while text.last?.isWhitespace == true { text.removeLast() }
        return String(text)
    }
}
