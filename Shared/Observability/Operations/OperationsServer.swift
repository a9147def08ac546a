package import Hummingbird
import HummingbirdCore
package import Logging
import NIOCore
import ServiceLifecycle
import StrictJSON

/// Serves ``OperationsRoutes`` on a port of their own, until graceful shutdown.
///
/// The server's clients can use only a bounded number of connections and a bounded time: the work itself needs descriptors.
package struct OperationsServer: Service {
    /// Beyond it, connections wait until another ends.
    package static let maximumConnections = 256

    private let application: Application<RouterResponder<BasicRequestContext>>
    private let port: ListeningPort

    /// - Parameters:
    ///   - port: 0 lets the system choose.
    ///   - idleTimeout: For a request's head, and between two requests.
    ///   - onListening: Gets the port once the server takes requests.
    package init(
        host: String, port: Int, metrics: PrometheusMetrics, logger: Logger, idleTimeout: Duration = .seconds(60),
        readiness: @escaping @Sendable () async -> Readiness, onListening: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.port = ListeningPort(host: host, port: port, hostKey: "operations.host", portKey: "operations.port")
        let router = Router(context: BasicRequestContext.self, options: .autoGenerateHeadEndpoints)
        router.add(middleware: PlainRequests())
        OperationsRoutes(metrics: metrics, readiness: readiness).mount(on: router)
        router.answerOtherMethods()
        application = Application(
            router: router,
            server: SidePortChannel.server(idleTimeout: idleTimeout),
            configuration: ApplicationConfiguration(
                address: .hostname(host, port: port), availableConnectionsDelegate: MaximumAvailableConnections(Self.maximumConnections)),
            onServerRunning: { channel in onListening(channel.localAddress?.port ?? port) }, logger: logger)
    }

    package func run() async throws { try await port.explaining { try await application.run() } }
}

/// Paths in their one form, and no body in an answer to HEAD: a client would read it as the beginning of the next answer.
private struct PlainRequests: MiddlewareProtocol {
    typealias Input = Request
    typealias Output = Response
    typealias Context = BasicRequestContext

    @concurrent func handle(
        _ request: Request, context: BasicRequestContext, next: @concurrent (Request, BasicRequestContext) async throws -> Response
    ) async throws -> Response {
        var response: Response
        do {
            guard request.hasPlainPath else { throw HTTPError(.notFound) }
            response = request.asksTheServer ? Response(status: .noContent) : try await next(request, context)
        } catch let error as HTTPError {
            response = try error.response(from: request, context: context)
        }
        if request.method == .head { response = response.createHeadResponse() }
        return response
    }
}

extension Request {
    /// Whether the path is written the one way in which routes are. The router would pass over empty parts. An operator who hides
    /// `/metrics` from strangers with a rule on a proxy must not have to think of `//metrics` and `/metrics/`.
    package var hasPlainPath: Bool {
        var previous: UInt8 = 0
        var count = 0
        for byte in uri.path.utf8 {
            if byte == UInt8(ascii: "/"), previous == byte { return false }
            previous = byte
            count += 1
        }
        return previous != UInt8(ascii: "/") || count == 1
    }
}

extension Router {
    /// Answers every other method on the paths that are bound by now: OPTIONS with `Allow` (RFC 9110 section 9.3.7), the rest with 405 and
    /// `Allow` (section 15.5.6). Call it last.
    package func answerOtherMethods() {
        for (path, routes) in Dictionary(grouping: routes, by: { "\($0.path)" }) {
            var allowed = Set(routes.map(\.method)).union([.options])
            if allowed.contains(.get) { allowed.insert(.head) }
            let allow = allowed.map(\.rawValue).sorted().joined(separator: ", ")
            on(RouterPath(path), method: .options) { _, _ in Response(status: .noContent, headers: [.allow: allow]) }
            for method in HTTPRequest.Method.known.subtracting(allowed) {
                on(RouterPath(path), method: method) { _, _ -> Response in throw HTTPError(.methodNotAllowed, headers: [.allow: allow]) }
            }
        }
    }
}

extension HTTPRequest.Method {
    /// The methods of RFC 9110 section 9.3 and RFC 5789 (PATCH): the values of a metric's label. CONNECT names no path.
    private static let usual: Set<HTTPRequest.Method> = [.get, .head, .post, .put, .delete, .options, .trace, .patch]

    /// All methods that the parser (llhttp) lets pass with a path.
    fileprivate static let known = usual.union(
        [
            "ACL", "BIND", "CHECKOUT", "COPY", "LINK", "LOCK", "MERGE", "MKACTIVITY", "MKCALENDAR", "MKCOL", "MOVE", "MSEARCH", "NOTIFY",
            "PROPFIND", "PROPPATCH", "PURGE", "QUERY", "REBIND", "REPORT", "SEARCH", "SOURCE", "SUBSCRIBE", "UNBIND", "UNLINK", "UNLOCK",
            "UNSUBSCRIBE",
        ].compactMap { HTTPRequest.Method($0) })

    /// The method's name from a closed set, for any method of a client.
    package var label: String { Self.usual.contains(self) ? rawValue : "other" }
}

extension Request {
    /// `OPTIONS *` asks the server and no resource (RFC 9110 section 9.3.7).
    package var asksTheServer: Bool { method == .options && head.path == "*" }
}

/// Whether a service can do its work now, and the state of each dependency.
package struct Readiness: Sendable, Equatable {
    package struct Check: Sendable, Equatable {
        package let name: String
        package let isOK: Bool
        /// What people read; shown to every client that reaches the operations port.
        package let detail: String

        package init(_ name: String, isOK: Bool, _ detail: String) {
            self.name = name
            self.isOK = isOK
            self.detail = detail
        }
    }

    package let checks: [Check]

    /// - Parameter checks: Names are unique.
    package init(_ checks: [Check]) { self.checks = checks }

    package var isReady: Bool { checks.allSatisfy(\.isOK) }

    /// `{"ready":true,"checks":{"<name>":{"ok":true,"detail":"…"}}}`
    package func json() -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.field("ready", isReady)
            writer.object("checks") { writer in
                for check in checks {
                    writer.object(check.name) { writer in
                        writer.field("ok", check.isOK)
                        writer.field("detail", check.detail)
                    }
                }
            }
        }
        return writer.bytes
    }
}

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
