package import Hummingbird
import StrictJSON

/// Routes for the machines that run the service: is it alive, can it work, what are its figures. Mount them on any router.
package struct OperationsRoutes: Sendable {
    private let metrics: PrometheusMetrics
    private let readiness: @Sendable () async -> Readiness

    package init(metrics: PrometheusMetrics, readiness: @escaping @Sendable () async -> Readiness) {
        self.metrics = metrics
        self.readiness = readiness
    }

    /// `GET /healthz`, `GET /readyz`, `GET /metrics`.
    package func mount(on router: some RouterMethods<some RequestContext>) {
        router.get("healthz") { _, _ in Self.json(.ok, Self.health) }
        router.get("readyz") { [readiness] _, _ in
            let answer = await readiness()
            return Self.json(answer.isReady ? .ok : .serviceUnavailable, answer.json())
        }
        router.get("metrics") { [metrics] _, _ in
            Self.response(.ok, PrometheusMetrics.contentType, Array(metrics.render().utf8))
        }
    }

    /// The process runs and answers; no dependency is checked, so that a broken neighbour never gets it restarted.
    private static var health: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.field("status", "ok")
            writer.field("version", BuildVersion.current.number)
            writer.field("commit", BuildVersion.current.commit)
        }
        return writer.bytes
    }

    private static func json(_ status: HTTPResponse.Status, _ body: [UInt8]) -> Response {
        response(status, "application/json", body)
    }

    private static func response(_ status: HTTPResponse.Status, _ contentType: String, _ body: [UInt8]) -> Response {
        Response(
            status: status, headers: [.contentType: contentType, .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: body)))
    }
}
