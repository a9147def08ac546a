/// The facts that decide whether pushes reach an installation. Times are UNIX milliseconds.
package struct ReachabilityState: Equatable, Sendable {
    package var isSignedIn: Bool
    package var signedOutReason: String?
    package var deregisteredAt: Int64?
    /// Nil also where it has passed.
    package var throttledUntil: Int64?
    package var staleSince: Int64?
    package var registeredAt: Int64
    package var permission: Permission?
    package var tokens: [Token]
    /// Of an active alert token, if the newest answer to it that is stored is a rejection.
    package var rejection: Rejection?

    package init(
        isSignedIn: Bool, signedOutReason: String? = nil, deregisteredAt: Int64? = nil, throttledUntil: Int64? = nil,
        staleSince: Int64? = nil, registeredAt: Int64, permission: Permission? = nil, tokens: [Token]
    ) {
        self.isSignedIn = isSignedIn
        self.signedOutReason = signedOutReason
        self.deregisteredAt = deregisteredAt
        self.throttledUntil = throttledUntil
        self.staleSince = staleSince
        self.registeredAt = registeredAt
        self.permission = permission
        self.tokens = tokens
    }

    /// APNs rejected a token, and it is still active: the brake is engaged, or the app has registered it again.
    package struct Rejection: Equatable, Sendable {
        package var hint: String
        package var at: Int64
        /// APNs' words, as far as they are stored.
        package var answer: String

        package init(hint: String, at: Int64, answer: String) {
            self.hint = hint
            self.at = at
            self.answer = answer
        }
    }

    package struct Token: Equatable, Sendable {
        package var id: Int64
        package var hint: String
        package var environment: String
        package var purpose: String
        package var registeredAt: Int64
        /// Nil while it is active.
        package var retired: Retirement?
        /// No start of a Live Activity goes to it.
        package var isDoubtful: Bool

        package init(
            id: Int64, hint: String, environment: String, purpose: String, registeredAt: Int64, retired: Retirement?,
            isDoubtful: Bool = false
        ) {
            self.id = id
            self.hint = hint
            self.environment = environment
            self.purpose = purpose
            self.registeredAt = registeredAt
            self.retired = retired
            self.isDoubtful = isDoubtful
        }
    }

    package struct Retirement: Equatable, Sendable {
        package var at: Int64
        package var reason: String
        package var quarantinedAt: Int64?

        package init(at: Int64, reason: String, quarantinedAt: Int64?) {
            self.at = at
            self.reason = reason
            self.quarantinedAt = quarantinedAt
        }
    }
}
