import Testing

@testable import APNs

@Suite("What APNs' reasons mean")
struct APNsReasonTests {
    /// Apple's reasons (Handling notification responses from APNs), row by row, typed from that page and not from the code. Effect and
    /// reaction are our reading of it.
    static let table: [(Int, String, APNsEffect, APNsConnectionReaction)] = [
        (400, "BadCollapseId", .rejected, .keep),
        (400, "BadDeviceToken", .tokenRejected, .keep),
        (400, "BadExpirationDate", .rejected, .keep),
        (400, "BadMessageId", .rejected, .keep),
        (400, "BadPriority", .rejected, .keep),
        (400, "BadTopic", .misconfigured, .keep),
        (400, "DeviceTokenNotForTopic", .tokenRejected, .keep),
        (400, "DuplicateHeaders", .rejected, .keep),
        (400, "IdleTimeout", .connectionFault, .retire),
        (400, "InvalidPushType", .rejected, .keep),
        (400, "MissingDeviceToken", .rejected, .keep),
        (400, "MissingTopic", .misconfigured, .keep),
        (400, "PayloadEmpty", .rejected, .keep),
        (400, "TopicDisallowed", .misconfigured, .keep),
        (403, "BadCertificate", .misconfigured, .pausePool),
        (403, "BadCertificateEnvironment", .misconfigured, .pausePool),
        (403, "ExpiredProviderToken", .connectionFault, .replaceForToken),
        (403, "Forbidden", .misconfigured, .keep),
        (403, "InvalidProviderToken", .misconfigured, .pausePool),
        (403, "MissingProviderToken", .misconfigured, .pausePool),
        (403, "UnrelatedKeyIdInToken", .connectionFault, .replaceForToken),
        (403, "BadEnvironmentKeyIdInToken", .misconfigured, .pausePool),
        (403, "BadEnvironmentKeyInToken", .misconfigured, .pausePool),
        (404, "BadPath", .rejected, .keep),
        (405, "MethodNotAllowed", .rejected, .keep),
        (410, "ExpiredToken", .tokenGone, .keep),
        (410, "Unregistered", .tokenGone, .keep),
        (413, "PayloadTooLarge", .rejected, .keep),
        (429, "TooManyProviderTokenUpdates", .misconfigured, .retire),
        (429, "TooManyRequests", .throttled, .keep),
        (500, "InternalServerError", .serverFault, .retire),
        (503, "ServiceUnavailable", .serverFault, .retire),
        (503, "Service Unavailable", .serverFault, .retire),
        (503, "Shutdown", .connectionFault, .retire),
    ]

    @Test(arguments: table)
    func everyReasonMeansWhatTheTableSays(
        status: Int, reason: String, effect: APNsEffect, reaction: APNsConnectionReaction
    ) {
        let meaning = APNsMeaning(status: status, reason: reason)
        #expect(meaning.effect == effect)
        #expect(meaning.reaction == reaction)
        #expect(meaning.isAuthenticated == (status != 403))
        #expect(APNsReason(rawValue: reason)?.row.status == status)
    }

    @Test func noReasonIsMissingFromTheTable() {
        #expect(Set(Self.table.map(\.1)) == Set(APNsReason.allCases.map(\.rawValue)))
    }

    @Test(arguments: [
        (200, nil, APNsEffect.accepted, APNsConnectionReaction.keep, true),
        (400, "SomethingNew", .rejected, .keep, true),
        (403, "SomethingNew", .misconfigured, .keep, false),
        (403, nil, .misconfigured, .keep, false),
        (410, nil, .tokenGone, .keep, true),
        (429, nil, .throttled, .keep, true),
        (500, nil, .serverFault, .retire, true),
        (599, "SomethingNew", .serverFault, .retire, true),
    ])
    func unknownReasonsGoByStatus(
        status: Int, reason: String?, effect: APNsEffect, reaction: APNsConnectionReaction, isAuthenticated: Bool
    ) {
        let meaning = APNsMeaning(status: status, reason: reason)
        #expect(meaning.effect == effect)
        #expect(meaning.reaction == reaction)
        #expect(meaning.isAuthenticated == isAuthenticated)
    }

    @Test func ourOwnFaultsAreNeverTheTokens() {
        let ours = Self.table.filter {
            [403, 404, 405, 413, 500, 503].contains($0.0) || $0.1.contains("Topic") && $0.1 != "DeviceTokenNotForTopic"
        }
        #expect(ours.count > 10)
        for row in ours { #expect(![.tokenGone, .tokenRejected].contains(APNsMeaning(status: row.0, reason: row.1).effect)) }
    }
}
