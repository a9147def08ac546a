package import PushModel
import StrictJSON
package import TokenServiceKit

/// The rights of an API key. No scope includes another.
package enum KeyScope: String, Sendable, CaseIterable, Hashable {
    case devices, send, read, admin
}

/// A stored key, without its secret.
package struct APIKey: Equatable, Sendable {
    package static let requestsPerSecond: ClosedRange<Int64> = 1...1_000_000

    /// The middle part of the key's text.
    package let id: String
    /// The app it is bound to; nil for all.
    package let app: AppSlug?
    package let name: String
    package let scopes: Set<KeyScope>
    /// UNIX milliseconds, as all times below.
    package let createdAt: Int64
    package let expiresAt: Int64?
    package let revokedAt: Int64?
    package let lastUsedAt: Int64?
    /// The key that this one replaces.
    package let rotatedFrom: String?
    /// The key that made it; nil: a setting of the service did.
    package let createdBy: String?
    package let revokedBy: String?
    /// Instead of the service's own limit; nil for that.
    package let requestsPerSecond: Int?
    package let state: State

    /// The key's state at the moment of reading, by the database's clock.
    package enum State: String, Sendable, CaseIterable {
        case live
        /// Live, and over within thirty days, which is the longest overlap of a rotation.
        case expiring
        case expired, revoked
    }
}

/// The caller: the part of a key that is kept after it was found good.
package struct Caller: Equatable, Sendable {
    package let keyID: String
    package let app: AppSlug?
    package let scopes: Set<KeyScope>
    package let requestsPerSecond: Int?
    /// The caller is an app on a device, and may do only what ``APIRoute/isForDevices`` says.
    package var device: DeviceCredentialClaims?

    package init(keyID: String, app: AppSlug?, scopes: Set<KeyScope>, requestsPerSecond: Int?, device: DeviceCredentialClaims? = nil) {
        self.keyID = keyID
        self.app = app
        self.scopes = scopes
        self.requestsPerSecond = requestsPerSecond
        self.device = device
    }

    /// Whether the key is good for that app.
    package func mayUse(_ slug: AppSlug) -> Bool { app == nil || app == slug }

    /// The queue in which its requests wait for the database (`PostgresPool.queue`): the app's, or one of its own if it is bound to no app.
    package var queue: String { app?.text ?? keyID }
}

extension APIError {
    package static func forbidden(_ scopes: [KeyScope]) -> APIError {
        APIError(.forbidden, "this needs the scope \(scopes.map(\.rawValue).joined(separator: " or "))")
    }
}

/// A request to make a key.
struct NewKey {
    /// The app as the caller gave it: it may not exist.
    var app: String?
    var name = ""
    var scopes: [KeyScope] = []
    /// UNIX milliseconds; nil for never.
    var expiresAt: Int64?
    var requestsPerSecond: Int?

    static let fields = Fields<NewKey>([
        .omissible("app", \.app, .text(64, .slug), "The app that the key is bound to; null for all."),
        .required("name", \.name, .text(100, APIKey.keyName)),
        .required("scopes", \.scopes, APIKey.scopeList, APIKey.scopeRule),
        .omissible("expires_at", \.expiresAt, .time, "When the key ends; null for never."),
        .omissible(
            "requests_per_second", \.requestsPerSecond, .integer(APIKey.requestsPerSecond),
            "Instead of the service's own limit, of each instance."),
    ])
}

extension KeyRotation {
    static let fields = Fields<KeyRotation>([
        .omissible(
            "overlap_seconds", \.overlapSeconds, .integer(overlapSeconds), "How long the older key lives on, at most.",
            standard: defaultOverlapSeconds),
        .omissible("expires_at", \.expiresAt, .time, "When the new key ends; null for never."),
    ])
}

extension APIKey {
    static let new = JSONSchema.request("NewKey", NewKey.fields.described)
    static let rotation = JSONSchema.request("KeyRotation", KeyRotation.fields.described)

    /// Writes a key, with its secret if it was just made.
    static let made = ResponseSchema<(key: APIKey, secret: APIKeyText?)>.object("Key", fields)
    static let list = ResponseSchema<[APIKey]>.object("Keys", [.required("keys", .array(made)) { $0.map { ($0, nil) } }])
    static let rotated = ResponseSchema<(key: APIKey, secret: APIKeyText, previous: APIKey)>.object(
        "RotatedKey",
        [
            .all(fields) { ($0.key, $0.secret) },
            .required("previous", made, "The older key, as it is now.") { ($0.previous, nil) },
        ])

    private static let fields: [ResponseSchema<(key: APIKey, secret: APIKeyText?)>.Field] = [
        .required("id", .text(.keyID)) { $0.key.id },
        .optional("key", .text(keyText), "The key itself; only in the answer that made it.") { $0.secret?.text },
        .nullable("app", .slug, "The app that it is bound to; null for all.") { $0.key.app },
        .required("name", .text(keyName)) { $0.key.name },
        .required("scopes", .array(.word, scopeList.schema), scopeRule) { made in KeyScope.allCases.filter(made.key.scopes.contains) },
        .required("state", .word, "`expiring`: live, and over within thirty days.") { $0.key.state },
        .optional("requests_per_second", .integer(.integer(requestsPerSecond)), "Its own limit, where it has one.") {
            $0.key.requestsPerSecond
        },
        .optional("rotated_from", .text(.keyID), "The key that it replaces.") { $0.key.rotatedFrom },
        .required("created_at", .time) { $0.key.createdAt },
        .optional("created_by", .text(.keyID), "The key that made it; absent: the service, from its settings.") { $0.key.createdBy },
        .optional("expires_at", .time) { $0.key.expiresAt },
        .optional("revoked_at", .time) { $0.key.revokedAt },
        .optional("revoked_by", .text(.keyID), "The key that revoked it.") { $0.key.revokedBy },
        .optional("last_used_at", .time, "Exact to the minute.") { $0.key.lastUsedAt },
    ]

    fileprivate static let keyName = JSONSchema.string(100).example("backend of the shop")
    fileprivate static let scopeRule = "What the key may do; no scope includes another."
    fileprivate static let scopeList = RequestSchema<[KeyScope]>.words(minimum: 1, "one or more of devices, send, read, admin, each once")
        .example(.texts(["devices", "send"]))
    private static let keyText = JSONSchema.string(pattern: "^psh_[0-9a-f]{16}_[0-9a-f]{48}$")
        .example(.text("psh_0123456789abcdef_" + String(repeating: "0", count: 48)))
}
