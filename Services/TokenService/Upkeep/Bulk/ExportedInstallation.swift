package import PushModel
import StrictJSON
import TokenServiceKit
package import TokenServiceRegistry

/// One installation as an import takes it: the state of its last registration, and its active tokens in full.
package struct ExportedInstallation: Equatable, Sendable {
    package var id: PushID
    package var user: String?
    package var tokens: [RegisteredToken]
    package var profile: InstallationProfile
    /// The backend's.
    package var tags: [String] = []
}

extension ExportedInstallation {
    static let response = ResponseSchema<ExportedInstallation>.object(
        nil,
        [
            .required("id", .uuid) { $0.id },
            .nullable("user", .text(.user)) { $0.user },
            .required("tokens", .array(RegisteredToken.response), "The active ones.") { $0.tokens },
            .all(InstallationProfile.texts) { $0.profile },
            .optional("tags", .array(.text(.tag)), "The backend's.") { $0.tags.isEmpty ? nil : $0.tags },
            .optional("app_tags", .array(.text(.tag)), "The app's own.") { $0.profile.appTags.isEmpty ? nil : $0.profile.appTags },
        ])
}
