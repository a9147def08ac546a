import APNs
import PushModel

/// What an answer means for its delivery. APNs' reasons are one table, ``APNsReason/row``: from whose fault it is and
/// whether trying again helps follows what becomes of the delivery; beside them are the reasons why there is no answer.
enum OutcomeTable {
    /// What becomes of a delivery.
    enum Verdict: Equatable, Sendable {
        /// The delivery is done.
        case final(OutcomeClass)
        /// It is tried again; the class says how this try went. Nil: there is nothing to say, because nothing left.
        case again(OutcomeClass?, RetryCause)
        /// Nothing more of it is sent, on purpose. What its earlier attempts came to decides with the class how it ends.
        case stop(OutcomeClass)
        /// No answer came, and it is tried once more, at once, where it is not too late for that.
        case againAtOnce
        /// It waits until the gate opens, or until nothing holds it any more.
        case park
        /// This process is stopping; another one takes it.
        case returned
    }

    /// Reasons that Apple adds later go by the class of their status.
    static func verdict(status: Int, reason: String?) -> Verdict {
        let meaning = APNsMeaning(status: status, reason: reason)
        return switch (meaning.fault, meaning.retry) {
        case (nil, _): .final(.accepted)
        case (.token, _): .final(meaning.status == 410 ? .tokenGone : .tokenRejected)
        case (.job, _): .final(.rejected)
        case (.configuration, _), (.credential, _): .again(.misconfigured, .misconfigured)
        case (.rate, _): .again(.throttled, .throttled)
        case (.connection, .onNewConnection), (.apple, .onNewConnection): .again(.failed, .connectionFault)
        // The token of our connections is the fault, and time mends it.
        case (.connection, _): .again(.misconfigured, .misconfigured)
        case (.apple, _): .again(.failed, .serverFault)
        }
    }

    static func verdict(_ reason: NotSentReason) -> Verdict {
        switch reason {
        case .refused, .deadline, .notConnected, .queueFull, .congested: .again(nil, .notSent)
        case .poolPaused: .again(.misconfigured, .misconfigured)
        case .unavailable: .again(nil, .unavailable)
        case .shuttingDown: .returned
        }
    }

    /// The request left and no answer came: the notification's own policy decides.
    static func verdict(unansweredUnder policy: PushJob.OnUnknown) -> Verdict {
        switch policy {
        case .resend: .again(.unknown, .noAnswer)
        case .resendOnce: .againAtOnce
        case .drop: .final(.unknown)
        }
    }

    static func verdict(_ reason: StopReason) -> Verdict {
        switch reason {
        case .expired: .stop(.expired)
        case .fenced: .stop(.fenced)
        case .cancelled: .stop(.cancelled)
        case .held: .park
        }
    }

    /// The class of a delivery that will not be tried again although it is not done.
    /// - Parameter attempts: what all of them came to, the last one included.
    static func lastClass(after attempts: PushJob.EarlierOutcome, because end: RetryPlan.EndReason) -> OutcomeClass {
        switch end {
        case .attemptsUsedUp: OutcomeClass.failed.after(attempts)
        case .expiresBeforeRetry: OutcomeClass.expired.after(attempts)
        }
    }
}

/// Reasons of our own, where APNs was not asked. APNs' reasons are written in CamelCase, ours in snake_case.
enum OwnReason {
    static let noCredential = "no_credential"
    /// APNs asked to leave the device alone for a while, and that while is not over.
    static let deviceThrottled = "device_throttled"
    /// A newer one with the same collapse id takes its place.
    static let superseded = "superseded"
    /// A hold on everything, its lane, its app, its notification.
    static let everythingHeld = "everything_held"
    static let laneHeld = "lane_held"
    static let appHeld = "app_held"
    static let notificationHeld = "notification_held"
    /// Why nothing more was sent of a delivery that had left before.
    static let expired = OutcomeClass.expired.rawValue
    static let cancelled = OutcomeClass.cancelled.rawValue
    static let fenced = OutcomeClass.fenced.rawValue
    static let undecodable = "undecodable"
    static let unsupportedVersion = "unsupported_version"

    static let all = [
        noCredential, deviceThrottled, superseded, everythingHeld, laneHeld, appHeld, notificationHeld, expired, cancelled, fenced,
        undecodable, unsupportedVersion,
    ]
}
