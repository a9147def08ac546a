import Testing

@testable import APNs

@Suite("What APNs' reasons mean")
struct APNsReasonTests {
    /// Apple's reasons, row by row, typed from Apple's page "Handling notification responses from APNs" and not from the code. Effect and
    /// reaction are our interpretation.
    static let table: [(Int, String, APNsEffect, APNsConnectionReaction)] = [
        (400, "BadCollapseId", .rejected, .keep),
        (400, "BadDeviceToken", .tokenRejected, .keep),
        (400, "BadExpirationDate", .rejected, .keep),
        (400, "BadMessageId", .rejected, .keep),
        (400, "BadPriority", .rejected, .keep),
        (400, "BadTopic", .misconfigured, .keep),
        (400, "DeviceTokenNotForTopic", .rejected, .keep),
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
        // From Apple's page "Handling error responses from APNs", which is about broadcasts and channels. The reasons of both pages stand
        // above.
        (400, "FeatureNotEnabled", .misconfigured, .keep),
        (400, "MissingChannelId", .rejected, .keep),
        (400, "BadChannelId", .rejected, .keep),
        (400, "ChannelNotRegistered", .rejected, .keep),
        (400, "BadRequestParams", .rejected, .keep),
        (400, "BadRequestPayload", .rejected, .keep),
        (400, "MissingPushType", .rejected, .keep),
        (400, "CannotCreateChannelConfig", .rejected, .keep),
        (403, "TopicMismatch", .misconfigured, .keep),
    ]

    @Test("Every reason has the effect and the reaction of the table", arguments: table)
    func knownReasons(
        status: Int, reason: String, effect: APNsEffect, reaction: APNsConnectionReaction
    ) {
        let meaning = APNsMeaning(status: status, reason: reason)
        #expect(meaning.effect == effect)
        #expect(meaning.reaction == reaction)
        #expect(meaning.isAuthenticated == (status != 403))
        #expect(APNsReason(rawValue: reason)?.row.status == status)
    }

    @Test("The table holds every reason") func completeTable() {
        #expect(Set(Self.table.map(\.1)) == Set(APNsReason.allCases.map(\.rawValue)))
    }

    @Test(
        "The status decides what an unknown reason means",
        arguments: [
            (200, nil, APNsEffect.accepted, APNsConnectionReaction.keep, true),
            (400, "SomethingNew", .rejected, .keep, true),
            (403, "SomethingNew", .misconfigured, .keep, false),
            (403, nil, .misconfigured, .keep, false),
            (410, nil, .tokenGone, .keep, true),
            (429, nil, .throttled, .keep, true),
            (500, nil, .serverFault, .retire, true),
            (599, "SomethingNew", .serverFault, .retire, true),
        ])
    func unknownReasons(
        status: Int, reason: String?, effect: APNsEffect, reaction: APNsConnectionReaction, isAuthenticated: Bool
    ) {
        let meaning = APNsMeaning(status: status, reason: reason)
        #expect(meaning.effect == effect)
        #expect(meaning.reaction == reaction)
        #expect(meaning.isAuthenticated == isAuthenticated)
    }

    @Test("No reason that is our own fault rejects a token") func ownFaults() {
        let ours = Self.table.filter {
            [403, 404, 405, 413, 500, 503].contains($0.0) || $0.1.contains("Topic")
        }
        #expect(ours.count > 10)
        for row in ours { #expect(![.tokenGone, .tokenRejected].contains(APNsMeaning(status: row.0, reason: row.1).effect)) }
    }
}
