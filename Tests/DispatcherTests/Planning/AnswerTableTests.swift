import APNs
import PushModel
import Testing

@testable import Dispatcher

@Suite("The meaning of an answer for its delivery")
struct AnswerTableTests {
    /// Apple's reasons, row by row, typed from Apple's page "Handling notification responses from APNs" and not from the code. The effect
    /// is our interpretation.
    static let table: [(Int, String?, Consequence)] = [
        (200, nil, .ends(.accepted)),
        (400, "BadCollapseId", .ends(.rejected)),
        (400, "BadDeviceToken", .ends(.tokenRejected)),
        (400, "BadExpirationDate", .ends(.rejected)),
        (400, "BadMessageId", .ends(.rejected)),
        (400, "BadPriority", .ends(.rejected)),
        (400, "BadTopic", .retries(.misconfigured)),
        (400, "DeviceTokenNotForTopic", .ends(.rejected)),
        (400, "DuplicateHeaders", .ends(.rejected)),
        (400, "IdleTimeout", .retries(.connectionFault)),
        (400, "InvalidPushType", .ends(.rejected)),
        (400, "MissingDeviceToken", .ends(.rejected)),
        (400, "MissingTopic", .retries(.misconfigured)),
        (400, "PayloadEmpty", .ends(.rejected)),
        (400, "TopicDisallowed", .retries(.misconfigured)),
        (403, "BadCertificate", .retries(.misconfigured)),
        (403, "BadCertificateEnvironment", .retries(.misconfigured)),
        (403, "ExpiredProviderToken", .retries(.connectionFault)),
        (403, "Forbidden", .retries(.misconfigured)),
        (403, "InvalidProviderToken", .retries(.misconfigured)),
        (403, "MissingProviderToken", .retries(.misconfigured)),
        (403, "UnrelatedKeyIdInToken", .retries(.connectionFault)),
        (403, "BadEnvironmentKeyIdInToken", .retries(.misconfigured)),
        (403, "BadEnvironmentKeyInToken", .retries(.misconfigured)),
        (404, "BadPath", .ends(.rejected)),
        (405, "MethodNotAllowed", .ends(.rejected)),
        (410, "ExpiredToken", .ends(.tokenGone)),
        (410, "Unregistered", .ends(.tokenGone)),
        (413, "PayloadTooLarge", .ends(.rejected)),
        (429, "TooManyProviderTokenUpdates", .retries(.misconfigured)),
        (429, "TooManyRequests", .retries(.throttled)),
        (500, "InternalServerError", .retries(.serverFault)),
        (503, "ServiceUnavailable", .retries(.serverFault)),
        (503, "Service Unavailable", .retries(.serverFault)),
        (503, "Shutdown", .retries(.connectionFault)),
        (400, "FeatureNotEnabled", .retries(.misconfigured)),
        (400, "MissingChannelId", .ends(.rejected)),
        (400, "BadChannelId", .ends(.rejected)),
        (400, "ChannelNotRegistered", .ends(.rejected)),
        (400, "BadRequestParams", .ends(.rejected)),
        (400, "BadRequestPayload", .ends(.rejected)),
        (400, "MissingPushType", .ends(.rejected)),
        (400, "CannotCreateChannelConfig", .ends(.rejected)),
        (403, "TopicMismatch", .retries(.misconfigured)),
    ]

    @Test("Every reason of APNs means what the table says", arguments: table)
    func knows(status: Int, reason: String?, expected: Consequence) {
        #expect(consequence(status, reason) == expected)
    }

    @Test("No reason is missing from the table")
    func isComplete() {
        #expect(Set(Self.table.compactMap(\.1)) == Set(APNsReason.allCases.map(\.rawValue)))
    }

    @Test(
        "The status decides what an unknown reason means",
        arguments: [
            (400, .ends(.rejected)), (403, .retries(.misconfigured)), (410, .ends(.tokenGone)), (418, .ends(.rejected)),
            (429, .retries(.throttled)), (500, .retries(.serverFault)), (599, .retries(.serverFault)),
            (302, .retries(.serverFault)),
        ] as [(Int, Consequence)])
    func fallsBack(status: Int, expected: Consequence) {
        #expect(consequence(status, "NewInTheYear2040") == expected)
        #expect(consequence(status, nil) == expected)
    }

    private func consequence(_ status: Int, _ reason: String?) -> Consequence {
        Consequence(.response(status: status, reason: reason, timestamp: nil, retryAfter: nil), .resend)
    }

    @Test("Only a reason about the token itself ends the token, and only a fault of the message ends a delivery", arguments: table)
    func sparesTokens(status: Int, reason: String?, expected: Consequence) {
        let tokens = ["BadDeviceToken", "ExpiredToken", "Unregistered"]
        let isAboutToken = expected == .ends(.tokenGone) || expected == .ends(.tokenRejected)
        #expect(isAboutToken == tokens.contains(reason ?? ""))
        if [403, 429, 500, 503].contains(status), case .ends = expected {
            Issue.record("\(reason ?? "") ends a delivery that did nothing wrong")
        }
    }
}
