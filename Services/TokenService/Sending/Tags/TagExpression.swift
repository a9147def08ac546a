package import TokenServiceRegistry

/// `beta AND (staff OR app:football) AND NOT muted`: selects installations by their tags and their permission.
package indirect enum TagExpression: Equatable, Sendable {
    /// A tag of the backend, or `app:` and a tag of the app (``InstallationTags``).
    case tag(String)
    /// `permission:denied`
    case permission(ReportedPermission)
    case not(TagExpression)
    /// At least two.
    case all([TagExpression])
    /// At least two.
    case any([TagExpression])
}
