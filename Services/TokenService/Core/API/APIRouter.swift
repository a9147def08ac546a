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

    func mount(_ operations: OperationsRoutes) { operations.mount(on: router) }

    func responder() -> RouterResponder<APIRequestContext> { router.buildResponder() }
}
