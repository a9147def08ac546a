/// `ios-17 AND (beta OR staff) AND NOT muted`: selects installations by their tags and their permission.
package indirect enum TagExpression: Equatable, Sendable {
    case tag(String)
    /// `permission:denied`
    case permission(ReportedPermission)
    case not(TagExpression)
    /// At least two.
    case all([TagExpression])
    /// At least two.
    case any([TagExpression])
}
