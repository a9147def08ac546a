import PushModel

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
    /// The newest stored answer to an active alert token, if it is a rejection.
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

/// Whether an alert to an installation's user reaches it, and in one sentence why or why not.
package struct Reachability: Equatable, Sendable {
    /// Registered, signed in, and with an active `alert` token.
    package var isReachable: Bool
    /// The purposes of the active tokens, while a user is signed in.
    package var purposes: [String]
    package var display: AlertDisplay
    package var explanation: String
    /// When APNs rejected the alert token that is active, if that is the newest answer that is stored. UNIX milliseconds.
    package var rejectedAt: Int64?

    /// - Parameters:
    ///   - state: Nil if the installation is no longer stored.
    ///   - recent: Its latest history, newest first.
    package init(_ state: ReachabilityState?, recent: [HistoryEntry]) {
        let causes = ReachabilityCauses(recent: recent)
        guard let state else {
            self.init(unreachable: causes.ofAbsence(), .unknown)
            return
        }
        if let at = state.deregisteredAt {
            self.init(unreachable: "Deregistered on \(RFC3339.text(milliseconds: at))\(causes.deregistration(state)).", .unknown)
            return
        }
        let display = AlertDisplay(state.permission)
        guard state.isSignedIn else {
            self.init(unreachable: causes.ofSignOut(state), display)
            return
        }
        let purposes = Set(state.tokens.filter { $0.retired == nil && !$0.isDoubtful }.map(\.purpose)).sorted()
        let isReachable = purposes.contains(ReachabilityCauses.purpose)
        self.init(
            isReachable: isReachable, purposes: purposes, display: display,
            explanation: isReachable ? causes.ofReach(state) : causes.ofMissingToken(state))
        rejectedAt = isReachable ? state.rejection?.at : nil
    }

    private init(unreachable explanation: String, _ display: AlertDisplay) {
        self.init(isReachable: false, purposes: [], display: display, explanation: explanation)
    }

    private init(isReachable: Bool, purposes: [String], display: AlertDisplay, explanation: String) {
        self.isReachable = isReachable
        self.purposes = purposes
        self.display = display
        self.explanation = explanation
    }
}
