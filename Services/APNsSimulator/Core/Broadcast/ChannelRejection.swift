/// Every reason of the channel and broadcast APIs (Apple: Handling error responses from APNs) that `/3/device` does not have. The raw value
/// is the text on the wire.
enum ChannelRejection: String, CaseIterable, Error {
    case featureNotEnabled = "FeatureNotEnabled"
    case missingChannelID = "MissingChannelId"
    case badChannelID = "BadChannelId"
    case channelNotRegistered = "ChannelNotRegistered"
    case badRequestParams = "BadRequestParams"
    case badRequestPayload = "BadRequestPayload"
    case missingPushType = "MissingPushType"
    case cannotCreateChannelConfig = "CannotCreateChannelConfig"
    /// Not on Apple's page; seen where the storage policy is missing or unknown (docs/apns.md, Broadcasts).
    case missingChannelQueueSize = "MissingChannelQueueSize"
    case topicMismatch = "TopicMismatch"

    var status: Int { self == .topicMismatch ? 403 : 400 }
}

/// The answer to a request about channels.
struct ChannelAnswer: Error {
    var status: Int
    var reason: String?
    /// Of a channel just made.
    var channelID: String?
    var body: [UInt8] = []

    init(_ status: Int, channelID: String? = nil, body: [UInt8] = []) {
        self.status = status
        self.channelID = channelID
        self.body = body
    }

    init(_ rejection: ChannelRejection) { self.init(Answer(status: rejection.status, reason: rejection.rawValue)) }
    init(_ reason: RejectionReason) { self.init(Answer(reason)) }

    private init(_ answer: Answer) {
        status = answer.status
        reason = answer.reason
        body = answer.body ?? []
    }
}
