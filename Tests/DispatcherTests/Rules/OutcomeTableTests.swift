import APNs
import PushModel
import Testing

@testable import Dispatcher

@Suite("What an answer means for its delivery")
struct OutcomeTableTests {
    @Test(
        "Every reason of APNs means what APNS.md section 4.2 says",
        arguments: [
            (200, nil, .final(.accepted)), (410, "Unregistered", .final(.tokenGone)), (410, "ExpiredToken", .final(.tokenGone)),
            (400, "BadDeviceToken", .final(.tokenRejected)), (400, "DeviceTokenNotForTopic", .final(.tokenRejected)),
            (400, "PayloadEmpty", .final(.rejected)), (413, "PayloadTooLarge", .final(.rejected)), (404, "BadPath", .final(.rejected)),
            (405, "MethodNotAllowed", .final(.rejected)), (400, "BadCollapseId", .final(.rejected)),
            (400, "BadPriority", .final(.rejected)),
            (400, "TopicDisallowed", .again(.misconfigured, .misconfigured)), (400, "BadTopic", .again(.misconfigured, .misconfigured)),
            (403, "InvalidProviderToken", .again(.misconfigured, .misconfigured)),
            (403, "BadEnvironmentKeyInToken", .again(.misconfigured, .misconfigured)),
            (403, "Forbidden", .again(.misconfigured, .misconfigured)),
            (429, "TooManyProviderTokenUpdates", .again(.misconfigured, .misconfigured)),
            (403, "ExpiredProviderToken", .again(.failed, .connectionFault)), (429, "TooManyRequests", .again(.throttled, .throttled)),
            (500, "InternalServerError", .again(.failed, .serverFault)), (503, "ServiceUnavailable", .again(.failed, .serverFault)),
            (503, "Shutdown", .again(.failed, .connectionFault)),
        ] as [(Int, String?, OutcomeTable.Verdict)])
    func knows(status: Int, reason: String?, verdict: OutcomeTable.Verdict) {
        #expect(OutcomeTable.verdict(status: status, reason: reason) == verdict)
    }

    @Test(
        "A reason that nobody knows goes by its status",
        arguments: [
            (400, .final(.rejected)), (403, .again(.misconfigured, .misconfigured)), (410, .final(.tokenGone)), (418, .final(.rejected)),
            (429, .again(.throttled, .throttled)), (500, .again(.failed, .serverFault)), (599, .again(.failed, .serverFault)),
            (302, .again(.failed, .serverFault)),
        ] as [(Int, OutcomeTable.Verdict)])
    func fallsBack(status: Int, verdict: OutcomeTable.Verdict) {
        #expect(OutcomeTable.verdict(status: status, reason: "NewInTheYear2040") == verdict)
        #expect(OutcomeTable.verdict(status: status, reason: nil) == verdict)
    }

    @Test("Only the token's own fault names a token, and our own fault is never final", arguments: APNsReason.allCases)
    func sparesTokens(reason: APNsReason) {
        let verdict = OutcomeTable.verdict(status: reason.row.status, reason: reason.rawValue)
        let isAboutToken = verdict == .final(.tokenGone) || verdict == .final(.tokenRejected)
        #expect(isAboutToken == (reason.row.fault == .token))
        if [.credential, .configuration, .connection, .rate, .apple].contains(reason.row.fault) {
            if case .final = verdict { Issue.record("\(reason) ends a delivery that did nothing wrong") }
        }
    }
}
