/// Whether the person lets the app show notifications (Apple, "UNAuthorizationStatus"). The raw values are those of the HTTP API.
public enum PushPermission: String, Codable, Sendable, Hashable, CaseIterable {
    /// The system has not asked the person yet.
    case notDetermined = "not_determined"
    /// Notifications appear quietly, in the notification centre only. The system has not asked the person yet.
    case provisional
    case denied
    case authorized
    /// An App Clip, for a limited time.
    case ephemeral
}
