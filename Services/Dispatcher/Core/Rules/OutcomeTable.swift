import APNs
import PushModel

/// What an answer means for its delivery: one row for each of APNs' reasons (APNS.md section 4.2) and each reason why there is no answer.
///
/// What the connection and the pool do about a reason (replace the connection, pause on a bad key) stands in ``APNsReason/row``.
enum OutcomeTable {
    /// What becomes of a delivery.
    enum Verdict: Equatable, Sendable {
        /// The delivery is done.
        case final(OutcomeClass)
        /// It is tried again; the class says how this try went. Nil: there is nothing to say, because nothing left.
        case again(OutcomeClass?, RetryCause)
        /// It certainly did not leave: another connection may take it at once, a bounded number of times.
        case resubmit
        /// It waits here until the gate opens.
        case park
        /// This process is stopping; another one takes it.
        case returned
    }

    static func verdict(status: Int, reason: String?) -> Verdict {
        if (200..<300).contains(status) { return .final(.accepted) }
        guard let reason = reason.flatMap(APNsReason.init(rawValue:)) else { return verdict(unknownReasonWith: status) }
        return switch reason {
        case .expiredToken, .unregistered: .final(.tokenGone)
        case .badDeviceToken, .deviceTokenNotForTopic: .final(.tokenRejected)
        case .badCollapseID, .badExpirationDate, .badMessageID, .badPriority, .duplicateHeaders, .invalidPushType, .missingDeviceToken,
            .payloadEmpty, .badPath, .methodNotAllowed, .payloadTooLarge:
            .final(.rejected)
        case .badTopic, .missingTopic, .topicDisallowed: .again(.misconfigured, .misconfigured)
        case .badCertificate, .badCertificateEnvironment, .forbidden, .invalidProviderToken, .missingProviderToken,
            .badEnvironmentKeyIDInToken, .badEnvironmentKeyInToken, .tooManyProviderTokenUpdates:
            .again(.misconfigured, .misconfigured)
        case .idleTimeout, .expiredProviderToken, .unrelatedKeyIDInToken, .shutdown: .again(.failed, .connectionFault)
        case .tooManyRequests: .again(.throttled, .throttled)
        case .internalServerError, .serviceUnavailable, .serviceUnavailableSpaced: .again(.failed, .serverFault)
        }
    }

    /// Reasons that Apple adds later go by status.
    private static func verdict(unknownReasonWith status: Int) -> Verdict {
        switch status {
        case 403: .again(.misconfigured, .misconfigured)
        case 410: .final(.tokenGone)
        case 429: .again(.throttled, .throttled)
        case 400..<500: .final(.rejected)
        default: .again(.failed, .serverFault)
        }
    }

    static func verdict(_ reason: NotSentReason) -> Verdict {
        switch reason {
        case .refused, .deadline: .resubmit
        case .notConnected, .parkingFull, .congested: .again(nil, .notSent)
        case .poolPaused: .again(.misconfigured, .misconfigured)
        case .malformed: .final(.rejected)
        case .shuttingDown: .returned
        }
    }

    /// The request left and no answer came: the notification's own policy decides.
    static func verdict(unansweredUnder policy: PushJob.OnUnknown) -> Verdict {
        switch policy {
        case .resend: .again(.unknown, .noAnswer)
        case .drop: .final(.unknown)
        }
    }

    static func verdict(_ reason: StopReason) -> Verdict {
        switch reason {
        case .expired: .final(.expired)
        case .fenced: .final(.fenced)
        case .cancelled: .final(.cancelled)
        case .held: .park
        }
    }

    /// The class of a delivery that will not be tried again although it is not done.
    static func lastClass(after cause: RetryCause, because end: RetryPlan.EndReason) -> OutcomeClass {
        switch (end, cause) {
        case (.attemptsUsedUp, _): .failed
        // It may have arrived: to call it failed would be to claim that it did not.
        case (.expiresBeforeRetry, .noAnswer): .unknown
        case (.expiresBeforeRetry, .notSent), (.expiresBeforeRetry, .misconfigured): .expired
        case (.expiresBeforeRetry, _): .failed
        }
    }
}

/// Reasons of our own, where APNs was not asked. APNs' reasons are written in CamelCase, ours in snake_case.
enum OwnReason {
    static let noCredential = "no_credential"
    static let undecodable = "undecodable"
    static let unsupportedVersion = "unsupported_version"

    static let all = [noCredential, undecodable, unsupportedVersion]
}
