import HTTPTypes
import Hummingbird
import Postgres
import PushModel

/// The limits that a request meets at its admission, and again when its body is read.
struct AdmissionLimits: Sendable {
    let rates: RequestRates
    /// Requests of each caller, from their admission to their answer.
    let callers: SharedLimit
    let shedding: LoadShedding
    /// Bytes of large bodies.
    let bodies: SharedLimit
}

/// Runs before the handler of every route that needs a key. The order of the checks: the caller, then its rate and its share, which other
/// callers never use up, then the room that all share, then its rights.
struct AdmissionMiddleware: Sendable {
    let authenticator: Authenticator
    /// Nil: no device credential is good.
    let deviceKeys: DeviceCredentialKeys?
    let apps: AppStore
    let limits: AdmissionLimits
    let metrics: TokenServiceMetrics
    let observation: RequestObservation

    func answer(
        _ request: Request, _ context: APIRequestContext, _ route: APIRoute, _ handler: APIRouter.Handler
    ) async throws -> Response {
        guard let caller = try await caller(of: request) else { throw APIError.unauthenticated }
        guard let quota = limits.rates.take(caller) else { return try await handle(request, context, caller, route, handler) }
        var response: Response
        do {
            guard quota.isWithin else {
                metrics.limited(.rate)
                throw APIError.rateLimited(quota)
            }
            response = try await handle(request, context, caller, route, handler)
        } catch {
            // The answer is made here so that a refusal also carries the key's remaining rate.
            response = observation.refusal(error, context)
        }
        quota.write(to: &response.headers)
        return response
    }

    private func handle(
        _ request: Request, _ context: APIRequestContext, _ caller: Caller, _ route: APIRoute, _ handler: APIRouter.Handler
    ) async throws -> Response {
        let place = try limits.callers.enter(caller)
        defer { place.end() }
        try limits.shedding.begin()
        defer { limits.shedding.end() }
        return try await PostgresPool.$queue.withValue(caller.queue) {
            try await handler(authorized(request, context, caller, route))
        }
    }

    /// - Throws: ``APIError`` 403 without the scope, 404 for an app that is unknown or not this key's.
    private func authorized(
        _ request: Request, _ context: APIRequestContext, _ caller: Caller, _ route: APIRoute
    ) async throws -> APICall {
        if let device = caller.device {
            try Self.check(device, for: route, context)
        } else {
            guard route.scopes.contains(where: caller.scopes.contains) else { throw APIError.forbidden(route.scopes) }
        }
        if route.isAdministrative, caller.app != nil {
            throw APIError(.forbidden, "forbidden", "Not allowed with this key", "this needs a key that is bound to no app")
        }
        var app: App?
        if route.isOfApp {
            guard let slug = context.parameters.get("app").flatMap({ AppSlug($0) }), caller.mayUse(slug) else { throw APIError.notFound }
            app = try await apps.app(slug)
            guard app != nil else { throw APIError.notFound }
        }
        return APICall(request: request, parameters: context.parameters, caller: caller, app: app, limits: limits)
    }

    private func caller(of request: Request) async throws -> Caller? {
        guard let text = Self.bearer(of: request) else { return nil }
        if let key = APIKeyText(Substring(text)) { return try await authenticator.caller(key) }
        return deviceKeys?.verify(text).map { device in Caller(device) }
    }

    /// - Throws: ``APIError`` 403 for other routes, 404 for another installation, 401 if it has expired. Only a sign-out is still taken then,
    ///   because the person may have signed out while the device was offline.
    private static func check(_ device: DeviceCredential, for route: APIRoute, _ context: APIRequestContext) throws {
        guard route.isForDevices else {
            throw APIError(
                .forbidden, "forbidden", "Not allowed with this key",
                "a device credential is for registering and signing out its own installation")
        }
        guard context.parameters.get("id").flatMap({ PushID($0) }) == device.installation else { throw APIError.notFound }
        let left = device.expiresAt - UnixTime.milliseconds()
        let isGood = route == .logOut ? left > -DeviceCredential.signOutPatience : left > 0 && left <= DeviceCredential.longestLife
        guard isGood else { throw APIError.credentialExpired }
    }

    private static func bearer(of request: Request) -> String? {
        guard let header = request.headers.text(.authorization) else { return nil }
        let scheme = header.utf8.prefix { $0 != UInt8(ascii: " ") }
        guard scheme.elementsEqual("bearer".utf8, by: { $0 | 0x20 == $1 }) else { return nil }
        let key = header[scheme.endIndex...].utf8.drop { $0 == UInt8(ascii: " ") }
        return key.contains(UInt8(ascii: " ")) ? nil : String(Substring(key))
    }
}

extension Caller {
    /// A device registers at its launch. More in a second is a fault of the app.
    private static let requestsOfDevice = 10

    /// Another app may have an installation of the same id. It is another caller, with a rate and a share of its own.
    init(_ device: DeviceCredential) {
        self.init(
            keyID: "device \(device.app) \(device.installation)", app: device.app, scopes: [], requestsPerSecond: Self.requestsOfDevice,
            device: device)
    }
}
