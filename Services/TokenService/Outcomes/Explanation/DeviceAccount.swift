import PushModel
import TokenServiceApps
import TokenServiceRegistry

/// The events at one of the user's installations.
struct DeviceAccount {
    typealias Step = Explanation.Step

    /// Of one delivery, or of the installation where there was none.
    enum Fate {
        case accepted, waiting, stopped, unanswered, unknown, unreachable
        case notAddressed
    }

    private(set) var steps: [Step] = []
    private(set) var fates: [Fate] = []
    /// A delivery was made for the user there.
    private(set) var wasReached = false

    let installation: ExplanationFacts.Installation
    let notification: ExplanationFacts.Notification
    let quietHours: QuietHours?
    let credentials: [AppCredential]
    /// UNIX milliseconds.
    let now: Int64

    init(_ installation: ExplanationFacts.Installation, facts: ExplanationFacts, now: Int64) {
        self.installation = installation
        notification = facts.notification
        quietHours = facts.quietHours
        credentials = facts.credentials
        self.now = now
        let deliveries = installation.deliveries.filter { delivery in
            delivery.ownerEpoch.map { installation.times[$0] != nil } ?? wasOfUser(delivery.tokenID)
        }
        let counted = installation.counted.filter { wasOfUser($0.tokenID) }
        wasReached = !deliveries.isEmpty || !counted.isEmpty
        guard wasReached else {
            let (step, fate) = absence
            fates = [fate]
            steps = [step] + display
            return
        }
        for delivery in deliveries {
            let (more, fate) = account(of: delivery)
            steps += more
            fates.append(fate)
        }
        for delivery in counted {
            let (more, fate) = account(of: delivery)
            steps += more
            fates.append(fate)
        }
        steps += display
        if fates.contains(where: { $0 != .accepted }) { steps += changes }
    }

    /// APNs accepted it, but the device shows no alerts now.
    var isHidden: Bool {
        notification.pushType == .alert && fates.contains(.accepted) && AlertDisplay(installation.permission) == .notAtAll
    }

    /// What the device shows of an alert that it got, or may still get, if that is not everything.
    private var display: [Step] {
        guard notification.pushType == .alert, fates.contains(where: { [.accepted, .waiting, .unanswered].contains($0) }),
            let permission = installation.permission, let limit = permission.alertLimit
        else { return [] }
        let what: Explanation.What = AlertDisplay(permission) == .quietly ? .shownQuietly : .notShown
        return [step(nil, what, "The device \(limit), as the app last reported.") { $0.reason = permission.rawValue }]
    }

    /// A job knows tokens only. The times at which the user was signed in show whose they were.
    private func wasOfUser(_ token: Int64) -> Bool { overlaps && !cameLater(token) }

    /// The user was signed in there while its deliveries were made.
    private var overlaps: Bool {
        let end = notification.expandedAt ?? now
        return installation.times.values.contains { time in
            (time.from ?? .min) <= end && (time.isNow || (time.to ?? .min) >= notification.acceptedAt)
        }
    }

    /// It was meant for another device then.
    private func cameLater(_ id: Int64) -> Bool {
        guard let token = token(id), let end = notification.expandedAt else { return false }
        return came(token, after: end)
    }

    func step(
        _ at: Int64?, _ what: Explanation.What, _ why: String, _ fill: (inout Explanation.Detail) -> Void = { _ in }
    ) -> Step {
        var step = Step(at: at, what: what, why: why)
        step.detail.installation = installation.id
        fill(&step.detail)
        return step
    }

    func text(_ milliseconds: Int64) -> String { RFC3339.text(milliseconds: milliseconds) }

    func token(_ id: Int64) -> ReachabilityState.Token? { installation.tokens.first { $0.id == id } }

    /// A token that was new when its line was written has no number there.
    func isLine(_ entry: HistoryEntry, of token: ReachabilityState.Token) -> Bool {
        guard let named = entry.token else { return false }
        return named.id.map { $0 == token.id } ?? (named.hint == token.hint && named.environment == token.environment)
    }

    /// Later events at the device: without names, because they may be another user's.
    private var changes: [Step] {
        let numbers = Set(installation.deliveries.map(\.tokenID) + installation.counted.map(\.tokenID))
        let reached = installation.tokens.filter { numbers.contains($0.id) }
        return installation.history.compactMap { entry in
            switch entry.event {
            case .signedOut:
                return step(entry.at, .signedOut, "The installation was signed out (\(entry.reason ?? "no reason is recorded")).")
            case .signedIn, .registered: return step(entry.at, .signedIn, "A user signed in on the installation.")
            case .deregistered: return step(entry.at, .deregistered, "The installation was deregistered.")
            case .throttled:
                return step(entry.at, .throttled, "APNs asked to leave the device alone for a while.") {
                    $0.status = entry.status.map { Int($0) }
                    $0.reason = entry.reason
                }
            case .tokenAdded, .tokenMovedHere, .tokenMovedAway, .tokenReplaced, .tokenRemoved, .tokenRetired, .tokenDoubtful,
                .tokenQuarantined, .tokenRestored, .environmentCorrected:
                guard let token = entry.token, reached.contains(where: { isLine(entry, of: $0) }) else { return nil }
                let words = entry.event.rawValue.replacing("_", with: " ")
                return step(entry.at, .tokenChanged, "Its token \(token.hint): \(words).") {
                    $0.hint = token.hint
                    $0.status = entry.status.map { Int($0) }
                    $0.reason = entry.reason
                }
            case .stale: return nil
            }
        } + fences
    }

    private var fences: [Step] {
        guard let epoch = installation.times.keys.max(), let fence = installation.fences.first(where: { $0.epochsBelow > epoch }) else {
            return []
        }
        guard let publishedAt = fence.publishedAt else {
            return [step(fence.at, .fenced, "The dispatchers do not know yet that the user's time on this device is over.")]
        }
        return [step(publishedAt, .fenced, "The dispatchers know that the user's time on this device is over: nothing older is sent.")]
    }
}
