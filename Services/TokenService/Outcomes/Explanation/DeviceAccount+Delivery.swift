import PushModel
import TokenServiceApps
import TokenServiceRegistry
import TokenServiceSending

/// Deliveries that were made.
extension DeviceAccount {
    func account(of delivery: ExplanationFacts.Delivery) -> Finding {
        let record = delivery.record
        let hint = record.token?.hint
        var steps = [made(record, hint)]
        let waiting = wait(of: delivery)
        if let waiting { steps.append(waiting) }
        let isTried = record.attempts > 0 || record.lastAttempt != nil
        if isTried || record.outcome == nil, delivery.publishedAt != nil || isTried {
            // The service records the broker's confirmation a moment later. Several machines' clocks are compared.
            let ended = !delivery.hasReceipt ? notification.completedAt : record.outcome == nil ? nil : record.updatedAt
            let at = [delivery.publishedAt, record.lastAttempt?.at, ended].compactMap(\.self).min()
            steps.append(step(at.map { max($0, notification.acceptedAt) }, .published, "It was handed to the broker for the dispatchers."))
        }
        if let attempt = record.lastAttempt { steps.append(self.attempt(attempt, of: record)) }
        guard let text = record.outcome, let outcome = OutcomeClass(rawValue: text) else {
            let isHanded = isTried || delivery.publishedAt != nil
            steps.append(isHanded ? pending(record) : step(nil, .notPublished, "It has not been handed to the broker yet."))
            return Finding(steps, .waiting, why: waiting.flatMap { ($0.detail.until ?? 0) > now ? $0.why : nil })
        }
        let unseen = "APNs accepted it at the first attempt; when is not recorded, because no receipt is kept of that."
        steps.append(
            step(
                delivery.hasReceipt ? record.updatedAt : nil, .ended, delivery.hasReceipt ? outcome.sentence(of: record) : unseen
            ) {
                $0.delivery = record.id
                $0.hint = hint
                $0.environment = record.environment
                $0.outcome = text
                $0.status = record.status
                $0.reason = record.reason
                $0.attempts = record.attempts
            })
        return Finding(steps, outcome == .accepted ? .sent : outcome == .unknown ? .unknown : .notSent)
    }

    private func made(_ record: NotificationStatus.Delivery, _ hint: String?) -> Step {
        let (token, isLater) = (hint.map { "its token \($0)" } ?? "a token that is no longer stored", notification.isFannedOut)
        let words = "A delivery to \(token) was made\(isLater ? "; when is not recorded" : "")."
        return step(isLater ? nil : notification.acceptedAt, .deliveryMade, words) {
            $0.delivery = record.id
            $0.hint = hint
            $0.environment = record.environment
        }
    }

    /// Only a local time and quiet hours make a job that is due after its making.
    private func wait(of delivery: ExplanationFacts.Delivery) -> Step? {
        let clock = notification.localTime.map { "\($0) by the clock where the device is" }
        let quiet = "the end of its user's quiet hours\(clock == nil ? "" : " if that is later")"
        let causes = [clock, notification.isUrgent ? nil : quiet].compactMap(\.self)
        guard let due = delivery.dueAt, due > (notification.expandedAt ?? now) + 1000, !causes.isEmpty else { return nil }
        let isOver = delivery.record.outcome != nil || delivery.publishedAt != nil || due <= now
        let words = "It \(isOver ? "was not to be sent before" : "waits until") \(text(due)): \(causes.joined(separator: ", or "))."
        return step(nil, .waits, words) { $0.until = due }
    }

    private func attempt(_ attempt: NotificationStatus.Attempt, of record: NotificationStatus.Delivery) -> Step {
        let next = attempt.retryAt.map { "; it was to be tried again from \(text($0)) on" } ?? ""
        if attempt.outcome == OutcomeClass.held.rawValue {
            return step(
                attempt.at, .held, "A dispatcher put it back because of a hold (\(attempt.reason ?? "of which no more is recorded"))."
            ) {
                $0.delivery = record.id
                $0.outcome = attempt.outcome
                $0.reason = attempt.reason
            }
        }
        let recorded = (attempt.wasTried ? 1 : 0) + (record.outcome == nil ? 0 : 1)
        let earlier = record.attempts > recorded ? " Attempts before that are not recorded." : ""
        return step(
            attempt.at, .attempt, "\(attempt.words)\(next).\(earlier)"
        ) {
            $0.delivery = record.id
            $0.outcome = attempt.outcome
            $0.status = attempt.status
            $0.reason = attempt.reason
            $0.until = attempt.retryAt
        }
    }

    private func pending(_ record: NotificationStatus.Delivery) -> Step {
        if let attempt = record.lastAttempt, attempt.outcome == OutcomeClass.misconfigured.rawValue {
            return step(nil, .pending, misconfiguration(attempt, in: record.environment)) {
                $0.reason = attempt.reason
                $0.environment = record.environment
                $0.until = attempt.retryAt
            }
        }
        if let retryAt = record.lastAttempt?.retryAt, retryAt > now {
            return step(nil, .pending, "It waits to be tried again.") { $0.until = retryAt }
        }
        if let until = installation.throttledUntil {
            return step(nil, .pending, "It has no outcome yet: APNs asked to leave the device alone until \(text(until)).") {
                $0.until = until
            }
        }
        return step(
            nil, .pending,
            record.lastAttempt == nil
                ? "It was handed to the broker, and no dispatcher has reported on it yet."
                : "It has no outcome yet; it is to be tried again now.")
    }
}

extension DeviceAccount {
    /// The fault that a person has to correct before it can be sent. It is tried again by itself until it expires.
    private func misconfiguration(_ attempt: NotificationStatus.Attempt, in environment: String) -> String {
        let ours = credentials.filter { $0.environment.rawValue == environment }
        if let refused = ours.first(where: { $0.refusal != nil }), let refusal = refused.refusal {
            return "APNs refuses \(refused.words) (\(refusal)); the operator must replace it."
        }
        switch attempt.reason {
        case "no_credential":
            return ours.isEmpty
                ? "No dispatcher has a credential for the app in \(environment); the operator must add one to APNS_CREDENTIALS_FILE."
                : "A credential for the app in \(environment) has come since; it waits to be tried again."
        case let reason? where attempt.status != nil:
            let credential = ours.isEmpty ? "" : " with \(ours.map(\.words).joined(separator: " or "))"
            return "APNs refuses the app's credential, topic or environment\(credential) (\(reason)); the operator must correct it."
        default: return "APNs refused the app's credential (\(attempt.reason ?? "no reason is recorded")); the operator must check it."
        }
    }
}

extension NotificationStatus.Attempt {
    /// Quotes APNs only if it answered; any other reason is ours.
    fileprivate var words: String {
        let own = reason.map { " (\($0))" } ?? ""
        guard let status else {
            return outcome == OutcomeClass.unknown.rawValue
                ? "An attempt that was not the end: no answer came\(own)" : "It was not tried\(own)"
        }
        return "An attempt that was not the end: APNs answered \(status)\(reason.map { " \($0)" } ?? "")"
    }
}

extension NotificationStatus.Delivery {
    /// Why a delivery that may have arrived was not sent again, if a dispatcher reports it.
    fileprivate var whyNoMore: String? {
        guard status == nil else { return nil }
        return switch reason {
        case "expired": "; it expired before it could be sent again"
        case "cancelled": "; it was not sent again, because the notification had been stopped"
        case "superseded": "; it was not sent again, because a newer one took its place"
        case "fenced": "; it was not sent again, because the user's time on this device was over"
        default: nil
        }
    }
}

extension OutcomeClass {
    /// The sentence about the one delivery.
    fileprivate func sentence(of record: NotificationStatus.Delivery) -> String {
        let answer = [record.status.map { "\($0)" }, record.reason].compactMap { $0 }.joined(separator: " ")
        let words = answer.isEmpty ? "" : " (\(answer))"
        return switch self {
        case .unknown where record.reason == OutcomeEvent.notStored:
            "What became of it could not be stored\(words); the token service's log names the delivery and the database's error."
        case .accepted: "APNs accepted it\(record.attempts > 1 ? " at attempt \(record.attempts)" : "")."
        case .tokenGone: "APNs says that the token is gone\(words)."
        case .tokenRejected: "APNs rejected the token\(words)."
        case .throttled: "APNs kept asking to wait until it was too late\(words)."
        case .rejected where record.status == nil: "The request could not be sent as it is\(words)."
        case .rejected: "APNs refused the notification itself\(words)."
        case .misconfigured: "The app's credential, topic or environment is wrong\(words)."
        case .expired: "It expired before it could be sent\(words)."
        case .fenced where record.reason == "token_retired": "It was not sent: the token had been retired when its turn came."
        case .fenced where record.reason == "left_audience": "It was not sent: it was not in the audience any more when its turn came."
        case .fenced: "It was not sent: the user's time on this device was over\(words)."
        case .held: "It was not sent: an operator's hold stopped it\(words)."
        case .cancelled: "It was not sent: the notification had been stopped\(words)."
        case .failed where record.reason == "expired":
            "It expired after \(record.attempts) attempts that APNs could not take; it is among the dead letters."
        case .failed: "It was given up after \(record.attempts) attempts\(words); it is among the dead letters."
        case .unknown: "It was sent and no answer came, so it may have arrived\(record.whyNoMore ?? words)."
        }
    }
}
