import HTTPTypes
package import Hummingbird
package import Observability
package import TokenServiceApps

/// Binds every route of the table to its handler, behind ``AdmissionMiddleware``. Only the service's start uses it.
package final class APIRouter: RouteBinder {
    private let router: Router<APIRequestContext>
    private let admission: AdmissionMiddleware

    package init(admission: AdmissionMiddleware) {
        self.admission = admission
        router = Router(context: APIRequestContext.self, options: .autoGenerateHeadEndpoints)
        router.add(middleware: admission.observation)
    }

    package func on(_ route: APIRoute, _ handler: @escaping Handler) {
        let query = OpenAPIDocument.queryNames(of: route)
        let strict: Handler = { call in
            try call.allowQuery(query)
            return try await handler(call)
        }
        // HEAD as well: the router's own handler would state that a stream has no bytes.
        for method in route.method == .get ? [.get, .head] : [route.method] {
            router.on(RouterPath(route.path), method: method) { [admission] request, context in
                try await admission.answer(request, context, route, strict)
            }
        }
    }

    /// Binds a route that needs no key.
    func open(_ route: APIRoute, _ handler: @escaping @Sendable (Request, Parameters) throws -> Response) {
        router.on(RouterPath(route.path), method: route.method) { request, context in try handler(request, context.parameters) }
    }

    /// All bound routes, `METHOD /path`, as the router itself reports them.
    package var routes: [String] { router.routes.map { "\($0.method.rawValue) \($0.path)" } }

    /// Outside the limits: a monitor must get an answer from an overloaded process.
    package func mount(_ operations: OperationsRoutes) { operations.mount(on: router) }

    /// Call it last: it binds the answer of every path to the methods that the path does not take.
    package func responder() -> RouterResponder<APIRequestContext> {
        router.answerOtherMethods()
        return router.buildResponder()
    }
}
