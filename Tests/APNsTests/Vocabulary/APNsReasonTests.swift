import Testing

@testable import APNs

@Suite("What APNs' reasons mean")
struct APNsReasonTests {
    /// Apple's reasons (Handling notification responses from APNs), row by row, typed from that page and not from the code. Fault, retry
    /// and reaction are our reading of it.
    static let table: [(Int, String, APNsFault, APNsRetry, APNsConnectionReaction)] = [
        (400, "BadCollapseId", .job, .never, .keep),
        (400, "BadDeviceToken", .token, .never, .keep),
        (400, "BadExpirationDate", .job, .never, .keep),
        (400, "BadMessageId", .job, .never, .keep),
        (400, "BadPriority", .job, .never, .keep),
        (400, "BadTopic", .configuration, .afterFix, .keep),
        (400, "DeviceTokenNotForTopic", .token, .never, .keep),
        (400, "DuplicateHeaders", .job, .never, .keep),
        (400, "IdleTimeout", .connection, .onNewConnection, .retire),
        (400, "InvalidPushType", .job, .never, .keep),
        (400, "MissingDeviceToken", .job, .never, .keep),
        (400, "MissingTopic", .configuration, .afterFix, .keep),
        (400, "PayloadEmpty", .job, .never, .keep),
        (400, "TopicDisallowed", .configuration, .afterFix, .keep),
        (403, "BadCertificate", .credential, .afterFix, .pausePool),
        (403, "BadCertificateEnvironment", .credential, .afterFix, .pausePool),
        (403, "ExpiredProviderToken", .connection, .onNewConnection, .replaceForToken),
        (403, "Forbidden", .credential, .never, .keep),
        (403, "InvalidProviderToken", .credential, .afterFix, .pausePool),
        (403, "MissingProviderToken", .credential, .afterFix, .pausePool),
        (403, "UnrelatedKeyIdInToken", .connection, .onNewConnection, .replaceForToken),
        (403, "BadEnvironmentKeyIdInToken", .credential, .afterFix, .pausePool),
        (403, "BadEnvironmentKeyInToken", .credential, .afterFix, .pausePool),
        (404, "BadPath", .job, .never, .keep),
        (405, "MethodNotAllowed", .job, .never, .keep),
        (410, "ExpiredToken", .token, .never, .keep),
        (410, "Unregistered", .token, .never, .keep),
        (413, "PayloadTooLarge", .job, .never, .keep),
        (429, "TooManyProviderTokenUpdates", .connection, .later, .retire),
        (429, "TooManyRequests", .rate, .later, .keep),
        (500, "InternalServerError", .apple, .later, .retire),
        (503, "ServiceUnavailable", .apple, .later, .retire),
        (503, "Service Unavailable", .apple, .later, .retire),
        (503, "Shutdown", .apple, .onNewConnection, .retire),
    ]

    @Test(arguments: table)
    func everyReasonMeansWhatTheTableSays(
        status: Int, reason: String, fault: APNsFault, retry: APNsRetry, reaction: APNsConnectionReaction
    ) {
        let meaning = APNsMeaning(status: status, reason: reason)
        #expect(meaning.fault == fault)
        #expect(meaning.retry == retry)
        #expect(meaning.reaction == reaction)
        #expect(meaning.isAuthenticated == (status != 403))
        #expect(APNsReason(rawValue: reason)?.row.status == status)
    }

    @Test func noReasonIsMissingFromTheTable() {
        #expect(Set(Self.table.map(\.1)) == Set(APNsReason.allCases.map(\.rawValue)))
    }

    @Test(arguments: [
        (200, nil, APNsFault?.none, APNsRetry.never, APNsConnectionReaction.keep, true),
        (400, "SomethingNew", .job, .never, .keep, true),
        (403, "SomethingNew", .credential, .afterFix, .keep, false),
        (403, nil, .credential, .afterFix, .keep, false),
        (410, nil, .token, .never, .keep, true),
        (429, nil, .rate, .later, .keep, true),
        (500, nil, .apple, .later, .retire, true),
        (599, "SomethingNew", .apple, .later, .retire, true),
    ])
    func unknownReasonsGoByStatus(
        status: Int, reason: String?, fault: APNsFault?, retry: APNsRetry, reaction: APNsConnectionReaction, isAuthenticated: Bool
    ) {
        let meaning = APNsMeaning(status: status, reason: reason)
        #expect(meaning.fault == fault)
        #expect(meaning.retry == retry)
        #expect(meaning.reaction == reaction)
        #expect(meaning.isAuthenticated == isAuthenticated)
    }

    @Test func ourOwnFaultsAreNeverTheTokens() {
        let ours = Self.table.filter {
            [403, 404, 405, 413, 500, 503].contains($0.0) || $0.1.contains("Topic") && $0.1 != "DeviceTokenNotForTopic"
        }
        #expect(ours.count > 10)
        for row in ours { #expect(APNsMeaning(status: row.0, reason: row.1).fault != .token) }
    }
}
