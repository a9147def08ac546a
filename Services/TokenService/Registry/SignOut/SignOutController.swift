import Hummingbird
import PushModel
import StrictJSON
package import TokenServiceApps
import TokenServiceKit

/// Logout by installation, by token and by user; deregistration.
package struct SignOutController: Sendable {
    package let signOut: SignOut
    package let metrics: RegistryMetrics

    package init(signOut: SignOut, metrics: RegistryMetrics) {
        self.signOut = signOut
        self.metrics = metrics
    }

    package func bind(to router: some RouteBinder) {
        router.on(.logOut, logOut)
        router.on(.logOutToken, logOutToken)
        router.on(.logOutUser, logOutUser)
        router.on(.deregister, deregister)
        router.on(.deregisterToken, deregisterToken)
    }

    @Sendable private func logOut(_ call: APICall) async throws -> Response {
        let id = try call.id("id")
        let expected = try await call.body().object(allowsEmpty: true) { body -> ExpectedOwner? in
            let expected = body.expectedOwner()
            body.finish()
            return expected
        }
        let owner = call.owner(expected: expected)
        return answer(try await signOut.logOut(id, expected: owner, app: call.app()), of: id)
    }

    @Sendable private func logOutToken(_ call: APICall) async throws -> Response {
        let named = try await Self.namedToken(call)
        let result = try await signOut.logOut(
            token: named.token, environment: named.environment, expected: named.expected, app: call.app())
        return answer(result, of: result.installation)
    }

    @Sendable private func deregisterToken(_ call: APICall) async throws -> Response {
        let named = try await Self.namedToken(call)
        try await signOut.deregister(
            token: named.token, environment: named.environment, expected: named.expected, app: call.app())
        return JSONAnswer.noContent
    }

    /// Reads the token from the body, never from the path: an access log must not show tokens.
    private static func namedToken(
        _ call: APICall
    ) async throws -> (token: DeviceToken, environment: APNsEnvironment?, expected: ExpectedOwner) {
        try await call.body().object { body in
            let token = body.token("token")
            let environment = body.optionalChoice("environment", of: APNsEnvironment.self)
            let expected = body.expectedOwner()
            body.finish()
            return token.map { ($0, environment, expected) }
        }
    }

    @Sendable private func logOutUser(_ call: APICall) async throws -> Response {
        let user = try call.text("user", maximumBytes: StatedUser.maximumBytes)
        let except = try await call.body().object(allowsEmpty: true) { body -> PushID?? in
            let text = body.optionalString("except", maximumBytes: 36)
            let id = text.flatMap { PushID($0) }
            if text != nil, id == nil { body.problem("except", "invalid_id", "a UUID") }
            body.finish()
            return .some(id)
        }
        let result = try await signOut.logOut(user: user, except: except, app: call.app())
        metrics.signedOut(result.count)
        return JSONAnswer.response(.ok, SignOut.userResponse, result)
    }

    @Sendable private func deregister(_ call: APICall) async throws -> Response {
        let id = try call.id("id")
        // In the query: a proxy may drop the body of a DELETE, and the guard with it.
        let user = try call.words("expected_user", maximumBytes: StatedUser.maximumBytes)
        let expected = user.map { ExpectedOwner.exactly($0) } ?? .anyone
        let owner = call.owner(expected: expected)
        try await signOut.deregister(id, expected: owner, app: call.app())
        return JSONAnswer.noContent
    }

    private func answer(_ result: SignOut.Result, of installation: PushID?) -> Response {
        metrics.signedOut(result.count)
        return JSONAnswer.response(.ok, SignOut.response, (installation, result))
    }
}

extension SignOut {
    static let request = JSONSchema.request("ExpectedOwner", [expectedUser])
    static let ofToken = JSONSchema.request("NamedTokenOfUser", TokenSearch.named + [expectedUser])
    static let ofUser = JSONSchema.request("UserLogout", [.omissible("except", .uuid, "The installation that stays signed in.")])

    static let response = ResponseSchema<(installation: PushID?, result: Result)>.object(
        "SignOut",
        [
            .nullable("id", .uuid, "Null where a token named no installation.") { $0.installation },
            .required("signed_out", .boolean, "False if no user was signed in.") { $0.result.signedOut },
            .required("owner_epoch", .count) { $0.result.ownerEpoch },
            .required("fence", .fence) { $0.result.fence },
        ])
    static let userResponse = ResponseSchema<Result>.object(
        "UserSignOut",
        [.required("signed_out", .count, "How many installations.") { $0.count }, .required("fence", .fence) { $0.fence }])

    private static let expectedUser = JSONSchema.Field.optional(
        "expected_user", .user.orNull, "Refuse with 409 unless this user is signed in now, or no user.")
}
