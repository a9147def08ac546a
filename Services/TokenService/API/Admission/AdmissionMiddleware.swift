import HTTPTypes
import Hummingbird
import NIOCore
package import NIOHTTP1
import Observability
import Postgres
import PushModel
import Synchronization
package import TokenServiceApps
import TokenServiceKit
import TokenServiceRegistry

extension AdmissionLimits {
    fileprivate func admit(_ caller: Caller) throws(APIError) -> Admission {
        let place = try callers.enter(caller)
        try shedding.begin()
        return Admission(place, shedding)
    }
}

/// A request that was let in. It counts among the others until it ends in any way.
final class Admission: Sendable {
    private let place: SharedLimit.Place
    private let shedding: LoadShedding
    private let isOver = Atomic<Bool>(false)

    /// - Parameter shedding: Has counted the request in.
    init(_ place: SharedLimit.Place, _ shedding: LoadShedding) {
        self.place = place
        self.shedding = shedding
    }

    func end() {
        guard !isOver.exchange(true, ordering: .relaxed) else { return }
        shedding.end()
        place.end()
    }

    /// Ends when the answer is over: a small one when it is made, a large one when the client has taken all of it but what the connection
    /// buffers. Clients that take no answers would otherwise fill the memory with them. A stream has a place of its own.
    func held(by answer: ResponseBody) -> ResponseBody {
        guard let size = answer.contentLength, size > CallBody.maximumBytes else {
            end()
            return answer
        }
        return ResponseBody(contentLength: size) { writer in
            defer { self.end() }
            try await answer.write(WriterOfPieces(writer))
        }
    }

    deinit { end() }
}

/// Writes each buffer as copies of its pieces. The connection keeps a buffer until its last byte has gone, and the writer waits while the
/// connection has much to send: so the connection keeps two pieces at most of an answer, and not the whole answer.
struct WriterOfPieces: ResponseBodyWriter {
    private static let maximumBytes = 65_536

    private var whole: any ResponseBodyWriter

    init(_ whole: any ResponseBodyWriter) { self.whole = whole }

    @concurrent mutating func write(_ buffer: ByteBuffer) async throws {
        var rest = buffer
        while rest.readableBytes > 0, let piece = rest.readSlice(length: min(rest.readableBytes, Self.maximumBytes)) {
            // A slice would keep the whole.
            try await whole.write(ByteBuffer(bytes: piece.readableBytesView))
        }
    }

    @concurrent consuming func finish(_ trailingHeaders: HTTPFields?) async throws { try await whole.finish(trailingHeaders) }
}

/// What the limits say to one request of a caller.
package struct AdmissionDecision: Sendable {
    /// The request's own field: by it the caller was found.
    let authorization: String
    let caller: Caller
    /// Nil for a key without a rate.
    let quota: TokenBucket.Quota?
    let result: Result<Admission, APIError>
}

/// Runs before the handler of every route that needs a key. The order of the checks: the caller, then its rate and its share, which other
/// callers never use up, then the room that all share, then its rights. All but the last are made by the connection if it can make them by
/// the request's head (``decision(on:)``).
package struct AdmissionMiddleware: Sendable {
    package let authenticator: Authenticator
    /// Nil: no device credential is good.
    package let deviceKeys: DeviceCredentialKeys?
    package let apps: AppStore
    package let limits: AdmissionLimits
    package let metrics: LimitMetrics
    package let observation: RequestObservation

    package init(
        authenticator: Authenticator, deviceKeys: DeviceCredentialKeys?, apps: AppStore, limits: AdmissionLimits, metrics: LimitMetrics,
        observation: RequestObservation
    ) {
        self.authenticator = authenticator
        self.deviceKeys = deviceKeys
        self.apps = apps
        self.limits = limits
        self.metrics = metrics
        self.observation = observation
    }

    func answer(
        _ request: Request, _ context: APIRequestContext, _ route: APIRoute, _ handler: APIRouter.Handler
    ) async throws -> Response {
        let decision = try await decision(on: request, context)
        var response: Response
        do {
            let admission = try decision.result.get()
            do {
                response = try await PostgresPool.$queue.withValue(decision.caller.queue) {
                    try await handler(authorized(request, context, decision.caller, route))
                }
            } catch {
                admission.end()
                throw error
            }
            response.body = admission.held(by: response.body)
        } catch {
            // The answer is made here so that a refusal also carries the key's remaining rate.
            response = observation.refusal(error, context)
        }
        decision.quota?.write(to: &response.headers)
        return response
    }

    /// - Throws: ``APIError`` 401, or an error of the look-up.
    private func decision(on request: Request, _ context: APIRequestContext) async throws -> AdmissionDecision {
        guard let authorization = request.headers.text(.authorization) else { throw APIError.unauthenticated }
        if let made = context.decision, made.authorization == authorization { return made }
        guard let text = Self.bearer(authorization) else { throw APIError.unauthenticated }
        let caller = if let key = APIKeyText(Substring(text)) { try await authenticator.caller(key) } else { device(text) }
        guard let caller else { throw APIError.unauthenticated }
        return decide(caller, authorization)
    }

    /// Decides on a request by its head, without waiting, and counts the answer if it is a refusal. Nil if ``answer(_:_:_:_:)`` has to
    /// decide: the route may need no key, or the caller is not known by what is in memory.
    package func decision(on head: HTTPRequestHead) -> AdmissionDecision? {
        // All routes that need a key begin so, and no other does. The answer to HEAD has no content.
        guard head.uri.utf8.starts(with: "/v1/".utf8), head.method != .HEAD else { return nil }
        let fields = head.headers["Authorization"]
        guard fields.count == 1, let text = Self.bearer(fields[0]) else { return nil }
        let caller = if let key = APIKeyText(Substring(text)) { authenticator.rememberedCaller(key) } else { device(text) }
        guard let caller else { return nil }
        let decision = decide(caller, fields[0])
        if case .failure(let refusal) = decision.result {
            let method = HTTPRequest.Method(head.method.rawValue)?.label ?? "other"
            observation.metrics.answered(route: "none", method: method, status: refusal.status.code, took: .zero)
        }
        return decision
    }

    private func decide(_ caller: Caller, _ authorization: String) -> AdmissionDecision {
        let quota = limits.rates.take(caller)
        let result: Result<Admission, APIError>
        if let quota, !quota.isWithin {
            metrics.limited(.rate)
            result = .failure(.rateLimited(quota))
        } else {
            do throws(APIError) { result = .success(try limits.admit(caller)) } catch { result = .failure(error) }
        }
        return AdmissionDecision(authorization: authorization, caller: caller, quota: quota, result: result)
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
            throw APIError(.forbidden, "this needs a key that is bound to no app")
        }
        var app: App?
        if route.isOfApp {
            guard let slug = context.parameters.get("app").flatMap({ AppSlug($0) }), caller.mayUse(slug) else { throw APIError.notFound }
            app = try await apps.app(slug)
            guard app != nil else { throw APIError.notFound }
        }
        return APICall(request: request, parameters: context.parameters, caller: caller, app: app, limits: limits)
    }

    private func device(_ credential: String) -> Caller? { deviceKeys?.verify(credential).map { device in Caller(device) } }

    /// - Throws: ``APIError`` 403 for other routes, 404 for another installation, 401 if it has expired. Only a sign-out is still taken
    ///   then, because the person may have signed out while the device was offline.
    private static func check(_ device: DeviceCredentialClaims, for route: APIRoute, _ context: APIRequestContext) throws {
        guard route.isForDevices else {
            throw APIError(.forbidden, "a device credential is for registering and signing out its own installation")
        }
        guard context.parameters.get("id").flatMap({ PushID($0) }) == device.installation else { throw APIError.notFound }
        let left = device.expiresAt - UnixTime.milliseconds()
        let isGood =
            route == .logOut ? left > -DeviceCredentialClaims.signOutPatience : left > 0 && left <= DeviceCredentialClaims.longestLife
        guard isGood else { throw APIError.credentialExpired }
    }

    private static func bearer(_ header: String) -> String? {
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
    init(_ device: DeviceCredentialClaims) {
        self.init(
            keyID: "device \(device.app) \(device.installation)", app: device.app, scopes: [], requestsPerSecond: Self.requestsOfDevice,
            device: device)
    }
}
