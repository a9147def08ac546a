import PushModel
import TokenServiceApps
import TokenServiceRegistry
import TokenServiceSending

/// The events at one of the user's installations.
struct DeviceAccount {
    typealias Step = Explanation.Step

    /// What became of one delivery, or of the installation where there was none.
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

/// Why an installation got no delivery.
extension DeviceAccount {
    /// The first rule that left the device out, in the order in which they apply.
    var absence: (Step, Fate) { unnamed ?? absentOwner ?? tokenless ?? withoutActivity ?? unfinished ?? doubtful ?? unknown }

    private var unnamed: (Step, Fate)? {
        switch notification.target {
        case .installation, .installations, .tokens:
            guard installation.isNamed else {
                return (
                    step(notification.acceptedAt, .notNamed, "It names certain installations or tokens, and none of this device."),
                    .notAddressed
                )
            }
            guard let epoch = installation.namedEpoch, installation.times[epoch] == nil else { return nil }
            return (
                step(notification.acceptedAt, .ownerDiffers, "It names this device with another user signed in on it."), .notAddressed
            )
        case .tags:
            guard installation.matchesTags == false else { return nil }
            guard !installation.isLeftOutByPermission else { return (leftOutByPermission, .notAddressed) }
            return (
                step(
                    nil, .tagsDoNotMatch,
                    "The installation's tags do not match the expression as they are now; what they were then is not recorded."),
                .notAddressed
            )
        case .user, .users, .all, .channel: return nil
        }
    }

    private var leftOutByPermission: Step {
        let words =
            switch installation.permission {
            case .denied: "the person has denied notifications"
            case .notDetermined: "the app has not asked the person for the permission yet"
            case .provisional: "the permission is provisional"
            case .authorized: "the person has allowed notifications"
            case .ephemeral: "the permission is that of an app clip"
            case nil: "the app has reported none"
            }
        return step(
            nil, .tagsDoNotMatch,
            "The expression leaves the device out by its permission as it is now: \(words). What it was then is not recorded."
        ) { $0.reason = installation.permission?.rawValue }
    }

    /// The user was not signed in there when it was sent.
    private var absentOwner: (Step, Fate)? {
        let stays = installation.times.values
        let end = notification.expandedAt ?? notification.cancelledAt ?? now
        guard !stays.contains(where: { ($0.from ?? .min) <= end && ($0.isNow || ($0.to ?? .min) >= notification.acceptedAt) }) else {
            return nil
        }
        if let ended = stays.compactMap(\.to).filter({ $0 < notification.acceptedAt }).max(), stays.allSatisfy({ ($0.from ?? .min) <= end })
        {
            let why = installation.isSignedIn ? "" : installation.signedOutReason.map { " (\($0))" } ?? ""
            return (
                step(ended, .signedOutBefore, "The user was signed out here before it was accepted\(why)."), .unreachable
            )
        }
        guard let began = stays.compactMap(\.from).filter({ $0 > end }).min() else {
            return (step(nil, .notRecorded, "Until when the user was signed in here is no longer recorded."), .unknown)
        }
        return (step(began, .signedInLater, "The user signed in here only when it had been resolved already."), .unreachable)
    }

    private var tokenless: (Step, Fate)? {
        let purpose = notification.purpose.rawValue
        guard !installation.tokens.isEmpty else {
            return (step(nil, .noToken, "The device has no \(purpose) token, and this push type needs one."), .unreachable)
        }
        guard alive.isEmpty else { return nil }
        let last = installation.tokens.filter { $0.retired != nil }.max { ($0.retired?.at ?? 0) < ($1.retired?.at ?? 0) }
        guard let last, let retired = last.retired, retired.at < notification.acceptedAt else {
            return (
                step(
                    installation.tokens.map(\.registeredAt).min(), .noTokenThen,
                    "The device registered its \(purpose) token only when it had been resolved already."), .unreachable
            )
        }
        if retired.quarantinedAt != nil {
            return (
                step(retired.at, .tokenInQuarantine, "Its token \(last.hint) is in quarantine; it can be restored.") {
                    $0.hint = last.hint
                },
                .unreachable
            )
        }
        return (
            step(retired.at, .noTokenThen, "Its last \(purpose) token \(last.hint) was over before (\(retired.reason)).") {
                $0.hint = last.hint
                $0.reason = retired.reason
            }, .unreachable
        )
    }

    /// The tokens that a delivery could have been for when it was resolved.
    private var alive: [ReachabilityState.Token] {
        let end = notification.expandedAt ?? now
        return installation.tokens.filter { token in
            (token.retired?.at ?? .max) >= notification.acceptedAt && !came(token, after: end)
        }
    }

    /// What ended a doubt leaves no line. So an earlier doubt is the reason why a token that was alive got no delivery.
    private var doubtful: (Step, Fate)? {
        let alive = alive
        let lines = alive.map { token in installation.doubts.first { isLine($0, of: token) } }
        guard let last = alive.last, zip(alive, lines).allSatisfy({ $0.isDoubtful || $1 != nil }) else { return nil }
        let why = "APNs accepted several starts, and the device reported no activity."
        guard !last.isDoubtful, let line = lines.last ?? nil else {
            let words = "Its token \(last.hint) is doubtful: \(why) Its next registration of a start token ends that."
            return (step(nil, .tokenDoubtful, words) { $0.hint = last.hint }, .unreachable)
        }
        return (
            step(line.at, .tokenDoubtful, "Its token \(last.hint) became doubtful: \(why) It is not doubtful now.") { $0.hint = last.hint },
            .unreachable
        )
    }

    /// The acceptance of an update to an activity that is not known, or over, makes no delivery, though the device may have its token.
    private var withoutActivity: (Step, Fate)? {
        guard case .activity(let id) = notification.purpose, notification.state == .noTargets, !notification.isFannedOut else { return nil }
        return (
            step(notification.acceptedAt, .notAddressed, "The Live Activity \(id) was not known, or over, when it was accepted."),
            .notAddressed
        )
    }

    /// A registration does not show that: it stamps the token anew each time.
    func came(_ token: ReachabilityState.Token, after end: Int64) -> Bool {
        installation.history.contains { entry in
            entry.at > end && [.tokenAdded, .tokenMovedHere, .tokenRestored].contains(entry.event) && isLine(entry, of: token)
        }
    }

    /// The step and the fate of an installation whose turn has not come, or never did.
    private var unfinished: (Step, Fate)? {
        guard notification.isFannedOut else { return nil }
        if notification.cancelledAt != nil, notification.total == 0 || notification.expandedAt == notification.cancelledAt {
            return (
                step(notification.cancelledAt, .stoppedBefore, "The notification was stopped before a delivery to this device was made."),
                .stopped
            )
        }
        if notification.state == .expired {
            return (step(notification.completedAt, .stoppedBefore, "It expired before a delivery to this device was made."), .stopped)
        }
        guard notification.expandedAt == nil, notification.cancelledAt == nil else { return nil }
        switch notification.target {
        case .tags, .all:
            guard installation.isAhead else { return nil }
        case .user, .users, .installation, .installations, .tokens, .channel: break
        }
        if let last = alive.last, alive.allSatisfy(\.isDoubtful) {
            let words = "Its deliveries are still to be made. Its token \(last.hint) is doubtful: this device gets none if that lasts."
            return (step(nil, .notReachedYet, words) { $0.hint = last.hint }, .waiting)
        }
        return (
            step(nil, .notReachedYet, "Its deliveries are still to be made, and this device would get one as things are now."), .waiting
        )
    }

    private var unknown: (Step, Fate) {
        (
            step(
                nil, .notRecorded,
                """
                No delivery to this device is stored, and nothing that is stored says why: it may have been different when it was \
                resolved, or its receipt was removed since.
                """
            ), .unknown
        )
    }
}
