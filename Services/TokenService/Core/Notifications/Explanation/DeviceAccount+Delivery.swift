import PushModel

/// Deliveries that were made.
extension DeviceAccount {
    func account(of delivery: ExplanationFacts.Delivery) -> ([Step], Fate) {
        let told = delivery.told
        let hint = told.token?.hint ?? token(delivery.tokenID)?.hint
        let place = installation.chunks.first { $0.tokenID == delivery.tokenID }
        var steps = making(hint, environment: told.environment, place: place) { $0.delivery = told.id }
        if let attempt = told.lastAttempt { steps.append(self.attempt(attempt, of: told)) }
        guard let text = told.outcome, let outcome = OutcomeClass(rawValue: text) else {
            steps.append(pending(told, place))
            return (steps, .waiting)
        }
        steps.append(
            step(told.updatedAt, .ended, outcome.sentence(of: told)) {
                $0.delivery = told.id
                $0.hint = hint
                $0.environment = told.environment
                $0.outcome = text
                $0.status = told.status
                $0.reason = told.reason
                $0.attempts = told.attempts
            })
        return (steps, outcome == .accepted ? .accepted : .stopped)
    }

    /// Of what has no receipt: counted alone.
    func account(of place: ExplanationFacts.ChunkPlace) -> ([Step], Fate) {
        let token = token(place.tokenID)
        var steps = making(token?.hint, environment: token?.environment, place: place)
        guard place.isSettled else {
            steps.append(step(nil, .pending, "It has no outcome yet."))
            return (steps, .waiting)
        }
        steps.append(
            step(nil, .ended, "APNs accepted it at the first attempt; when is not recorded, because no receipt is kept of that.") {
                $0.hint = token?.hint
                $0.environment = token?.environment
                $0.outcome = OutcomeClass.accepted.rawValue
            })
        return (steps, .accepted)
    }

    private func making(
        _ hint: String?, environment: String?, place: ExplanationFacts.ChunkPlace?, _ fill: (inout Explanation.Detail) -> Void = { _ in }
    ) -> [Step] {
        let what = hint.map { "its token \($0)" } ?? "a token that is no longer stored"
        var steps = [
            step(
                notification.isWalked ? nil : notification.acceptedAt, .deliveryMade,
                "A delivery to \(what) was made\(notification.isWalked ? "; when is not recorded" : "")."
            ) {
                $0.hint = hint
                $0.environment = environment
                fill(&$0)
            }
        ]
        if let place, place.dueAt > max(notification.acceptedAt, notification.notBefore ?? 0) + 1000 {
            steps.append(wait(until: place.dueAt, isOver: place.publishedAt != nil))
        }
        if let publishedAt = place.map(\.publishedAt) ?? notification.publishedAt {
            steps.append(step(publishedAt, .published, "It was handed to the broker for the dispatchers."))
        } else {
            steps.append(step(nil, .notPublished, "It has not been handed to the broker yet."))
        }
        return steps
    }

    private func wait(until due: Int64, isOver: Bool) -> Step {
        let why =
            if let localTime = notification.localTime {
                "\(localTime) by the clock where the device is"
            } else if notification.isUrgent {
                "the time at which it was due here"
            } else {
                "the end of its user's quiet hours\(quietHours.map { " (\($0.beginsAt) to \($0.endsAt) as they are now)" } ?? "")"
            }
        return step(nil, .waits, "It \(isOver || due <= now ? "waited" : "waits") until \(text(due)): \(why).") { $0.until = due }
    }

    private func attempt(_ attempt: NotificationStatus.Attempt, of told: NotificationStatus.Delivery) -> Step {
        let answer = [attempt.status.map { "\($0)" }, attempt.reason].compactMap { $0 }.joined(separator: " ")
        let next = attempt.retryAt.map { "; it was to be tried again from \(text($0)) on" } ?? ""
        if attempt.outcome == OutcomeClass.held.rawValue {
            return step(
                attempt.at, .held, "A dispatcher put it back because of a hold (\(attempt.reason ?? "of which no more is recorded"))."
            ) {
                $0.delivery = told.id
                $0.outcome = attempt.outcome
                $0.reason = attempt.reason
            }
        }
        let earlier = told.attempts > (told.outcome == nil ? 1 : 2) ? " Attempts before that are not recorded." : ""
        return step(
            attempt.at, .attempt,
            "An attempt that was not the end: \(answer.isEmpty ? attempt.outcome : "APNs answered \(answer)")\(next).\(earlier)"
        ) {
            $0.delivery = told.id
            $0.outcome = attempt.outcome
            $0.status = attempt.status
            $0.reason = attempt.reason
            $0.until = attempt.retryAt
        }
    }

    private func pending(_ told: NotificationStatus.Delivery, _ place: ExplanationFacts.ChunkPlace?) -> Step {
        if let retryAt = told.lastAttempt?.retryAt, retryAt > now {
            return step(nil, .pending, "It waits to be tried again.") { $0.until = retryAt }
        }
        if let until = installation.throttledUntil {
            return step(nil, .pending, "It has no outcome yet: APNs asked to leave the device alone until \(text(until)).") {
                $0.until = until
            }
        }
        return step(nil, .pending, "It has no outcome yet.")
    }
}

extension OutcomeClass {
    /// What it means for the one delivery.
    fileprivate func sentence(of told: NotificationStatus.Delivery) -> String {
        let answer = [told.status.map { "\($0)" }, told.reason].compactMap { $0 }.joined(separator: " ")
        let words = answer.isEmpty ? "" : " (\(answer))"
        return switch self {
        case .accepted: "APNs accepted it\(told.attempts > 1 ? " at attempt \(told.attempts)" : "")."
        case .tokenGone: "APNs says that the token is gone\(words)."
        case .tokenRejected: "APNs rejected the token\(words)."
        case .throttled: "APNs kept asking to wait until it was too late\(words)."
        case .rejected: "APNs refused the notification itself\(words)."
        case .misconfigured: "The app's credential, topic or environment is wrong\(words)."
        case .expired: "It expired before it could be sent\(words)."
        case .fenced where told.reason == "token_retired": "It was not sent: the token had been retired when its turn came."
        case .fenced: "It was not sent: the user's time on this device was over\(words)."
        case .held: "It was not sent: an operator's hold stopped it\(words)."
        case .cancelled: "It was not sent: the notification had been stopped\(words)."
        case .failed: "It was given up after \(told.attempts) attempts\(words); it is among the dead letters."
        case .unknown: "It was sent, and APNs' answer was lost\(words)."
        }
    }
}
