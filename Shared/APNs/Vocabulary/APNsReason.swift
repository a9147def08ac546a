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
    /// The spelling that Apple documents.
    case badEnvironmentKeyIDInToken = "BadEnvironmentKeyIdInToken"
    /// The spelling that was seen on the wire.
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
    /// The spelling that the channel API's page documents.
    case serviceUnavailableSpaced = "Service Unavailable"
    case shutdown = "Shutdown"
    // Of broadcasts and channels only.
    case featureNotEnabled = "FeatureNotEnabled"
    case missingChannelID = "MissingChannelId"
    case badChannelID = "BadChannelId"
    case channelNotRegistered = "ChannelNotRegistered"
    case badRequestParams = "BadRequestParams"
    case badRequestPayload = "BadRequestPayload"
    case missingPushType = "MissingPushType"
    case cannotCreateChannelConfig = "CannotCreateChannelConfig"
    case topicMismatch = "TopicMismatch"
}

/// The effect of an answer on the delivery. If Apple's text allows two, the table has the one that never destroys anything.
package enum APNsEffect: Sendable, CaseIterable {
    case accepted
    /// The token is retired.
    case tokenGone
    /// The fault may be the token's, its environment's or its topic's: hence the caller's brake.
    case tokenRejected
    /// The payload or a header of this message.
    case rejected
    /// Key, certificate, team, topic or the app's set-up: only an operator can correct it.
    case misconfigured
    /// Too many to one device or channel.
    case throttled
    /// The connection's fault, not the message's: another connection will do.
    case connectionFault
    /// APNs itself has one.
    case serverFault
}

/// A connection's reaction to an answer or a GOAWAY.
package enum APNsConnectionReaction: String, Sendable, CaseIterable {
    case keep
    /// Take it out of rotation and open another (docs/apns.md, Answers).
    case retire
    /// Do as `retire`: no new token helps on this connection (docs/apns.md, Provider tokens). Pauses the pool when the next one reports it
    /// too.
    case replaceForToken
    /// Another connection would get the same answer: stop the pool and probe.
    case pausePool
}

extension APNsReason {
    /// The meaning of one reason. The status is Apple's; the rest is our reading of Apple's text.
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
            .payloadEmpty, .missingChannelID, .badChannelID, .channelNotRegistered, .badRequestParams, .badRequestPayload,
            .missingPushType, .cannotCreateChannelConfig:
            Row(400, .rejected)
        case .badDeviceToken: Row(400, .tokenRejected)
        // The token is of another app, or the topic in our settings is wrong. Nobody can tell which, so no token is retired for it.
        case .deviceTokenNotForTopic: Row(400, .rejected)
        case .badTopic, .missingTopic, .topicDisallowed, .featureNotEnabled: Row(400, .misconfigured)
        case .idleTimeout: Row(400, .connectionFault, .retire)
        case .badCertificate, .badCertificateEnvironment, .invalidProviderToken, .missingProviderToken, .badEnvironmentKeyIDInToken,
            .badEnvironmentKeyInToken:
            Row(403, .misconfigured, .pausePool)
        case .expiredProviderToken, .unrelatedKeyIDInToken: Row(403, .connectionFault, .replaceForToken)
        // About an action, not the key: if it paused the pool, one request could stop an app.
        case .forbidden, .topicMismatch: Row(403, .misconfigured)
        case .badPath: Row(404, .rejected)
        case .methodNotAllowed: Row(405, .rejected)
        case .expiredToken, .unregistered: Row(410, .tokenGone)
        case .payloadTooLarge: Row(413, .rejected)
        // Our connections' token is at fault, and time corrects it.
        case .tooManyProviderTokenUpdates: Row(429, .misconfigured, .retire)
        case .tooManyRequests: Row(429, .throttled)
        case .internalServerError: Row(500, .serverFault, .retire)
        case .serviceUnavailable, .serviceUnavailableSpaced: Row(503, .serverFault, .retire)
        case .shutdown: Row(503, .connectionFault, .retire)
        }
    }
}

/// The meaning of an answer for the sender of the request.
package struct APNsMeaning: Equatable, Sendable {
    package let effect: APNsEffect
    package let reaction: APNsConnectionReaction
    /// APNs accepted the credential: the connection may use more than one stream (docs/apns.md, Streams).
    package let isAuthenticated: Bool

    /// - Parameters:
    ///   - status: APNs' `:status`.
    ///   - reason: verbatim; nil if there was none. An unknown one goes by the status's class.
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
