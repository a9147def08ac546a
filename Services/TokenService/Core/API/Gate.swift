import HTTPTypes
import Hummingbird
import PushModel

/// Lets a request in, or says why not. No key, no answer: every route of the table passes here.
struct Gate: Sendable {
    let authenticator: Authenticator
    let apps: AppStore

    let rates: RequestRates

    /// - Throws: ``APIError`` 401 without a live key.
    func caller(of request: Request) async throws -> Caller {
        guard let key = Self.key(of: request), let caller = try await authenticator.caller(key) else { throw APIError.unauthenticated }
        return caller
    }

    /// - Throws: ``APIError`` 403 without the scope, 404 for an app that is unknown or not this key's.
    func admit(_ caller: Caller, with request: Request, parameters: Parameters, to route: APIRoute) async throws -> APICall {
        guard route.scopes.contains(where: caller.scopes.contains) else { throw APIError.forbidden(route.scopes) }
        if route.isAdministrative, caller.app != nil {
            throw APIError(.forbidden, "forbidden", "Not allowed with this key", "this needs a key that is bound to no app")
        }
        guard route.isOfApp else { return APICall(request: request, parameters: parameters, caller: caller, app: nil, rates: rates) }
        guard let slug = parameters.get("app").flatMap({ AppSlug($0) }), caller.mayUse(slug), let app = try await apps.app(slug) else {
            throw APIError.notFound
        }
        return APICall(request: request, parameters: parameters, caller: caller, app: app, rates: rates)
    }

    private static func key(of request: Request) -> APIKeyText? {
        guard let header = request.headers.text(.authorization) else { return nil }
        let scheme = header.utf8.prefix { $0 != UInt8(ascii: " ") }
        guard scheme.elementsEqual("bearer".utf8, by: { $0 | 0x20 == $1 }) else { return nil }
        let key = header[scheme.endIndex...].utf8.drop { $0 == UInt8(ascii: " ") }
        guard !key.contains(UInt8(ascii: " ")) else { return nil }
        return APIKeyText(Substring(key))
    }
}
