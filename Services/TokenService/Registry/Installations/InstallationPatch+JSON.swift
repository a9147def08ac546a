package import PushModel
package import StrictJSON
package import TokenServiceApps
import TokenServiceKit

extension InstallationPatch {
    /// Reads the body of `PATCH /v1/apps/{app}/installations/{id}`: a field that is absent stays, null removes (RFC 7396).
    /// - Returns: nil if a field is wrong; every fault is in `body.problems`.
    package init?(_ body: inout JSONObjectReader, installation: PushID, app: App, precondition: Precondition) {
        self.init(installation: installation, expectedOwner: body.expectedOwner(), precondition: precondition)
        if body.has("user") { user = .set(body.optionalString("user", maximumBytes: StatedUser.maximumBytes)) }
        if body.has("locale") { locale = .set(body.locale()) }
        timeZone = body.field("time_zone")
        appVersion = body.field("app_version")
        osVersion = body.field("os_version")
        deviceModel = body.field("device_model")
        if body.has("permission") { permission = .set(body.optionalChoice("permission", of: Permission.self)) }
        body.refuseTags()
        if body.has("app_tags") { appTags = body.appTags() }
        if body.has("tokens") {
            tokens = body.registeredTokens(app: app)
        }
        keeps = body.keptPurposes()
        replaces = body.optionalToken("replaces")
        body.finish()
        guard body.problems.isEmpty else { return nil }
    }
}

extension JSONObjectReader {
    fileprivate mutating func field(_ key: String) -> InstallationPatch.Field<String> {
        has(key) ? .set(deviceText(key)) : .untouched
    }
}

extension InstallationPatch {
    static let request = JSONSchema.request(
        "InstallationChange",
        [
            .optional("user", .user.orNull, "The signed-in user; null for none."),
            .optional("tokens", RegisteredToken.list, "All its tokens, as in a registration."),
            .omissible("keeps", RegisteredToken.keptPurposes),
            .omissible(
                "replaces", .deviceToken,
                "A token of an earlier installation of the same device, which is over. With a device credential only of the same user, or of none."
            ),
            .optional("expected_user", .user.orNull, "Refuse with 409 unless exactly this user is signed in now; null: unless no user is."),
        ] + InstallationProfile.stated)
}
