import APNs
import PushModel

/// The next step for a delivery. APNs' reasons are one table (``APNsReason/row``); beside them are the reasons for a missing answer.
enum Consequence: Equatable, Sendable {
    case ends(OutcomeClass)
    /// It is tried again.
    case retries(RetryCause)
    /// Stopped on purpose. The results of its earlier attempts decide together with the class how it ends.
    case stops(OutcomeClass)
    /// No answer came, and it is tried once more, at once, if it is not too late for that.
    case sendsSecondCopy
    /// It waits until the gate opens, or no hold keeps it any more.
    case waits

    /// - Parameter policy: the notification's own, for a request that left and got no answer.
    init(_ result: APNsAnswer.Result, _ policy: PushJob.OnUnknown) {
        self =
            switch result {
            case .response(let status, let reason, _, _): Self.of(APNsMeaning(status: status, reason: reason).effect)
            case .notSent(.poolPaused): .retries(.misconfigured)
            case .notSent(.unavailable): .retries(.unavailable)
            case .notSent(.refused), .notSent(.deadline), .notSent(.notConnected), .notSent(.queueFull), .notSent(.congested),
                .notSent(.shuttingDown):
                .retries(.notSent)
            case .unknown: Self.ofSilence(policy)
            case .stopped(.expired): .stops(.expired)
            case .stopped(.fenced): .stops(.fenced)
            case .stopped(.cancelled): .stops(.cancelled)
            case .stopped(.held): .waits
            }
    }

    static func of(_ effect: APNsEffect) -> Consequence {
        switch effect {
        case .accepted: .ends(.accepted)
        case .tokenGone: .ends(.tokenGone)
        case .tokenRejected: .ends(.tokenRejected)
        case .rejected: .ends(.rejected)
        case .misconfigured: .retries(.misconfigured)
        case .throttled: .retries(.throttled)
        case .connectionFault: .retries(.connectionFault)
        case .serverFault: .retries(.serverFault)
        }
    }

    private static func ofSilence(_ policy: PushJob.OnUnknown) -> Consequence {
        switch policy {
        case .resend: .retries(.noAnswer)
        case .resendOnce: .sendsSecondCopy
        case .drop: .ends(.unknown)
        }
    }
}

/// Why a delivery is tried again.
enum RetryCause: Equatable, Sendable, CaseIterable {
    /// APNs: too many for this device or channel.
    case throttled
    /// APNs: 5xx. Apple asks for 15 minutes, which repeated 5xx get; the first tries come sooner, because most such outages are short.
    case serverFault
    /// The connection's fault, not the delivery's: another connection will do.
    case connectionFault
    /// The request left and no answer came.
    case noAnswer
    /// The request certainly did not leave.
    case notSent
    /// Topic, key or environment: an operator has to mend it first.
    case misconfigured
    /// The pool's breaker is open: APNs answers every request with 5xx.
    case unavailable
    /// Another delivery to the device or channel was throttled, and its wait is not over. The table has the least wait; what is left of
    /// that one is longer as a rule, and is never shortened.
    case deviceThrottled
    /// An operator's hold; ``HoldPace`` chooses the wait.
    case held
    /// APNs rejected the token in its environment; the other environment may accept it.
    case otherEnvironment

    struct Row {
        /// The outcome that is reported of the try. Nil: none, because no request left.
        let outcome: OutcomeClass?
        /// Whether the try is one of APNs' and uses up an attempt.
        let countsAsAttempt: Bool
        /// Seconds, by how often it happened before.
        let waits: [Double]
    }

    /// While nothing can be sent, a wait is no longer than the outage has lasted so far, so that after a short outage a delivery is late by
    /// about as much again.
    var row: Row {
        switch self {
        case .throttled: Row(outcome: .throttled, countsAsAttempt: true, waits: [5, 30, 120, 600, 900])
        case .serverFault: Row(outcome: .failed, countsAsAttempt: true, waits: [5, 30, 300, 900])
        case .connectionFault: Row(outcome: .failed, countsAsAttempt: true, waits: [1, 5, 30, 120, 600, 900])
        case .noAnswer: Row(outcome: .unknown, countsAsAttempt: true, waits: [2, 15, 60, 300, 900])
        case .otherEnvironment: Row(outcome: .tokenRejected, countsAsAttempt: true, waits: [1])
        case .misconfigured: Row(outcome: .misconfigured, countsAsAttempt: false, waits: [120, 600])
        case .deviceThrottled: Row(outcome: .throttled, countsAsAttempt: false, waits: [5])
        case .held: Row(outcome: .held, countsAsAttempt: false, waits: [1])
        case .notSent: Row(outcome: nil, countsAsAttempt: false, waits: [1, 1, 1, 1, 1, 5, 5, 5, 5, 5, 5, 5, 5, 30])
        case .unavailable:
            Row(outcome: nil, countsAsAttempt: false, waits: [5, 5, 5, 5, 5, 5, 5, 5, 5, 30, 30, 30, 30, 120, 120, 120, 120, 600])
        }
    }

    /// The result of the attempt before the retry.
    var leaves: PushJob.EarlierOutcome {
        guard row.countsAsAttempt else { return .none }
        return self == .noAnswer ? .unknown : .failed
    }
}

/// Reasons of our own, if APNs was not asked. APNs' reasons are written in CamelCase, ours in snake_case.
enum OwnReason {
    static let noCredential = "no_credential"
    /// APNs asked to leave the device alone for a while, which is not over.
    static let deviceThrottled = "device_throttled"
    /// A newer one with the same collapse id takes its place.
    static let superseded = "superseded"
    /// A hold on everything, its lane, its app, its notification.
    static let everythingHeld = "everything_held"
    static let laneHeld = "lane_held"
    static let appHeld = "app_held"
    static let notificationHeld = "notification_held"
    /// Why a delivery that had left before was stopped.
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

/// Reasons as labels: APNs' reasons and our own. All other texts share one label.
enum OutcomeReason {
    static let none = "none"
    static let other = "other"

    private static let known: Set<String> = Set(
        APNsReason.allCases.map(\.rawValue) + NotSentReason.allCases.map(\.rawValue) + UnknownReason.allCases.map(\.rawValue)
            + OwnReason.all)

    static func label(_ reason: String?) -> String {
        guard let reason else { return none }
        return known.contains(reason) ? reason : other
    }
}
