import Hummingbird
package import Postgres
import PushModel
import StrictJSON
package import TokenServiceApps
import TokenServiceKit

/// `POST /v1/apps/{app}/device-credentials`
package struct DeviceCredentialsController: Sendable {
    package let pool: PostgresPool
    /// Nil: none are made.
    package let keys: DeviceCredentialKeys?

    package init(pool: PostgresPool, keys: DeviceCredentialKeys?) {
        self.pool = pool
        self.keys = keys
    }

    package func bind(to router: some RouteBinder) { router.on(.makeDeviceCredential, make) }

    @Sendable private func make(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let wanted = try await call.body().object { WantedCredential(&$0) }
        guard let keys else {
            throw APIError(.deviceCredentialsOff, "the operator has to set DEVICE_CREDENTIAL_KEYS_FILE")
        }
        let (epoch, issuedAt) = try await pool.session { session in
            try InstallationStore(session: session, app: app).beginning(ofCredentialFor: wanted.user, at: wanted.installation)
        }
        let credential = DeviceCredentialClaims(
            app: app.slug, installation: wanted.installation, user: wanted.user, ownerEpoch: epoch, issuedAt: issuedAt,
            expiresAt: UnixTime.milliseconds() + wanted.lifetimeSeconds * 1000)
        return JSONAnswer.response(.created, DeviceCredentialClaims.response, (credential, keys.text(credential)))
    }
}

private struct WantedCredential {
    let installation: PushID
    let user: String?
    let lifetimeSeconds: Int64

    init?(_ body: inout JSONObjectReader) {
        let text = body.string("installation", maximumBytes: 36)
        let installation = text.flatMap { PushID($0) }
        if text != nil, installation == nil { body.problem("installation", "invalid_id", "a UUID") }
        let user = body.nullableUser("user")
        lifetimeSeconds =
            body.optionalInteger("lifetime_seconds", in: DeviceCredentialClaims.lifetimes) ?? DeviceCredentialClaims.standardLifetime
        body.finish()
        guard let installation, let user else { return nil }
        self.installation = installation
        self.user = user.name
    }
}

extension DeviceCredentialClaims {
    /// Seconds.
    static let standardLifetime: Int64 = 3600

    static let request = JSONSchema.request(
        "NewDeviceCredential",
        [
            .required("installation", .uuid, "The only one that it is good for."),
            .required("user", .user.orNull, "The only user that it can sign in; null for none."),
            .omissible(
                "lifetime_seconds", .integer(lifetimes).standard(.integer(standardLifetime)),
                "How long it may register. It may sign out for ninety days."),
        ])

    static let response = ResponseSchema<(credential: DeviceCredentialClaims, text: String)>.object(
        "DeviceCredential",
        [
            .required(
                "credential", .text(JSONSchema.string(pattern: "^psd_[A-Za-z0-9_-]+$").example(.text("psd_AQAA"))), "Hand it to the app."
            ) {
                $0.text
            },
            .required("installation", .uuid) { $0.credential.installation },
            .nullable("user", .text(.user)) { $0.credential.user },
            .required("expires_at", .time) { $0.credential.expiresAt },
        ])
}
