import APNs
import PushModel
import Testing

@testable import Dispatcher

@Suite("What an answer means for its delivery")
struct OutcomeTableTests {
    /// Apple's reasons (Handling notification responses from APNs), row by row, typed from that page and not from the code. The verdicts
    /// are our reading of it.
    static let table: [(Int, String?, OutcomeTable.Verdict)] = [
        (200, nil, .final(.accepted)),
        (400, "BadCollapseId", .final(.rejected)),
        (400, "BadDeviceToken", .final(.tokenRejected)),
        (400, "BadExpirationDate", .final(.rejected)),
        (400, "BadMessageId", .final(.rejected)),
        (400, "BadPriority", .final(.rejected)),
        (400, "BadTopic", .again(.misconfigured, .misconfigured)),
        (400, "DeviceTokenNotForTopic", .final(.tokenRejected)),
        (400, "DuplicateHeaders", .final(.rejected)),
        (400, "IdleTimeout", .again(.failed, .connectionFault)),
        (400, "InvalidPushType", .final(.rejected)),
        (400, "MissingDeviceToken", .final(.rejected)),
        (400, "MissingTopic", .again(.misconfigured, .misconfigured)),
        (400, "PayloadEmpty", .final(.rejected)),
        (400, "TopicDisallowed", .again(.misconfigured, .misconfigured)),
        (403, "BadCertificate", .again(.misconfigured, .misconfigured)),
        (403, "BadCertificateEnvironment", .again(.misconfigured, .misconfigured)),
        (403, "ExpiredProviderToken", .again(.failed, .connectionFault)),
        (403, "Forbidden", .again(.misconfigured, .misconfigured)),
        (403, "InvalidProviderToken", .again(.misconfigured, .misconfigured)),
        (403, "MissingProviderToken", .again(.misconfigured, .misconfigured)),
        (403, "UnrelatedKeyIdInToken", .again(.failed, .connectionFault)),
        (403, "BadEnvironmentKeyIdInToken", .again(.misconfigured, .misconfigured)),
        (403, "BadEnvironmentKeyInToken", .again(.misconfigured, .misconfigured)),
        (404, "BadPath", .final(.rejected)),
        (405, "MethodNotAllowed", .final(.rejected)),
        (410, "ExpiredToken", .final(.tokenGone)),
        (410, "Unregistered", .final(.tokenGone)),
        (413, "PayloadTooLarge", .final(.rejected)),
        (429, "TooManyProviderTokenUpdates", .again(.misconfigured, .misconfigured)),
        (429, "TooManyRequests", .again(.throttled, .throttled)),
        (500, "InternalServerError", .again(.failed, .serverFault)),
        (503, "ServiceUnavailable", .again(.failed, .serverFault)),
        (503, "Service Unavailable", .again(.failed, .serverFault)),
        (503, "Shutdown", .again(.failed, .connectionFault)),
    ]

    @Test("Every reason of APNs means what the table says", arguments: table)
    func knows(status: Int, reason: String?, verdict: OutcomeTable.Verdict) {
        #expect(OutcomeTable.verdict(status: status, reason: reason) == verdict)
    }

    @Test("No reason is missing from the table")
    func isComplete() {
        #expect(Set(Self.table.compactMap(\.1)) == Set(APNsReason.allCases.map(\.rawValue)))
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
