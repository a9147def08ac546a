import PushModel
import TokenServiceSending

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
                        "It keeps exact counters and receipts of what failed; of a delivery that went well at once only that is known, not when."
                ))
        }
        return steps
    }

    func end(now: Int64) -> [Explanation.Step] {
        var steps: [Explanation.Step] = []
        if let cancelledAt {
            let isSuperseded = cancelReason == "superseded"
            steps.append(
                Explanation.Step(
                    at: cancelledAt, what: isSuperseded ? .superseded : .cancelled,
                    why: isSuperseded
                        ? isUpdate
                            ? "A newer state took its place: nothing more of it is sent."
                            : "A newer notification with the same supersede key stopped it: nothing more of it is sent."
                        : "It was cancelled: nothing more of it is sent."))
        } else if state == .expired || expiresAt <= now && completedAt == nil {
            steps.append(Explanation.Step(at: expiresAt, what: .expired, why: "It expired: nothing more of it is sent."))
        }
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
