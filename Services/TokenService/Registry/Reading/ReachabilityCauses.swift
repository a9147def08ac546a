import PushModel

/// Finds the cause of an installation's state in its latest history, and makes a sentence of it.
struct ReachabilityCauses {
    static let purpose = Purpose.alert.rawValue

    /// Newest first.
    let recent: [HistoryEntry]

    func ofAbsence() -> String {
        guard let last = recent.first else { return "Nothing is known of it." }
        return "No longer stored; the last that is known of it is \(last.event.rawValue) on \(Self.text(last.at))."
    }

    /// The sentence after the moment.
    func deregistration(_ state: ReachabilityState) -> String {
        switch state.signedOutReason {
        case "stale": " (stale: no registration for too long)"
        case "erased": " (its user's data was erased)"
        default: ""
        }
    }

    func ofSignOut(_ state: ReachabilityState) -> String {
        guard let reason = state.signedOutReason else {
            return "No user is signed in: it was registered without a user on \(Self.text(state.registeredAt))."
        }
        let entry = recent.first { $0.event == .signedOut }
        let when = entry.map { " on \(Self.text($0.at))" } ?? ""
        return "Signed out\(when) (\(Self.words(signOut: reason, entry)))."
    }

    func ofReach(_ state: ReachabilityState) -> String {
        let limit = state.permission?.alertLimit.map { " It \($0), as the app last reported." } ?? ""
        return reach(state) + limit
    }

    /// Says how far the installation is reachable, without regard to the permission.
    private func reach(_ state: ReachabilityState) -> String {
        let seen = Self.text(state.registeredAt)
        if let rejection = state.rejection {
            let answer = rejection.answer.isEmpty ? "" : " (\(rejection.answer))"
            return """
                Reachable as far as its registration of \(seen) goes, but APNs rejected its alert token \(rejection.hint)\(answer) on \
                \(Self.text(rejection.at)), and nothing newer is stored.
                """
        }
        if let until = state.throttledUntil { return "Reachable, but APNs asked to leave it alone until \(Self.text(until))." }
        if let since = state.staleSince {
            return "Reachable as far as is known, but stale since \(Self.text(since)): it last registered on \(seen)."
        }
        return "Reachable: signed in, with an active alert token; it last registered on \(seen)."
    }

    /// A user is signed in, and no alert token is active: the last event of one explains it.
    func ofMissingToken(_ state: ReachabilityState) -> String {
        let alerts = state.tokens.filter { $0.purpose == Self.purpose }
        let retired = alerts.max { ($0.retired?.at ?? .min, $0.id) < ($1.retired?.at ?? .min, $1.id) }
        let moved = recent.first { $0.event == .tokenMovedAway && $0.token?.purpose == Self.purpose }
        if let moved, moved.at >= retired?.retired?.at ?? .min {
            let place = moved.otherInstallation.map { " to installation \($0)" } ?? ""
            return "Its alert token \(moved.token?.hint ?? "") moved\(place) on \(Self.text(moved.at))."
        }
        guard let retired, let retirement = retired.retired else {
            return "It has no alert token: its registration of \(Self.text(state.registeredAt)) named none."
        }
        return "Its alert token \(retired.hint) \(words(retired, retirement))."
    }

    private func words(_ token: ReachabilityState.Token, _ retirement: ReachabilityState.Retirement) -> String {
        let answer = answer(on: token)
        if let quarantined = retirement.quarantinedAt {
            return "is in quarantine since \(Self.text(quarantined)), because too many tokens were rejected at once\(answer)"
        }
        let when = Self.text(retirement.at)
        return switch retirement.reason {
        case "replaced": "was replaced on \(when) and nothing took its place"
        case "removed": "was retired on \(when): the registration of that moment no longer named it"
        case "stale": "was retired on \(when): no registration for too long"
        case "deregistered": "was retired on \(when), when the installation was deregistered"
        case "gone" where answer.isEmpty: "was retired on \(when): APNs said that it is gone"
        case "rejected" where answer.isEmpty: "was retired on \(when): APNs rejected it"
        default: "was retired on \(when)\(answer)"
        }
    }

    /// `: APNs answered 410 Unregistered since …`; empty if the history no longer has it.
    private func answer(on token: ReachabilityState.Token) -> String {
        let answer = recent.first { entry in
            entry.event == .tokenRetired && entry.status != nil
                && (entry.token?.id == token.id
                    || entry.token?.id == nil && entry.token?.hint == token.hint && entry.token?.environment == token.environment)
        }
        guard let answer, let status = answer.status else { return "" }
        let reason = answer.reason.map { " \($0)" } ?? ""
        let since = answer.apnsTimestamp.map { " since \(Self.text($0))" } ?? ""
        return ": APNs answered \(status)\(reason)\(since)"
    }

    private static func words(signOut reason: String, _ entry: HistoryEntry?) -> String {
        let other = entry?.otherInstallation.map { " \($0)" } ?? ""
        return switch reason {
        case "superseded": "superseded: the user signed in on \(other.isEmpty ? "another installation" : "installation\(other)")"
        case "stale": "stale: no registration for too long"
        case "erased": "its user's data was erased"
        default: reason
        }
    }

    private static func text(_ milliseconds: Int64) -> String { RFC3339.text(milliseconds: milliseconds) }
}
