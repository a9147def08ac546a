package import PushModel
package import TokenServiceKit

/// The rights of an API key. No scope includes another.
package enum Scope: String, Sendable, CaseIterable, Hashable {
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
    package let scopes: Set<Scope>
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

    /// At the moment of reading, by the database's clock.
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
    package let scopes: Set<Scope>
    package let requestsPerSecond: Int?
    /// The caller is an app on a device, and may do only what ``APIRoute/isForDevices`` says.
    package var device: DeviceCredential?

    package init(keyID: String, app: AppSlug?, scopes: Set<Scope>, requestsPerSecond: Int?, device: DeviceCredential? = nil) {
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
    package static func forbidden(_ scopes: [Scope]) -> APIError {
        APIError(.forbidden, "this needs the scope \(scopes.map(\.rawValue).joined(separator: " or "))")
    }
}
