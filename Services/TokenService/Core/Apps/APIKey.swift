package import PushModel

/// What an API key may do (DESIGN.md section 10). No scope includes another.
package enum Scope: String, Sendable, CaseIterable, Hashable {
    case devices, send, read, admin
}

/// A stored key, without its secret.
package struct APIKey: Equatable, Sendable {
    /// The middle part of the key's text.
    package let id: String
    /// The app it is bound to; nil for all.
    package let app: AppSlug?
    package let name: String
    package let scopes: Set<Scope>
    /// UNIX milliseconds, as all times below.
    package let createdAt: Int64
    package let expiresAt: Int64?
    package let revokedAt: Int64?
    package let lastUsedAt: Int64?
}

/// Who is calling: what remains of a key after it was found good.
package struct Caller: Equatable, Sendable {
    package let keyID: String
    package let app: AppSlug?
    package let scopes: Set<Scope>

    /// Whether the key is good for that app.
    package func mayUse(_ slug: AppSlug) -> Bool { app == nil || app == slug }
}
