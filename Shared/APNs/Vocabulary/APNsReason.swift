/// Every reason APNs documents (Apple: Handling notification responses from APNs) or was seen to send (docs/apns.md, Answers), spelled as
/// on the wire.
package enum APNsReason: String, Sendable, CaseIterable {
    case badCollapseID = "BadCollapseId"
    case badDeviceToken = "BadDeviceToken"
    case badExpirationDate = "BadExpirationDate"
    case badMessageID = "BadMessageId"
    case badPriority = "BadPriority"
    case badTopic = "BadTopic"
    case deviceTokenNotForTopic = "DeviceTokenNotForTopic"
    case duplicateHeaders = "DuplicateHeaders"
    case idleTimeout = "IdleTimeout"
    case invalidPushType = "InvalidPushType"
    case missingDeviceToken = "MissingDeviceToken"
    case missingTopic = "MissingTopic"
    case payloadEmpty = "PayloadEmpty"
    case topicDisallowed = "TopicDisallowed"
    case badCertificate = "BadCertificate"
    case badCertificateEnvironment = "BadCertificateEnvironment"
    case expiredProviderToken = "ExpiredProviderToken"
    case forbidden = "Forbidden"
    case invalidProviderToken = "InvalidProviderToken"
    case missingProviderToken = "MissingProviderToken"
    case unrelatedKeyIDInToken = "UnrelatedKeyIdInToken"
    /// As Apple documents it.
    case badEnvironmentKeyIDInToken = "BadEnvironmentKeyIdInToken"
    /// As it was seen on the wire.
    case badEnvironmentKeyInToken = "BadEnvironmentKeyInToken"
    case badPath = "BadPath"
    case methodNotAllowed = "MethodNotAllowed"
    case expiredToken = "ExpiredToken"
    case unregistered = "Unregistered"
    case payloadTooLarge = "PayloadTooLarge"
    case tooManyProviderTokenUpdates = "TooManyProviderTokenUpdates"
    case tooManyRequests = "TooManyRequests"
    case internalServerError = "InternalServerError"
    case serviceUnavailable = "ServiceUnavailable"
    /// As the channel API documents it.
    case serviceUnavailableSpaced = "Service Unavailable"
    case shutdown = "Shutdown"
}

/// What an answer means for the delivery. Where Apple's text leaves two, the table has the one that never destroys anything.
package enum APNsEffect: Sendable, CaseIterable {
    case accepted
    /// The token is retired.
    case tokenGone
    /// The token, its environment or its topic: hence the caller's brake.
    case tokenRejected
    /// The payload or a header of this message.
    case rejected
    /// Key, certificate, team, topic or the app's set-up: only a person mends it.
    case misconfigured
    /// Too many to one device.
    case throttled
    /// This connection; the message is innocent, and another connection will do.
    case connectionFault
    /// APNs itself has one.
    case serverFault
}

/// What a connection does because of an answer or a GOAWAY.
package enum APNsConnectionReaction: String, Sendable, CaseIterable {
    case keep
    /// Take it out of rotation and open another (docs/apns.md, Answers).
    case retire
    /// As `retire`: whatever token it is shown, this connection stays wedged (docs/apns.md, Provider tokens). Pauses the pool when the next
    /// one says so too.
    case replaceForToken
    /// Another connection would hear the same: stop the pool and probe.
    case pausePool
}

extension APNsReason {
    /// What one reason means. The status is Apple's; what follows is our reading of Apple's words.
    package struct Row: Equatable, Sendable {
        package let status: Int
        package let effect: APNsEffect
        package let reaction: APNsConnectionReaction

        fileprivate init(_ status: Int, _ effect: APNsEffect, _ reaction: APNsConnectionReaction = .keep) {
            self.status = status
            self.effect = effect
            self.reaction = reaction
        }
    }

    package var row: Row {
        switch self {
        case .badCollapseID, .badExpirationDate, .badMessageID, .badPriority, .duplicateHeaders, .invalidPushType, .missingDeviceToken,
            .payloadEmpty:
            Row(400, .rejected)
        case .badDeviceToken, .deviceTokenNotForTopic: Row(400, .tokenRejected)
        case .badTopic, .missingTopic, .topicDisallowed: Row(400, .misconfigured)
        case .idleTimeout: Row(400, .connectionFault, .retire)
        case .badCertificate, .badCertificateEnvironment, .invalidProviderToken, .missingProviderToken, .badEnvironmentKeyIDInToken,
            .badEnvironmentKeyInToken:
            Row(403, .misconfigured, .pausePool)
        case .expiredProviderToken, .unrelatedKeyIDInToken: Row(403, .connectionFault, .replaceForToken)
        // Said of an action, not of the key: pausing everything for it would let one request stop an app.
        case .forbidden: Row(403, .misconfigured)
        case .badPath: Row(404, .rejected)
        case .methodNotAllowed: Row(405, .rejected)
        case .expiredToken, .unregistered: Row(410, .tokenGone)
        case .payloadTooLarge: Row(413, .rejected)
        // The token of our connections is the fault, and time mends it.
        case .tooManyProviderTokenUpdates: Row(429, .misconfigured, .retire)
        case .tooManyRequests: Row(429, .throttled)
        case .internalServerError: Row(500, .serverFault, .retire)
        case .serviceUnavailable, .serviceUnavailableSpaced: Row(503, .serverFault, .retire)
        case .shutdown: Row(503, .connectionFault, .retire)
        }
    }
}

/// What an answer means to whoever sent the request.
package struct APNsMeaning: Equatable, Sendable {
    package let effect: APNsEffect
    package let reaction: APNsConnectionReaction
    /// APNs knew who we are: the connection may use more than one stream (docs/apns.md, Streams).
    package let isAuthenticated: Bool

    /// - Parameters:
    ///   - status: APNs' `:status`.
    ///   - reason: verbatim; nil where there was none. An unknown one goes by the status's class.
    package init(status: Int, reason: String?) {
        isAuthenticated = status != 403
        if !(200..<300).contains(status), let row = reason.flatMap(APNsReason.init(rawValue:))?.row {
            (effect, reaction) = (row.effect, row.reaction)
            return
        }
        (effect, reaction) =
            switch status {
            case 200..<300: (.accepted, .keep)
            case 403: (.misconfigured, .keep)
            case 410: (.tokenGone, .keep)
            case 429: (.throttled, .keep)
            case 400..<500: (.rejected, .keep)
            default: (.serverFault, .retire)
            }
    }
}
