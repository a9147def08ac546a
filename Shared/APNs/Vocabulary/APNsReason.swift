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

/// Whose fault an answer is. Where Apple's text leaves two, the table has the one that never destroys anything.
package enum APNsFault: String, Sendable, CaseIterable {
    /// The device token; or the wrong environment or topic, hence the caller's brake.
    case token
    /// The payload or a header of this message.
    case job
    /// Key, certificate or team.
    case credential
    /// Topic or set-up of the app.
    case configuration
    /// This connection; the message is innocent.
    case connection
    /// Too many to one device.
    case rate
    case apple
}

/// When the same message may be sent again.
package enum APNsRetry: String, Sendable, CaseIterable {
    case never
    /// Only after a person has mended something.
    case afterFix
    case onNewConnection
    /// After a delay that grows.
    case later
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
    /// What one reason means. The status is Apple's; whose fault it is and what follows is our reading of Apple's words.
    package struct Row: Equatable, Sendable {
        package let status: Int
        package let fault: APNsFault
        package let retry: APNsRetry
        package let reaction: APNsConnectionReaction

        fileprivate init(_ status: Int, _ fault: APNsFault, _ retry: APNsRetry, _ reaction: APNsConnectionReaction = .keep) {
            self.status = status
            self.fault = fault
            self.retry = retry
            self.reaction = reaction
        }
    }

    package var row: Row {
        switch self {
        case .badCollapseID, .badExpirationDate, .badMessageID, .badPriority, .duplicateHeaders, .invalidPushType, .missingDeviceToken,
            .payloadEmpty:
            Row(400, .job, .never)
        case .badDeviceToken, .deviceTokenNotForTopic: Row(400, .token, .never)
        case .badTopic, .missingTopic: Row(400, .configuration, .afterFix)
        case .topicDisallowed: Row(400, .configuration, .afterFix)
        case .idleTimeout: Row(400, .connection, .onNewConnection, .retire)
        case .badCertificate, .badCertificateEnvironment, .invalidProviderToken, .missingProviderToken, .badEnvironmentKeyIDInToken,
            .badEnvironmentKeyInToken:
            Row(403, .credential, .afterFix, .pausePool)
        case .expiredProviderToken, .unrelatedKeyIDInToken: Row(403, .connection, .onNewConnection, .replaceForToken)
        // Said of an action, not of the key: pausing everything for it would let one request stop an app.
        case .forbidden: Row(403, .credential, .never)
        case .badPath: Row(404, .job, .never)
        case .methodNotAllowed: Row(405, .job, .never)
        case .expiredToken, .unregistered: Row(410, .token, .never)
        case .payloadTooLarge: Row(413, .job, .never)
        case .tooManyProviderTokenUpdates: Row(429, .connection, .later, .retire)
        case .tooManyRequests: Row(429, .rate, .later)
        case .internalServerError: Row(500, .apple, .later, .retire)
        case .serviceUnavailable, .serviceUnavailableSpaced: Row(503, .apple, .later, .retire)
        case .shutdown: Row(503, .apple, .onNewConnection, .retire)
        }
    }
}

/// What an answer means to whoever sent the request.
package struct APNsMeaning: Equatable, Sendable {
    /// The status that the reason belongs to; APNs' own where the reason is unknown.
    package let status: Int
    /// nil for 200 and for answers that are nobody's fault.
    package let fault: APNsFault?
    package let retry: APNsRetry
    package let reaction: APNsConnectionReaction
    /// APNs knew who we are: the connection may use more than one stream (docs/apns.md, Streams).
    package let isAuthenticated: Bool

    /// - Parameters:
    ///   - status: APNs' `:status`.
    ///   - reason: verbatim; nil where there was none. An unknown one goes by the status's class.
    package init(status: Int, reason: String?) {
        isAuthenticated = status != 403
        if !(200..<300).contains(status), let row = reason.flatMap(APNsReason.init(rawValue:))?.row {
            (self.status, fault, retry, reaction) = (row.status, row.fault, row.retry, row.reaction)
            return
        }
        self.status = status
        switch status {
        case 200..<300: (fault, retry, reaction) = (nil, .never, .keep)
        case 403: (fault, retry, reaction) = (.credential, .afterFix, .keep)
        case 410: (fault, retry, reaction) = (.token, .never, .keep)
        case 429: (fault, retry, reaction) = (.rate, .later, .keep)
        case 400..<500: (fault, retry, reaction) = (.job, .never, .keep)
        default: (fault, retry, reaction) = (.apple, .later, .retire)
        }
    }
}
