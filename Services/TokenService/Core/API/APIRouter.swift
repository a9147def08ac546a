import HTTPTypes
import Hummingbird
import Logging
import Observability

/// Binds every route of the table to its handler, behind the gate.
struct APIRouter {
    typealias Handler = @Sendable (APICall) async throws -> Response

    private let router: Router<APIRequestContext>
    private let gate: Gate

    init(gate: Gate, metrics: TokenServiceMetrics, logger: Logger) {
        router = Router(context: APIRequestContext.self)
        router.add(middleware: RequestObservation(metrics: metrics, logger: logger))
        self.gate = gate
    }

    func on(_ route: APIRoute, _ handler: @escaping Handler) {
        router.on(RouterPath(route.path), method: route.method) { [gate] request, context in
            try await handler(gate.admit(request, parameters: context.parameters, to: route))
        }
    }

    /// Binds a route that needs no key, to be asked by GET and by HEAD.
    func open(_ route: APIRoute, _ handler: @escaping @Sendable (Request) -> Response) {
        router.on(RouterPath(route.path), method: route.method) { request, _ in handler(request) }
        router.on(RouterPath(route.path), method: .head) { request, _ in handler(request).createHeadResponse() }
    }

    /// Everything that is bound, `METHOD /path`, as the router itself tells it.
    var routes: [String] { router.routes.map { "\($0.method.rawValue) \($0.path)" } }

    func mount(_ operations: OperationsRoutes) { operations.mount(on: router) }

    func responder() -> RouterResponder<APIRequestContext> { router.buildResponder() }
}
