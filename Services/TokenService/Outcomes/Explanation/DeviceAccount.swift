import PushModel
import TokenServiceApps
import TokenServiceRegistry
import TokenServiceSending

/// What is recorded of one of the user's installations.
struct DeviceAccount {
    typealias Step = Explanation.Step
    typealias Finding = Explanation.Finding

    private(set) var findings: [Finding] = []
    /// A delivery was made for the user there.
    private(set) var wasReached = false

    let installation: ExplanationFacts.Installation
    let notification: ExplanationFacts.Notification
    let credentials: [AppCredential]
    /// UNIX milliseconds.
    let now: Int64

    init(_ installation: ExplanationFacts.Installation, facts: ExplanationFacts, now: Int64) {
        self.installation = installation
        notification = facts.notification
        credentials = facts.credentials
        self.now = now
        for delivery in installation.deliveries {
            switch isOfUser(delivery) {
            case true?:
                findings.append(account(of: delivery))
                wasReached = true
            case false?: break
            case nil: findings.append(lost("A delivery to a token of this device was made; for whom is not known any more."))
            }
        }
        if findings.isEmpty { findings = [absence] }
        findings[findings.count - 1].steps += display + (wasReached && findings.contains { $0.conclusion != .sent } ? changes : [])
    }

    var wasAccepted: Bool { findings.contains { $0.conclusion == .sent } }

    /// The device shows no alerts now.
    var isHidden: Bool { notification.pushType == .alert && AlertDisplay(installation.permission) == .notAtAll }

    /// What the device shows of an alert that it got, or may still get, if that is not everything.
    private var display: [Step] {
        guard notification.pushType == .alert, findings.contains(where: { [.sent, .waiting, .unknown].contains($0.conclusion) }),
            let permission = installation.permission, let limit = permission.alertLimit
        else { return [] }
        let what: Explanation.What = AlertDisplay(permission) == .quietly ? .shownQuietly : .notShown
        return [step(nil, what, "The device \(limit), as the app last reported.") { $0.reason = permission.rawValue }]
    }

    /// A receipt names the owner's epoch. A job knows tokens only: whose they were is known if user and token stayed where they are.
    /// - Returns: nil if it is not known.
    private func isOfUser(_ delivery: ExplanationFacts.Delivery) -> Bool? {
        if let epoch = delivery.ownerEpoch { return isOfStay(epoch) }
        // A delivery that is due later goes to the owner of that moment if the notification is for an audience.
        let end = max(madeUntil, delivery.publishedAt ?? notification.completedAt ?? now)
        guard wasThere(until: end) else { return false }
        let stayed = installation.stays.contains { stay in
            (stay.from ?? .min) <= madeFrom && (stay.isNow || (stay.to ?? .min) >= end)
        }
        let token = installation.tokens.first { $0.id == delivery.tokenID }
        // A token that moves here brings its row of the other environment along, which has no line of its own here.
        let hasMoved = lines.contains { line in
            line.isArrival && line.token?.hint == token?.hint
                && (line.event == .tokenMovedHere || line.token?.environment != token?.environment)
        }
        return stayed && isHistoryWhole && !hasMoved ? true : nil
    }

    /// The user had the epoch there. It may grow several times while the user stays; the history does not name each epoch.
    private func isOfStay(_ epoch: Int64) -> Bool {
        let stays = installation.stays
        guard let next = stays.firstIndex(where: { $0.epoch >= epoch }) else { return false }
        if stays[next].epoch == epoch { return true }
        return next > 0 && stays[next - 1].to == nil && stays[next - 1].from == stays[next].from
    }

    /// Its deliveries were not made before that. Ten seconds: the clocks of several machines, and a sign-out that was not committed yet.
    private var madeFrom: Int64 { max(notification.acceptedAt, (notification.dueAt ?? 0) - 10_000) }
    private var madeUntil: Int64 { notification.expandedAt ?? now }

    /// The user was signed in there at some time between the first moment at which a delivery may have been made and `end`.
    private func wasThere(until end: Int64) -> Bool {
        installation.stays.contains { stay in
            (stay.from ?? .min) <= end && (stay.isNow || (stay.to ?? .min) >= madeFrom)
        }
    }

    private var isHistoryWhole: Bool { installation.history.count < ExplanationStore.maximumLines }

    /// The history of the tokens for the notification's purpose, since its deliveries may have been made.
    private var lines: [HistoryEntry] { installation.history.filter { $0.token != nil && $0.at >= madeFrom } }

    /// A deregistration since then ended tokens without a line for each. Their rows may be gone.
    private var wasDeregistered: Bool { installation.history.contains { $0.event == .deregistered && $0.at >= madeFrom } }

    func step(
        _ at: Int64?, _ what: Explanation.What, _ why: String, _ fill: (inout Explanation.Detail) -> Void = { _ in }
    ) -> Step {
        var step = Step(at: at, what: what, why: why)
        step.detail.installation = installation.id
        fill(&step.detail)
        return step
    }

    func text(_ milliseconds: Int64) -> String { RFC3339.text(milliseconds: milliseconds) }

    /// Later events at the device: without names, because they may be another user's.
    private var changes: [Step] {
        installation.history.compactMap { entry in
            let (what, why): (Explanation.What, String)
            switch entry.event {
            case .signedOut:
                (what, why) = (.signedOut, "The installation was signed out (\(entry.reason ?? "no reason is recorded")).")
            case .signedIn, .registered: (what, why) = (.signedIn, "A user signed in on the installation.")
            case .deregistered: (what, why) = (.deregistered, "The installation was deregistered.")
            case .throttled: (what, why) = (.throttled, "APNs asked to leave the device alone for a while.")
            case .tokenAdded, .tokenMovedHere, .tokenMovedAway, .tokenReplaced, .tokenRemoved, .tokenRetired, .tokenDoubtful,
                .tokenQuarantined, .tokenRestored, .environmentCorrected:
                let words = entry.event.rawValue.replacing("_", with: " ")
                (what, why) = (.tokenChanged, "Its token \(entry.token?.hint ?? ""): \(words).")
            case .stale: return nil
            }
            return step(entry.at, what, why) {
                $0.hint = entry.token?.hint
                $0.status = entry.status.map { Int($0) }
                $0.reason = entry.reason
            }
        } + fences
    }

    private var fences: [Step] {
        guard let epoch = installation.stays.last?.epoch, let fence = installation.fences.first(where: { $0.epochsBelow > epoch }) else {
            return []
        }
        guard let publishedAt = fence.publishedAt else {
            return [step(fence.at, .fenced, "The dispatchers do not know yet that the user's time on this device is over.")]
        }
        return [step(publishedAt, .fenced, "The dispatchers know that the user's time on this device is over: nothing older is sent.")]
    }
}

extension HistoryEntry {
    /// The token was not the installation's active one before.
    fileprivate var isArrival: Bool { [.registered, .tokenAdded, .tokenMovedHere, .tokenRestored].contains(event) }
}

/// Why an installation got no delivery.
extension DeviceAccount {
    /// The first record that says why, in the order in which the rules apply.
    private var absence: Finding {
        unnamed ?? absentOwner ?? tokenless ?? withoutActivity ?? unfinished ?? doubtful
            ?? lost(
                """
                No delivery to this device is stored, and nothing that is stored says why: it may have been different when it was \
                resolved, or its record was removed since.
                """)
    }

    private func lost(_ words: String) -> Finding { Finding([step(nil, .notRecorded, words)], .notRecorded) }

    private func notAddressed(_ what: Explanation.What, _ words: String) -> Finding {
        Finding([step(notification.acceptedAt, what, words)], .notAddressed)
    }

    private var unnamed: Finding? {
        switch notification.target {
        case .installation, .installations, .tokens:
            guard installation.isNamed else {
                return notAddressed(.notNamed, "It names certain installations or tokens, and none of this device.")
            }
            // An epoch after a stay that has no end may be of the same stay.
            guard let epoch = installation.namedEpoch,
                installation.stays.last(where: { $0.epoch <= epoch }).map({ $0.epoch < epoch && $0.to != nil }) ?? true
            else { return nil }
            return notAddressed(.ownerDiffers, "It names this device with another user signed in on it.")
        case .tags:
            guard installation.matchesTags == false else { return nil }
            let permission = installation.permission?.rawValue
            let words = """
                The device's tags and permission (\(permission ?? "not reported")) do not match the expression as they are now; what they \
                were then is not recorded.
                """
            return Finding([step(nil, .tagsDoNotMatch, words) { $0.reason = permission }], .notAddressed)
        case .user, .users, .all, .channel: return nil
        }
    }

    /// The user was not signed in there when it was sent.
    private var absentOwner: Finding? {
        guard !wasThere(until: madeUntil) else { return nil }
        if let began = installation.stays.compactMap(\.from).filter({ $0 > madeUntil }).min() {
            return Finding([step(began, .signedInLater, "The user signed in here when it had been resolved already.")], nil)
        }
        guard let last = installation.stays.last, let ended = last.to else {
            return lost("Until when the user was signed in here is not known any more.")
        }
        let why = last.reason.map { " (\($0))" } ?? ""
        let before = step(ended, .signedOutBefore, "The user was signed out here before its deliveries were made\(why).")
        guard notification.state == .scheduled else { return Finding([before], nil) }
        switch notification.target {
        // It names the user's stay, which is over.
        case .installation, .installations, .tokens: return Finding([before], .notSent)
        case .user, .users, .tags, .all, .channel:
            let words = "The user is signed out here\(why). If the user does not sign in again before it is due, the user gets none here."
            return Finding([step(ended, .signedOutBefore, words)], .waiting)
        }
    }

    /// The device had no token for the purpose when its deliveries were made.
    private var tokenless: Finding? {
        let (purpose, tokens) = (notification.purpose.rawValue, installation.tokens)
        if let first = lines.first {
            guard isHistoryWhole, first.isArrival, first.at > madeUntil, !wasDeregistered,
                (tokens.filter { !isOver($0) }.map(\.hint) + lines.compactMap { $0.token?.hint }).allSatisfy({ hint in
                    lines.contains { $0.isArrival && $0.token?.hint == hint }
                })
            else { return nil }
            let words = "The device had no \(purpose) token then: one came only when it had been resolved already."
            return Finding([step(first.at, .noTokenThen, words) { $0.hint = first.token?.hint }], nil)
        }
        guard isHistoryWhole, !wasDeregistered, tokens.allSatisfy(isOver) else { return nil }
        guard let last = tokens.max(by: { ($0.retired?.at ?? 0) < ($1.retired?.at ?? 0) }), let retired = last.retired else {
            return Finding([step(nil, .noToken, "The device has no \(purpose) token, and this push type needs one.")], nil)
        }
        let quarantine = retired.quarantinedAt == nil ? "" : "; it is in quarantine and can be restored"
        let words = "Its last \(purpose) token \(last.hint) was over before (\(retired.reason))\(quarantine)."
        let over = step(retired.at, .noTokenThen, words) {
            $0.hint = last.hint
            $0.reason = retired.reason
        }
        return Finding([over], nil)
    }

    private func isOver(_ token: ReachabilityState.Token) -> Bool { token.retired.map { $0.at < madeFrom } ?? false }

    /// The acceptance of an update to an activity that is not known, or over, makes no delivery, though the device may have its token.
    private var withoutActivity: Finding? {
        guard case .activity(let id) = notification.purpose, notification.state == .noTargets, !notification.isFannedOut else { return nil }
        return notAddressed(.notAddressed, "The Live Activity \(id) was not known, or over, when it was accepted.")
    }

    /// The turn of the installation has not come, or never did.
    private var unfinished: Finding? {
        // A token that moved away took along what says whether a delivery was made.
        let mayHaveMoved = !isHistoryWhole || lines.contains { $0.event == .tokenMovedAway }
        guard notification.isFannedOut, notification.total == 0 || !mayHaveMoved else { return nil }
        let isStopped = notification.cancelledAt != nil && (notification.total == 0 || notification.expandedAt == notification.cancelledAt)
        if isStopped || notification.state == .expired {
            let words = "The notification was stopped before a delivery to this device was made."
            let at = notification.cancelledAt ?? notification.completedAt
            return Finding([step(at, .stoppedBefore, words)], .notSent, why: notification.stop(now: now)?.why)
        }
        guard notification.expandedAt == nil, installation.isAhead else { return nil }
        return Finding([step(nil, .notReachedYet, "Its deliveries are still to be made: the turn of this device has not come.")], .waiting)
    }

    /// Its tokens are doubtful, and have been since before its deliveries were made.
    private var doubtful: Finding? {
        let alive = installation.tokens.filter { $0.retired == nil }
        guard let last = alive.last, alive.allSatisfy(\.isDoubtful), lines.isEmpty, isHistoryWhole else { return nil }
        let words = """
            Its token \(last.hint) is doubtful: APNs accepted several starts, and the device reported no activity. Its next registration \
            of a start token ends that.
            """
        return Finding([step(nil, .tokenDoubtful, words) { $0.hint = last.hint }], nil)
    }
}
