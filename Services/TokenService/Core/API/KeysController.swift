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
        router.on(.revokeKey, revoke)
    }

    private struct NewKey {
        var app: String?
        var name: String
        var scopes: Set<Scope>
        var expiresAt: Int64?

        init?(_ body: inout JSONObjectReader) {
            app = body.optionalString("app", maximumBytes: 64)
            let name = body.string("name", maximumBytes: 100)
            let words = body.strings("scopes", maximumCount: Scope.allCases.count, maximumBytes: 16)
            scopes = Set((words ?? []).compactMap(Scope.init(rawValue:)))
            if let words, words.isEmpty || scopes.count != words.count {
                body.problem("scopes", "unsupported_value", "one or more of devices, send, read, admin, each once")
            }
            if let text = body.optionalString("expires_at", maximumBytes: 64) {
                expiresAt = RFC3339.milliseconds(text)
                if expiresAt == nil { body.problem("expires_at", "invalid_time", "an RFC 3339 date and time") }
            }
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
        let key = try await keys.insert(text, app: app, name: new.name, scopes: new.scopes, expiresAt: new.expiresAt)
        return JSONAnswer.response(.created) { Self.write(key, secret: text, to: &$0) }
    }

    @Sendable private func list(_ call: APICall) async throws -> Response {
        let all = try await keys.all()
        return JSONAnswer.response(.ok) { writer in
            writer.object { object in
                object.array("keys") { array in
                    for key in all { Self.write(key, secret: nil, to: &array) }
                }
            }
        }
    }

    @Sendable private func revoke(_ call: APICall) async throws -> Response {
        let id = try call.text("id", maximumBytes: 64)
        guard try await keys.revoke(id) else { throw APIError.notFound }
        authenticator.forget(id)
        return JSONAnswer.noContent
    }

    private static func write(_ key: APIKey, secret: APIKeyText?, to writer: inout JSONWriter) {
        writer.object { object in
            object.field("id", key.id)
            object.field("key", secret?.text)
            if let app = key.app { object.field("app", app.text) } else { object.null("app") }
            object.field("name", key.name)
            object.field("scopes", Scope.allCases.filter(key.scopes.contains).map(\.rawValue))
            object.time("created_at", key.createdAt)
            object.time("expires_at", key.expiresAt)
            object.time("revoked_at", key.revokedAt)
            object.time("last_used_at", key.lastUsedAt)
        }
    }
}

extension Optional {
    fileprivate func asyncFlatMap<Other>(_ transform: (Wrapped) async throws -> Other?) async rethrows -> Other? {
        guard let self else { return nil }
        return try await transform(self)
    }
}
