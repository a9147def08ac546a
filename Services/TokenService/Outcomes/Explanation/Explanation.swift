package import PushModel
import TokenServiceApps
import TokenServiceKit
import TokenServiceRegistry
package import TokenServiceSending

/// The events of one notification for one user, in order, from the match to Apple's answer.
package struct Explanation: Equatable, Sendable {
    package enum Conclusion: String, CaseIterable, Sendable {
        /// APNs accepted it for at least one device. APNs does not report what the device does with it.
        case sent
        /// A push may still be sent.
        case waiting
        case notSent = "not_sent"
        /// It was sent and no answer came: it may have arrived.
        case unknown
        /// It was never meant for the user.
        case notAddressed = "not_addressed"
        /// The stored data does not show it.
        case notRecorded = "not_recorded"
    }

    package var notification: PushID
    package var user: String
    package var state: NotificationState
    package var receipts: NotificationRequest.Receipts
    package var conclusion: Conclusion
    /// One sentence.
    package var summary: String
    package var steps: [Step]
    /// The explanation did not read every row.
    package var isCutShort: Bool

    package struct Step: Equatable, Sendable {
        /// UNIX milliseconds; nil where it is not recorded.
        package var at: Int64?
        package var what: What
        /// A sentence for people.
        package var why: String
        package var detail = Detail()
    }

    package struct Detail: Equatable, Sendable {
        package var installation: PushID?
        package var delivery: PushID?
        package var hint: String?
        package var environment: String?
        package var outcome: String?
        package var status: Int?
        package var reason: String?
        package var attempts: Int?
        package var hold: PushID?
        /// UNIX milliseconds.
        package var until: Int64?
    }

    static let response = ResponseSchema<OfApp<Explanation>>.object(
        "Explanation",
        [
            .required("id", .uuid) { $0.value.notification },
            .required("app", .slug) { $0.app },
            .required("user", .text(.user)) { $0.value.user },
            .required("state", .word) { $0.value.state },
            .required("receipts", .receipts) { $0.value.receipts },
            .required("conclusion", .word) { $0.value.conclusion },
            .required("explanation", .text(.string().example("Sent: APNs accepted it for 2 of 2 tokens of ada.")), "One sentence.") {
                $0.value.summary
            },
            .required("steps", .array(Step.response), "In order of time.") { $0.value.steps },
            .optional("is_cut_short", .boolean, "The user has more devices, or the notification more deliveries, than were looked at.") {
                $0.value.isCutShort ? true : nil
            },
        ])
}

extension Explanation {
    /// The subject of a step: stable, for programs.
    package enum What: String, CaseIterable, Sendable {
        // Of the notification.
        case accepted, scheduled, cancelled, superseded, expired, completed
        case noTargets = "no_targets"
        // Whether it is meant for the user.
        case addressed
        case notAddressed = "not_addressed"
        case neverSignedIn = "never_signed_in"
        case notNamed = "not_named"
        case ownerDiffers = "owner_differs"
        case tagsDoNotMatch = "tags_do_not_match"
        case signedOutBefore = "signed_out_before"
        case signedInLater = "signed_in_later"
        case noToken = "no_token"
        case noTokenThen = "no_token_then"
        case tokenDoubtful = "token_doubtful"
        case notReachedYet = "not_reached_yet"
        case stoppedBefore = "stopped_before"
        case notRecorded = "not_recorded"
        // Of a delivery.
        case deliveryMade = "delivery_made"
        case waits
        case published
        case notPublished = "not_published"
        case attempt
        case pending
        case ended
        case held
        // Of the device meanwhile.
        case signedOut = "signed_out"
        case signedIn = "signed_in"
        case deregistered
        case fenced
        case throttled
        case notShown = "not_shown"
        case shownQuietly = "shown_quietly"
        case tokenChanged = "token_changed"
    }
}

extension Explanation.Step {
    fileprivate static let response = ResponseSchema<Explanation.Step>.object(
        "ExplanationStep",
        [
            .nullable("at", .time, "Null where it is not recorded.") { $0.at },
            .required("what", .word) { $0.what },
            .required("why", .text(.string().example("APNs accepted it.")), "For people.") { $0.why },
            .optional("detail", Explanation.Detail.response) { $0.detail == Explanation.Detail() ? nil : $0.detail },
        ])
}

extension Explanation.Detail {
    fileprivate static let response = ResponseSchema<Explanation.Detail>.object(
        "ExplanationDetail",
        [
            .optional("installation", .uuid) { $0.installation },
            .optional("delivery", .uuid, "Also the apns-id.") { $0.delivery },
            .optional("hint", .text(.tokenHint)) { $0.hint },
            .optional("environment", .text(.environment)) { $0.environment },
            .optional("class", .text(.words(OutcomeClass.self))) { $0.outcome },
            .optional("status", .integer(.integer.example(410)), "APNs' HTTP status.") { $0.status },
            .optional(
                "reason", .text(.outcomeReason.example("Unregistered")),
                "APNs' word, or ours in `snake_case`; of a step about the device or a hold, why."
            ) { $0.reason },
            .optional("attempts", .count) { $0.attempts },
            .optional(
                "hold", .uuid, "Of a step `held`: the hold that keeps it back; each that is in force has a step of its own."
            ) { $0.hold },
            .optional("until", .time) { $0.until },
        ])
}

extension Explanation {
    /// The steps of one delivery, or of an installation that got none.
    struct Finding {
        var steps: [Step]
        /// Nil if nothing could be sent to the installation.
        var conclusion: Conclusion?
        /// The sentence that supports the conclusion.
        var why: String

        init(_ steps: [Step], _ conclusion: Conclusion?, why: String? = nil) {
            self.steps = steps
            self.conclusion = conclusion
            self.why = why ?? steps.last?.why ?? ""
        }
    }

    /// - Parameter now: UNIX milliseconds.
    package init(_ facts: ExplanationFacts, now: Int64) {
        let notification = facts.notification
        var beginning = notification.beginning
        var findings: [Finding] = []
        if notification.excludesUser {
            findings.append(Finding([notification.exclusion(of: facts.user)], .notAddressed))
        } else if notification.namesUser {
            let words = "It is addressed to \(facts.user): to every device signed in as them."
            beginning.append(Step(at: notification.acceptedAt, what: .addressed, why: words))
        }
        if facts.installations.isEmpty, !notification.excludesUser {
            let words = "No user of this name is signed in anywhere, or was, as far as the history is kept."
            findings.append(Finding([Step(at: nil, what: .neverSignedIn, why: words)], nil))
        }
        // A notification that excludes the user: devices that it did not reach need no line each.
        let accounts = facts.installations.map { DeviceAccount($0, facts: facts, now: now) }
            .filter { $0.wasReached || !notification.excludesUser }
        findings += accounts.flatMap(\.findings)
        let conclusion = Self.conclusion(findings.map(\.conclusion), notification)
        let isWaiting = conclusion == .waiting || findings.contains { $0.conclusion == .waiting }
        let holds = isWaiting ? facts.holds.map { $0.step(of: notification) } : []
        let reason = (conclusion == .waiting ? holds.first?.why : nil) ?? findings.last { $0.conclusion == conclusion }?.why
        let summary =
            switch conclusion {
            case .sent: Self.sent(findings, to: facts.user, isHidden: accounts.allSatisfy { $0.isHidden || !$0.wasAccepted })
            case .waiting: "Waiting: \(reason ?? beginning.last { $0.what == .scheduled }?.why ?? "it is not over yet.")"
            case .unknown: "Unknown: \(reason ?? "")"
            case .notSent: "Not sent: \(reason ?? findings.last { $0.conclusion == nil }?.why ?? "")"
            case .notAddressed: "Not meant for \(facts.user): \(reason ?? "")"
            case .notRecorded: "Not recorded: what is stored does not say whether it was sent to \(facts.user)."
            }
        let chains = [beginning] + findings.map(\.steps) + (holds + notification.end(now: now)).map { [$0] }
        self.init(
            notification: notification.id, user: facts.user, state: notification.state, receipts: notification.receipts,
            conclusion: conclusion, summary: summary, steps: Self.ordered(chains, from: notification.acceptedAt),
            isCutShort: facts.isCutShort)
    }

    /// Orders steps by time; a step without a time stays behind the step of its chain that it follows from.
    private static func ordered(_ chains: [[Step]], from start: Int64) -> [Step] {
        let placed = chains.flatMap { chain in
            var last = start
            return chain.map { step in
                last = step.at ?? last
                return (time: last, step: step)
            }
        }
        return placed.enumerated().sorted { ($0.element.time, $0.offset) < ($1.element.time, $1.offset) }.map(\.element.step)
    }

    /// What is not known is not said to be unsent.
    private static func conclusion(_ found: [Conclusion?], _ notification: ExplanationFacts.Notification) -> Conclusion {
        let first = [.sent, .waiting, .unknown, .notRecorded, .notSent].first { (each: Conclusion) in found.contains(each) }
        if let first { return first }
        if !found.isEmpty, !found.contains(nil) { return .notAddressed }
        let mayStillBegin = notification.completedAt == nil && notification.expandedAt == nil
        return mayStillBegin ? .waiting : .notSent
    }

    /// - Parameter isHidden: No device for which APNs accepted it shows alerts now.
    private static func sent(_ findings: [Finding], to user: String, isHidden: Bool) -> String {
        let all = findings.count { [.sent, .waiting, .notSent, .unknown].contains($0.conclusion) }
        let accepted = findings.count { $0.conclusion == .sent }
        let rest =
            isHidden
            ? "no device shows it now, because the person has not allowed notifications"
            : "what the device did with it APNs does not report"
        return "Sent: APNs accepted it for \(accepted) of \(all) tokens of \(user); \(rest)."
    }
}

extension ExplanationFacts.Hold {
    /// The moment from which it keeps the notification back.
    func step(of notification: ExplanationFacts.Notification) -> Explanation.Step {
        let end = endsAt.map { "\(RFC3339.text(milliseconds: $0)), unless it is lifted before" } ?? "it is lifted"
        return Explanation.Step(
            at: max(setAt, notification.acceptedAt), what: .held,
            why: "An operator's hold on \(scope.words(of: notification.id)) keeps it back until \(end); the reason given is \"\(reason)\".",
            detail: .init(reason: reason, hold: id, until: endsAt))
    }
}

extension HoldScope {
    /// - Parameter explained: The notification that it keeps: the one that it names, or a copy of that.
    fileprivate func words(of explained: PushID) -> String {
        switch self {
        case .everything: "everything"
        case .lane(let lane): "the lane \(lane.rawValue) of every app"
        case .app: "the app"
        case .appLane(_, let lane): "the app's lane \(lane.rawValue)"
        case .notification(_, let named): named == explained ? "this notification" : "the update that it repeats"
        }
    }
}

/// The steps about the notification itself.
extension ExplanationFacts.Notification {
    /// The target names others.
    var excludesUser: Bool {
        switch target {
        case .user, .users: !namesUser
        case .installation, .installations, .tokens, .tags, .all: false
        case .channel(_, let fallback): fallback == nil
        }
    }

    func exclusion(of user: String) -> Explanation.Step {
        let others =
            switch target {
            case .users(let count): "a list of \(count) users without \(user)"
            case .channel(let name, _): "the channel \(name): Apple does not say which devices follow it"
            default: "another user"
            }
        return Explanation.Step(at: acceptedAt, what: .notAddressed, why: "It is addressed to \(others).")
    }

    var beginning: [Explanation.Step] {
        let expiry = RFC3339.text(milliseconds: expiresAt)
        var steps = [
            Explanation.Step(
                at: acceptedAt, what: .accepted,
                why: "Accepted for \(audience), push type \(pushType.rawValue), lane \(lane.rawValue); it expires at \(expiry).")
        ]
        if let notBefore, notBefore > acceptedAt {
            steps.append(
                Explanation.Step(
                    at: acceptedAt, what: .scheduled, why: "It is not to be sent before \(RFC3339.text(milliseconds: notBefore)).",
                    detail: .init(until: notBefore)))
        }
        if let localTime {
            steps.append(
                Explanation.Step(at: acceptedAt, what: .scheduled, why: "It is due at \(localTime) by the clock where each device is."))
        }
        if receipts == .failures {
            steps.append(
                Explanation.Step(
                    at: acceptedAt, what: .notRecorded,
                    why:
                        """
                        It keeps exact counters and receipts of what failed; of a delivery that went well at once only that is known, not \
                        when.
                        """
                ))
        }
        return steps
    }

    /// The step that says what stopped it.
    func stop(now: Int64) -> Explanation.Step? {
        guard let cancelledAt else {
            guard state == .expired || expiresAt <= now && completedAt == nil else { return nil }
            return Explanation.Step(at: expiresAt, what: .expired, why: "It expired: nothing more of it is sent.")
        }
        guard cancelReason == "superseded" else {
            return Explanation.Step(at: cancelledAt, what: .cancelled, why: "It was cancelled: nothing more of it is sent.")
        }
        let newer = isUpdate ? "A newer state took its place" : "A newer notification with the same supersede key stopped it"
        return Explanation.Step(at: cancelledAt, what: .superseded, why: "\(newer): nothing more of it is sent.")
    }

    func end(now: Int64) -> [Explanation.Step] {
        var steps = [stop(now: now)].compactMap(\.self)
        if state == .noTargets {
            steps.append(Explanation.Step(at: completedAt, what: .noTargets, why: "There was no device to send to."))
        } else if let completedAt {
            steps.append(
                Explanation.Step(at: completedAt, what: .completed, why: "Every one of its \(total) deliveries has its outcome."))
        }
        return steps
    }

    private var isUpdate: Bool {
        switch purpose {
        case .activity, .channel: true
        default: false
        }
    }

    private var audience: String {
        switch target {
        case .user(let name, nil): "the user \(name)"
        case .user(let name, let activity?): "the Live Activity \(activity) of the user \(name)"
        case .users(let count): "a list of \(count) users"
        case .installation(let id, nil): "the installation \(id)"
        case .installation(let id, let activity?): "the Live Activity \(activity) on the installation \(id)"
        case .installations(let count): "a list of \(count) installations"
        case .tokens(let count): "a list of \(count) tokens"
        case .tags(let expression): "installations with tags \(expression)"
        case .all: "every installation of the app"
        case .channel(let name, nil): "the channel \(name)"
        case .channel(let name, .activities): "the channel \(name) and its Live Activities that have update tokens"
        }
    }
}
