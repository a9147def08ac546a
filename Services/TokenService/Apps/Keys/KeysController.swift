import HTTPTypes
import Hummingbird
import PushModel
import StrictJSON
import TokenServiceKit

/// `/v1/admin/keys`
package struct KeysController: Sendable {
    package let keys: KeyStore
    package let apps: AppStore
    package let authenticator: Authenticator

    package init(keys: KeyStore, apps: AppStore, authenticator: Authenticator) {
        self.keys = keys
        self.apps = apps
        self.authenticator = authenticator
    }

    package func bind(to router: some RouteBinder) {
        router.on(.createKey, create)
        router.on(.listKeys, list)
        router.on(.readKey, read)
        router.on(.rotateKey, rotate)
        router.on(.revokeKey, revoke)
    }

    @Sendable private func create(_ call: APICall) async throws -> Response {
        let new = try await call.body().object { NewKey.fields.read(&$0, from: NewKey()) }
        var app: App?
        if let slug = new.app {
            app = try await AppSlug(slug).asyncFlatMap { try await apps.app($0) }
            guard app != nil else {
                throw APIError.invalid([JSONProblem(pointer: "/app", code: "unknown_app", detail: "there is no such app")])
            }
        }
        let text = APIKeyText.generate()
        let key = try await keys.insert(
            text, app: app, name: new.name, scopes: Set(new.scopes), expiresAt: new.expiresAt, requestsPerSecond: new.requestsPerSecond,
            by: call.actor)
        return JSONAnswer.response(.created, APIKey.made, (key, text))
    }

    @Sendable private func list(_ call: APICall) async throws -> Response {
        JSONAnswer.response(.ok, APIKey.list, try await keys.all())
    }

    /// The caller's own key.
    @Sendable private func read(_ call: APICall) async throws -> Response {
        // Revoked and forgotten within the last seconds, though this process still remembers it.
        guard let key = try await keys.key(call.caller.keyID) else { throw APIError.unauthenticated }
        return JSONAnswer.response(.ok, APIKey.made, (key, nil))
    }

    @Sendable private func revoke(_ call: APICall) async throws -> Response {
        let id = try call.text("id", maximumBytes: 64)
        // Also if it is not known whether the change happened.
        defer { authenticator.forget(id) }
        try await keys.revoke(id, by: call.actor)
        return JSONAnswer.noContent
    }

    @Sendable private func rotate(_ call: APICall) async throws -> Response {
        let id = try call.text("id", maximumBytes: 64)
        let rotation = try await call.body().object(allowsEmpty: true) { KeyRotation.fields.read(&$0, from: KeyRotation()) }
        let text = APIKeyText.generate()
        defer { authenticator.forget(id) }
        let rotated = try await keys.rotate(id, to: text, rotation, by: call.actor)
        return JSONAnswer.response(.created, APIKey.rotated, (rotated.new, text, rotated.old))
    }
}

extension Optional {
    fileprivate func asyncFlatMap<Other>(_ transform: (Wrapped) async throws -> Other?) async rethrows -> Other? {
        guard let self else { return nil }
        return try await transform(self)
    }
}

extension APIRoute {
    package static let createKey = APIRoute(.post, "/v1/admin/keys", .admin, audit: .keyCreated)
    package static let listKeys = APIRoute(.get, "/v1/admin/keys", .admin)
    package static let readKey = APIRoute(.get, "/v1/key", .devices, .send, .read, .admin)
    package static let rotateKey = APIRoute(.post, "/v1/admin/keys/{id}/rotate", .admin, audit: .keyRotated)
    package static let revokeKey = APIRoute(.delete, "/v1/admin/keys/{id}", .admin, audit: .keyRevoked)
}

extension Resource {
    package static let keys = Resource(
        "Keys", "API keys. Only a digest of a key is stored; the key itself is shown once, when it is made.",
        [create, list, read, rotate, revoke])

    private static let create = Operation(
        .createKey, "createKey", "Make a key", "The answer is the only place where the key is shown.",
        request: .json(APIKey.new), answers: [Answer(201, "Made.", .json(APIKey.made))])

    private static let list = Operation(
        .listKeys, "listKeys", "All keys", "Without their secrets.", answers: [Answer(200, "By age, the oldest first.", .json(APIKey.list))]
    )

    private static let read = Operation(
        .readKey, "readKey", "The key of the request", "What the caller's own key may do.",
        answers: [Answer(200, "The key, without its secret.", .json(APIKey.made))])

    private static let rotate = Operation(
        .rotateKey, "rotateKey", "Replace a key", "Makes a key with the same rights; both live until the older one ends.",
        request: .json(APIKey.rotation, isRequired: false),
        answers: [Answer(201, "Made. The older key is in `previous`.", .json(APIKey.rotated))],
        problems: [.notFound, .keyNotLive, .keyAlreadyRotated])

    private static let revoke = Operation(
        .revokeKey, "revokeKey", "Revoke a key", "At once here; other instances notice within five seconds.",
        answers: [Answer(204, "It is over.")], problems: [.notFound])

}
