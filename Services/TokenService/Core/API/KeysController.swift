import Hummingbird
import PushModel
import StrictJSON

/// `/v1/admin/keys`
struct KeysController: Sendable {
    let keys: KeyStore
    let apps: AppStore
    let authenticator: Authenticator

    func bind(to router: APIRouter) {
        router.on(.createKey, create)
        router.on(.listKeys, list)
        router.on(.rotateKey, rotate)
        router.on(.revokeKey, revoke)
    }

    private struct NewKey {
        var app: String?
        var name: String
        var scopes: Set<Scope>
        var expiresAt: Int64?
        var requestsPerSecond: Int?

        init?(_ body: inout JSONObjectReader) {
            app = body.optionalString("app", maximumBytes: 64)
            let name = body.string("name", maximumBytes: 100)
            let words = body.strings("scopes", maximumCount: Scope.allCases.count, maximumBytes: 16)
            scopes = Set((words ?? []).compactMap(Scope.init(rawValue:)))
            if let words, words.isEmpty || scopes.count != words.count {
                body.problem("scopes", "unsupported_value", "one or more of devices, send, read, admin, each once")
            }
            expiresAt = body.expiry()
            requestsPerSecond = body.optionalInteger("requests_per_second", in: APIKey.requestsPerSecond).map { Int($0) }
            body.finish()
            guard let name else { return nil }
            self.name = name
        }
    }

    @Sendable private func create(_ call: APICall) async throws -> Response {
        let new = try await call.body().object { NewKey(&$0) }
        var app: App?
        if let slug = new.app {
            app = try await AppSlug(slug).asyncFlatMap { try await apps.app($0) }
            guard app != nil else {
                throw APIError.invalid([JSONProblem(pointer: "/app", code: "unknown_app", detail: "there is no such app")])
            }
        }
        let text = APIKeyText.generate()
        let key = try await keys.insert(
            text, app: app, name: new.name, scopes: new.scopes, expiresAt: new.expiresAt, requestsPerSecond: new.requestsPerSecond)
        return JSONAnswer.response(.created) { $0.object { key.write(secret: text, to: &$0) } }
    }

    @Sendable private func list(_ call: APICall) async throws -> Response {
        let all = try await keys.all()
        return JSONAnswer.response(.ok) { writer in
            writer.object { object in
                object.array("keys") { array in
                    for key in all { array.object { key.write(secret: nil, to: &$0) } }
                }
            }
        }
    }

    @Sendable private func revoke(_ call: APICall) async throws -> Response {
        let id = try call.text("id", maximumBytes: 64)
        // Also where it is not known whether it was done.
        defer { authenticator.forget(id) }
        guard try await keys.revoke(id) else { throw APIError.notFound }
        return JSONAnswer.noContent
    }

    @Sendable private func rotate(_ call: APICall) async throws -> Response {
        let id = try call.text("id", maximumBytes: 64)
        let rotation = try await call.body().object(allowsEmpty: true) { body -> KeyRotation? in
            let overlap = body.optionalInteger("overlap_seconds", in: KeyRotation.overlapSeconds)
            let expiresAt = body.expiry()
            body.finish()
            return KeyRotation(overlapSeconds: overlap ?? KeyRotation.defaultOverlapSeconds, expiresAt: expiresAt)
        }
        let text = APIKeyText.generate()
        defer { authenticator.forget(id) }
        guard let result = try await keys.rotate(id, to: text, rotation) else { throw APIError.notFound }
        switch result {
        case .rotated(let new, let old):
            return JSONAnswer.response(.created) { writer in
                writer.object { object in
                    new.write(secret: text, to: &object)
                    object.object("previous") { old.write(secret: nil, to: &$0) }
                }
            }
        case .over(let state):
            throw APIError(
                .conflict, "key_not_live", "The key is over", "a key that is \(state.rawValue) cannot be rotated: make a new one")
        case .alreadyRotated(let successor):
            throw APIError(
                .conflict, "key_already_rotated", "The key was rotated before",
                "\(successor) replaces it and is live: rotate that one, or revoke it first")
        }
    }
}

extension JSONObjectReader {
    /// `expires_at`, UNIX milliseconds.
    fileprivate mutating func expiry() -> Int64? {
        guard let text = optionalString("expires_at", maximumBytes: 64) else { return nil }
        let time = RFC3339.milliseconds(text)
        if time == nil { problem("expires_at", "invalid_time", "an RFC 3339 date and time") }
        return time
    }
}

extension APIKey {
    /// The fields of its object.
    fileprivate func write(secret: APIKeyText?, to object: inout JSONWriter) {
        object.field("id", id)
        object.field("key", secret?.text)
        if let app { object.field("app", app.text) } else { object.null("app") }
        object.field("name", name)
        object.field("scopes", Scope.allCases.filter(scopes.contains).map(\.rawValue))
        object.field("state", state.rawValue)
        object.field("requests_per_second", requestsPerSecond)
        object.field("rotated_from", rotatedFrom)
        object.time("created_at", createdAt)
        object.time("expires_at", expiresAt)
        object.time("revoked_at", revokedAt)
        object.time("last_used_at", lastUsedAt)
    }
}

extension Optional {
    fileprivate func asyncFlatMap<Other>(_ transform: (Wrapped) async throws -> Other?) async rethrows -> Other? {
        guard let self else { return nil }
        return try await transform(self)
    }
}
