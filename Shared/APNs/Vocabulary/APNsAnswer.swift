package import PushModel
import StrictJSON

/// The result of one request. Every request of a batch has exactly one.
package struct APNsAnswer: Sendable {
    /// The caller's number of the request.
    package let index: Int
    /// When the request was handed to HTTP/2, UNIX milliseconds; nil if it was not.
    package let sentAt: Int64?
    package let result: Result
    /// `apns-unique-id`, which only the sandbox sends: the Push Notifications Console finds the push by it
    /// (Apple: Handling notification responses from APNs).
    package let uniqueID: String?
    /// Nil unless the request was one of channel management, and APNs answered.
    package let content: APNsChannelContent?

    package enum Result: Equatable, Sendable {
        /// APNs answered.
        /// - reason: verbatim; nil if the body had none or could not be read.
        /// - timestamp: the timestamp of a 410, UNIX milliseconds.
        /// - retryAfter: APNs documents none; honoured if it appears.
        case response(status: Int, reason: String?, timestamp: Int64?, retryAfter: Duration?)
        /// Certain: APNs processed nothing of it, so sending again cannot duplicate.
        case notSent(NotSentReason)
        /// It left, and no answer came: APNs may or may not have acted (docs/apns.md, What may be sent again).
        case unknown(UnknownReason)
        /// The gate or the expiry stopped it; it never left.
        case stopped(StopReason)
    }

    package init(index: Int, sentAt: Int64?, result: Result, uniqueID: String? = nil, content: APNsChannelContent? = nil) {
        self.index = index
        self.sentAt = sentAt
        self.result = result
        self.uniqueID = uniqueID
        self.content = content
    }
}

/// Why we did not send, on purpose.
package enum StopReason: String, Equatable, Sendable, CaseIterable {
    case expired, fenced, cancelled, held
}

/// Why a request was not sent, or certainly not processed.
package enum NotSentReason: String, Equatable, Sendable, CaseIterable {
    /// No connection could be used for the pool's patience.
    case notConnected = "not_connected"
    /// The pool is paused: APNs refuses the credential.
    case poolPaused = "pool_paused"
    /// The pool's breaker is open: APNs answered connection after connection with 5xx.
    case unavailable
    /// The queue of its lane is full; the caller handed over more than agreed.
    case queueFull = "queue_full"
    /// It waited for a free stream longer than the pool allows.
    case congested
    /// APNs refused the stream (REFUSED_STREAM), or connections ended before it could leave, and no other connection may have it now.
    case refused
    /// The deadline came before the whole request had left.
    case deadline
    case shuttingDown = "shutting_down"
}

/// Why the answer to a request that left is missing.
package enum UnknownReason: String, Equatable, Sendable, CaseIterable {
    case timedOut = "timed_out"
    case connectionLost = "connection_lost"
    /// APNs reset the stream with another code than REFUSED_STREAM.
    case streamReset = "stream_reset"
    /// The pool's shutdown deadline came first.
    case shutdown
}

/// A batch that is done.
package struct APNsFinishedBatch: Sendable {
    package let batch: APNsBatch
    /// One for each request, in the order of the results: find them by `index`.
    package let answers: [APNsAnswer]

    package init(batch: APNsBatch, answers: [APNsAnswer]) {
        self.batch = batch
        self.answers = answers
    }

    /// No request of the batch was sent.
    package init(batch: APNsBatch, notSent reason: NotSentReason) {
        self.init(batch: batch, answers: batch.requests.map { APNsAnswer(index: $0.index, sentAt: nil, result: .notSent(reason)) })
    }
}

/// What an answer of channel management holds beside status and reason. A class, so that the answers of pushes, which have none, stay
/// small.
package final class APNsChannelContent: Sendable {
    /// The longest body that is kept: a list of 10,000 ids, which is Apple's limit, takes some hundred thousand bytes.
    static let maximumBytes = 4 << 20

    /// `apns-channel-id`: the channel that was created.
    package let channelID: String?
    private let body: [UInt8]

    package init(channelID: String?, body: [UInt8]) {
        self.channelID = channelID
        self.body = body
    }

    /// The storage of a channel that was read; nil if the body does not say it.
    package var storage: ChannelStorage? {
        value?["message-storage-policy"]?.integerValue.flatMap { policy in ChannelStorage.allCases.first { $0.policy == policy } }
    }

    /// The channels of a list; nil if the body is none.
    package var channels: [String]? {
        guard let elements = value?["channels"]?.arrayValue else { return nil }
        let ids = elements.compactMap(\.stringValue)
        return ids.count == elements.count ? ids : nil
    }

    private var value: JSONValue? {
        do { return try JSONValue.parse(body, maximumDepth: 8, maximumBytes: Self.maximumBytes) } catch { return nil }
    }
}

extension ChannelStorage {
    /// Apple's number (Sending channel management requests to APNs).
    var policy: Int64 {
        switch self {
        case .none: 0
        case .latest: 1
        }
    }
}
