package import PushModel
import StrictJSON

/// One installation as an import takes it: what its own registration said last, and its live tokens in full.
package struct ExportedInstallation: Equatable, Sendable {
    package var id: PushID
    package var user: String?
    package var tokens: [RegisteredToken]
    package var profile: InstallationProfile
}

extension ExportedInstallation {
    func write(to object: inout JSONWriter) {
        object.field("id", id.description)
        if let user { object.field("user", user) } else { object.null("user") }
        object.array("tokens") { array in
            for token in tokens {
                array.object { entry in
                    entry.plainField("token") { token.token.appendHex(to: &$0) }
                    entry.field("environment", token.environment.rawValue)
                    entry.field("purpose", token.purpose.rawValue)
                }
            }
        }
        object.field("locale", profile.locale)
        object.field("time_zone", profile.timeZone)
        object.field("app_version", profile.appVersion)
        object.field("os_version", profile.osVersion)
        object.field("device_model", profile.deviceModel)
        if !profile.tags.isEmpty { object.field("tags", profile.tags) }
    }
}
