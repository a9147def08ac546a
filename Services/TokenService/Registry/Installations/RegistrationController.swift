import HTTPTypes
import Hummingbird
import PushModel
import StrictJSON
package import TokenServiceApps
import TokenServiceKit

/// `PUT` and `PATCH /v1/apps/{app}/installations/{id}`, and `PUT …/tags`
package struct RegistrationController: Sendable {
    package let registration: InstallationRegistration
    package let metrics: RegistryMetrics

    package init(registration: InstallationRegistration, metrics: RegistryMetrics) {
        self.registration = registration
        self.metrics = metrics
    }

    package func bind(to router: some RouteBinder) {
        router.on(.register, register)
        router.on(.change, change)
        router.on(.setTags, setTags)
    }

    @Sendable private func register(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let id = try call.id("id")
        var wanted = try await call.body().object { Registration(&$0, installation: id, app: app) }
        wanted.precondition = try call.precondition()
        wanted.expectedOwner = try call.owner(expected: wanted.expectedOwner, stating: wanted.user)
        let result = try await registration.register(wanted, app: app)
        return registered(result, app: app)
    }

    @Sendable private func change(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let id = try call.id("id")
        let precondition = try call.precondition()
        var patch = try await call.body().object {
            InstallationPatch(&$0, installation: id, app: app, precondition: precondition)
        }
        patch.expectedOwner =
            if case .set(let user) = patch.user {
                try call.owner(expected: patch.expectedOwner, stating: user)
            } else {
                call.owner(expected: patch.expectedOwner)
            }
        let result = try await registration.change(patch, app: app)
        return registered(result, app: app)
    }

    /// No device may call it, and the app's client library has no request for it.
    @Sendable private func setTags(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let id = try call.id("id")
        let precondition = try call.precondition()
        let assignment = try await call.body().object { TagAssignment(&$0, installation: id, precondition: precondition) }
        return answer(try await registration.tag(assignment, app: app), app: app)
    }

    private func registered(_ result: InstallationRegistration.Result, app: App) -> Response {
        metrics.registered(isNew: result.isNew)
        return answer(result, app: app)
    }

    private func answer(_ result: InstallationRegistration.Result, app: App) -> Response {
        JSONAnswer.response(
            result.isNew ? .created : .ok, InstallationRecord.registered, OfApp(app: app.slug, value: result),
            headers: [.eTag: result.record.etag])
    }
}

extension APICall {
    /// `If-Match` (RFC 9110 section 13.1.1). Our tags are strong, so a weak one never matches.
    fileprivate func precondition() throws -> Precondition {
        switch EntityTags(.ifMatch, of: request.headers) {
        case nil: return .none
        case .any: return .exists
        case .listed(let tags): return .matches(try Self.wellFormed(tags))
        }
    }

    private static func wellFormed(_ tags: [String]) throws -> [String] {
        guard tags.allSatisfy({ $0.count >= 2 && ($0.hasPrefix("\"") || $0.hasPrefix("W/\"")) && $0.hasSuffix("\"") }) else {
            throw APIError.invalid("If-Match", .invalidEntityTag, "must be * or entity tags in quotes, separated by commas")
        }
        return tags
    }
}

/// What a device credential adds to a call (``Caller/device``).
extension APICall {
    /// The owner that the registry must find.
    /// - Parameter expected: The owner that the request expects; a device's credential says more.
    package func owner(expected: ExpectedOwner) -> ExpectedOwner {
        caller.device.map { .device($0, expecting: expected) } ?? expected
    }

    /// The owner that the registry must find, for a request that states the owner.
    /// - Throws: ``APIError`` 403 if a device states another user than its credential's.
    func owner(expected: ExpectedOwner, stating user: String?) throws -> ExpectedOwner {
        if let device = caller.device, !device.user.hasSameBytes(as: user) {
            throw APIError(.forbidden, "a device credential registers its own user, and this names another one")
        }
        return owner(expected: expected)
    }
}
