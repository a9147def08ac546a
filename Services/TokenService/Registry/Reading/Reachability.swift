import PushModel

/// Whether an alert to an installation's user reaches it, and in one sentence why or why not.
package struct Reachability: Equatable, Sendable {
    /// Registered, signed in, and with an active `alert` token.
    package var isReachable: Bool
    /// Of the active tokens, while a user is signed in.
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
