import PushModel

extension Explanation {
    /// - Parameter now: UNIX milliseconds.
    package init(_ facts: ExplanationFacts, now: Int64) {
        let notification = facts.notification
        var steps = notification.beginning
        var fates: [DeviceAccount.Fate] = []
        var isHidden = true
        if notification.excludesUser {
            steps.append(notification.exclusion(of: facts.user))
            fates.append(.notAddressed)
        } else if notification.namesUser {
            steps.append(
                Step(
                    at: notification.acceptedAt, what: .addressed,
                    why: "It is addressed to \(facts.user): to every device signed in as them."))
        }
        if facts.installations.isEmpty {
            steps.append(
                Step(
                    at: nil, what: .neverSignedIn,
                    why: "No user of this name is signed in anywhere, or was, as far as the history is kept."))
        }
        for installation in facts.installations {
            let account = DeviceAccount(installation, facts: facts, now: now)
            // The notification excludes the user: devices that it did not reach need no line each.
            if notification.excludesUser, !account.wasReached { continue }
            steps += account.steps
            fates += account.fates
            if account.fates.contains(.accepted), !account.isHidden { isHidden = false }
        }
        let conclusion = Self.conclusion(fates, notification)
        if conclusion == .waiting || fates.contains(.waiting) { steps += facts.holds.map { $0.step(of: notification) } }
        steps += notification.end(now: now)
        self.init(
            notification: notification.id, user: facts.user, state: notification.state, receipts: notification.receipts,
            conclusion: conclusion,
            summary: Self.summary(conclusion, fates, steps, user: facts.user, isHidden: isHidden, now: now), steps: Self.ordered(steps),
            isCutShort: facts.isCutShort)
    }

    /// By time; a step without a time stays behind the step that it follows from.
    private static func ordered(_ steps: [Step]) -> [Step] {
        var last = Int64.min
        let placed = steps.enumerated().map { index, step in
            // The account of another device begins: nothing in it follows from the device before.
            if step.what.beginsAccount { last = step.at ?? steps[0].at ?? .min } else { last = step.at ?? last }
            return (time: last, index: index, step: step)
        }
        return placed.sorted { ($0.time, $0.index) < ($1.time, $1.index) }.map(\.step)
    }

    private static func conclusion(_ fates: [DeviceAccount.Fate], _ notification: ExplanationFacts.Notification) -> Conclusion {
        if fates.contains(.accepted) { return .sent }
        if fates.contains(.waiting) { return .waiting }
        if fates.contains(.unanswered) { return .unknown }
        if fates.contains(.stopped) { return .notSent }
        if fates.contains(.unknown) { return .notRecorded }
        if fates.contains(.notAddressed), !fates.contains(.unreachable) { return .notAddressed }
        let mayStillBegin = notification.completedAt == nil && notification.expandedAt == nil && notification.cancelledAt == nil
        return mayStillBegin && notification.isFannedOut ? .waiting : .notSent
    }

    /// - Parameter isHidden: No device for which APNs accepted it shows alerts now.
    private static func summary(
        _ conclusion: Conclusion, _ fates: [DeviceAccount.Fate], _ steps: [Step], user: String, isHidden: Bool, now: Int64
    ) -> String {
        switch conclusion {
        case .sent:
            let all = fates.count { [.accepted, .waiting, .stopped, .unanswered].contains($0) }
            let accepted = fates.count { $0 == .accepted }
            let rest =
                isHidden
                ? "no device shows it now, because the person has not allowed notifications"
                : "what the device did with it APNs does not report"
            return "Sent: APNs accepted it for \(accepted) of \(all) tokens of \(user); \(rest)."
        case .waiting: return "Waiting: \(waitingReason(steps, now: now) ?? "it is not over yet.")"
        case .unknown: return "Unknown: \(reason(steps, of: .unknown) ?? "it was sent and no answer came, so it may have arrived.")"
        case .notSent: return "Not sent: \(reason(steps, of: .notSent) ?? "nothing was there to send to.")"
        case .notAddressed: return "Not meant for \(user): \(reason(steps, of: .notAddressed) ?? "the target leaves them out.")"
        case .notRecorded: return "Not recorded: what is stored does not say whether it was sent to \(user)."
        }
    }

    /// A hold, or else the moment until which it waits: without them it would go on. Else the last step that says why it waits.
    private static func waitingReason(_ steps: [Step], now: Int64) -> String? {
        let hold = steps.last { $0.what == .held && $0.detail.hold != nil }
        let moment = steps.last { $0.what == .waits && $0.detail.until ?? 0 > now }
        return (hold ?? moment)?.why ?? reason(steps, of: .waiting)
    }

    /// The last step that supports the conclusion.
    private static func reason(_ steps: [Step], of conclusion: Conclusion) -> String? {
        (steps.last { $0.what.speaks(for: conclusion) } ?? steps.last { $0.what == .neverSignedIn })?.why
    }
}

extension Explanation.What {
    fileprivate var beginsAccount: Bool {
        switch self {
        case .deliveryMade, .named, .notNamed, .ownerDiffers, .matchesNow, .tagsDoNotMatch, .signedOutBefore, .signedInLater, .noToken,
            .noTokenThen, .tokenInQuarantine, .tokenDoubtful, .notReachedYet, .stoppedBefore, .notRecorded:
            true
        default: false
        }
    }

    fileprivate func speaks(for conclusion: Explanation.Conclusion) -> Bool {
        switch conclusion {
        case .waiting: [.waits, .notPublished, .pending, .notReachedYet, .scheduled, .held].contains(self)
        case .notSent:
            [
                .ended, .signedOutBefore, .signedInLater, .noToken, .noTokenThen, .tokenInQuarantine, .tokenDoubtful, .stoppedBefore,
                .cancelled, .superseded, .expired, .neverSignedIn,
            ].contains(self)
        case .notAddressed: [.notAddressed, .notNamed, .ownerDiffers, .tagsDoNotMatch].contains(self)
        case .unknown: self == .ended
        case .sent, .notRecorded: false
        }
    }
}
