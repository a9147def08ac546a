import AsyncHTTPClient
import CoreMetrics
package import Logging
import NIOCore
import NIOHTTP1
import NIOSSL
import PushModel
import ServiceLifecycle
import StrictJSON
import Synchronization

/// Sends spans to an OpenTelemetry collector: OTLP over HTTP, once a second. Never in the way of the work: if the collector is slow or
/// away, at most ``capacity`` spans wait (about 8 MiB), and the rest is dropped and counted.
package final class TraceExporter: Service {
    package static let capacity = 16_384
    /// Spans of one request: about half a MiB.
    private static let batch = 1024
    private static let interval = Duration.seconds(1)
    private static let patience = TimeAmount.seconds(5)
    /// Tries of one batch; the collector may be restarting.
    private static let maximumTries = 5

    package static let documented: [DocumentedMetric] = [
        DocumentedMetric(
            "push_trace_spans_total", .counter, ["result"],
            "Spans for the trace collector. Result: exported; dropped: too many waited, or the collector took none for several tries; "
                + "refused by the collector.")
    ]

    private enum Result: String, CaseIterable { case exported, dropped, refused }

    private let url: String
    private let headers: HTTPHeaders
    private let resource: [(name: String, value: Span.Value)]
    private let tls: TLSConfiguration
    private let counters: [Result: Counter]
    private let logger: Logger
    private let waiting = Mutex<[Span]>([])

    /// Opens nothing yet.
    /// - Parameters:
    ///   - service: `service.name`.
    ///   - instance: `service.instance.id`; nil for none.
    /// - Returns: nil if the settings name no collector.
    package init?(_ settings: TraceSettings, service: String, instance: String? = nil, metrics: PrometheusMetrics, logger: Logger) {
        guard let endpoint = settings.endpoint else { return nil }
        url = (endpoint.hasSuffix("/") ? String(endpoint.dropLast()) : endpoint) + "/v1/traces"
        headers = HTTPHeaders([("Content-Type", "application/json")] + settings.headers.map { ($0.name, $0.value) })
        let version = BuildVersion.current
        var resource: [(name: String, value: Span.Value)] = [
            ("service.name", .text(service)), ("service.version", .text(version.number)),
        ]
        if let instance { resource.append(("service.instance.id", .text(instance))) }
        self.resource = resource
        var tls = TLSConfiguration.makeClientConfiguration()
        if let file = settings.authorityFile { tls.additionalTrustRoots = [.file(file)] }
        self.tls = tls
        metrics.describe(Self.documented)
        counters = Dictionary(
            uniqueKeysWithValues: Result.allCases.map {
                ($0, Counter(label: "push_trace_spans_total", dimensions: [("result", $0.rawValue)], factory: metrics))
            })
        self.logger = logger
    }

    /// Records spans from any thread; returns at once.
    package func record(_ spans: [Span]) {
        let dropped = waiting.withLock { waiting in
            let room = max(0, Self.capacity - waiting.count)
            waiting.append(contentsOf: spans.prefix(room))
            return max(0, spans.count - room)
        }
        if dropped > 0 { count(.dropped, dropped) }
    }

    /// Exports until a graceful shutdown, which sends the spans that wait. Start it first, so that it ends last.
    package func run() async throws {
        // Not before: a client that was made must be shut down.
        let client = HTTPClient(
            eventLoopGroupProvider: .singleton,
            configuration: HTTPClient.Configuration(
                tlsConfiguration: tls, redirectConfiguration: .disallow, timeout: .init(connect: .seconds(2))))
        let isAway = Flag()
        await cancelWhenGracefulShutdown {
            while await self.pause() { await self.export(by: client, isAway) }
        }
        await export(by: client, isAway, tries: 1)
        try await client.shutdown()
    }

    /// Whether the collector took nothing the last time: logged when it changes.
    private final class Flag: Sendable {
        private let value = Mutex(false)
        /// - Returns: whether it had another value.
        func set(_ new: Bool) -> Bool {
            value.withLock { value in
                defer { value = new }
                return value != new
            }
        }
    }

    private func pause() async -> Bool {
        do {
            try await Task.sleep(for: Self.interval)
            return true
        } catch {
            return false
        }
    }

    /// Sends all waiting spans, or gives up one batch.
    private func export(by client: HTTPClient, _ isAway: Flag, tries: Int = maximumTries) async {
        while true {
            let spans = waiting.withLock { waiting in
                let spans = Array(waiting.prefix(Self.batch))
                waiting.removeFirst(spans.count)
                return spans
            }
            guard !spans.isEmpty else { return }
            let fault = await send(
                Span.request(spans, resource: resource), by: client, count: spans.count, tries: tries)
            if isAway.set(fault != nil) {
                if let fault {
                    logger.warning("The trace collector takes no spans: they are dropped", metadata: ["reason": "\(fault)"])
                } else {
                    logger.notice("The trace collector takes spans again")
                }
            }
            if fault != nil { return count(.dropped, spans.count) }
        }
    }

    /// - Returns: why the collector took none of them.
    private func send(_ body: [UInt8], by client: HTTPClient, count: Int, tries: Int) async -> String? {
        var fault: String?
        for attempt in 1...tries {
            if attempt > 1, await !pause() { return fault }
            do {
                var request = HTTPClientRequest(url: url)
                request.method = .POST
                request.headers = headers
                request.body = .bytes(ByteBuffer(bytes: body))
                let response = try await client.execute(request, timeout: Self.patience)
                let answer = try await response.body.collect(upTo: 65_536)
                switch response.status.code {
                case 200..<300:
                    let refused = min(count, Self.refused(Array(answer.readableBytesView)))
                    self.count(.exported, count - refused)
                    self.count(.refused, refused)
                    return nil
                // OTLP specification, Failures: these may pass.
                case 429, 502, 503, 504: fault = "status \(response.status.code)"
                default:
                    self.count(.refused, count)
                    return "status \(response.status.code)"
                }
            } catch {
                fault = "\(error)"
            }
        }
        return fault
    }

    /// Reads how many spans were refused from `ExportTraceServiceResponse.partial_success`.
    private static func refused(_ answer: [UInt8]) -> Int {
        guard let value = try? JSONValue.parse(answer, maximumBytes: 65_536) else { return 0 }
        let rejected = value["partialSuccess"]?["rejectedSpans"]
        return max(0, Int(rejected?.integerValue ?? rejected?.stringValue.flatMap { Int64($0) } ?? 0))
    }

    private func count(_ result: Result, _ number: Int) {
        if number > 0 { counters[result]?.increment(by: number) }
    }
}
