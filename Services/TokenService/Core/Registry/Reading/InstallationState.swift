/// What decides whether pushes reach an installation. Times are UNIX milliseconds.
package struct InstallationState: Equatable, Sendable {
    package var isSignedIn: Bool
    package var signedOutReason: String?
    package var deregisteredAt: Int64?
    /// Nil also where it has passed.
    package var throttledUntil: Int64?
    package var staleSince: Int64?
    package var registeredAt: Int64
    package var tokens: [Token]

    package struct Token: Equatable, Sendable {
        package var id: Int64
        package var hint: String
        package var environment: String
        package var purpose: String
        package var registeredAt: Int64
        /// Nil while it is active.
        package var retired: Retirement?
    }

    package struct Retirement: Equatable, Sendable {
        package var at: Int64
        package var reason: String
        package var quarantinedAt: Int64?
    }
}
