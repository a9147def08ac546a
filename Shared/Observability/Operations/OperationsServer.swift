import Hummingbird
import HummingbirdCore
package import Logging
import NIOCore
import ServiceLifecycle

/// Serves ``OperationsRoutes`` on a port of their own, until graceful shutdown.
///
/// Its clients can use only a bounded number of connections and a bounded time: the work itself needs descriptors.
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
