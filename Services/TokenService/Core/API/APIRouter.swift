import HTTPTypes
import Hummingbird
import Logging
import Observability

/// Binds every route of the table to its handler, behind the limits and the gate. Confined to whoever builds the service.
final class APIRouter {
    typealias Handler = @Sendable (APICall) async throws -> Response

    private let router: Router<APIRequestContext>
    private let entrance: Entrance
    private let observation: RequestObservation
    private var shortcuts: [APIResponder.Shortcut] = []

    init(gate: Gate, shedding: LoadShedding, metrics: TokenServiceMetrics, logger: Logger) {
        router = Router(context: APIRequestContext.self, options: .autoGenerateHeadEndpoints)
        observation = RequestObservation(metrics: metrics, logger: logger)
        router.add(middleware: observation)
        entrance = Entrance(gate: gate, shedding: shedding, metrics: metrics, observation: observation)
    }

    func on(_ route: APIRoute, _ handler: @escaping Handler) {
        // HEAD as well: the router's own would state that a stream has no bytes.
        for method in route.method == .get ? [.get, .head] : [route.method] {
            router.on(RouterPath(route.path), method: method) { [entrance] request, context in
                try await entrance.answer(request, context, route, handler)
            }
        }
        if APIResponder.frequent.contains(route) {
            shortcuts.append(APIResponder.Shortcut(template: RouteTemplate(route.path), route: route, handler: handler))
        }
    }

    /// Binds a route that needs no key.
    func open(_ route: APIRoute, _ handler: @escaping @Sendable (Request) -> Response) {
        router.on(RouterPath(route.path), method: route.method) { request, _ in handler(request) }
    }

    /// Everything that is bound, `METHOD /path`, as the router itself tells it.
    var routes: [String] { router.routes.map { "\($0.method.rawValue) \($0.path)" } }

    /// Beside the limits: whoever watches an overloaded process must get an answer.
    func mount(_ operations: OperationsRoutes) { operations.mount(on: router) }

    /// To be called last: it binds what every path answers to the methods that it does not take.
    func responder() -> APIResponder {
        router.answerOtherMethods()
        return APIResponder(shortcuts: shortcuts, entrance: entrance, observation: observation, router: router.buildResponder())
    }
}
