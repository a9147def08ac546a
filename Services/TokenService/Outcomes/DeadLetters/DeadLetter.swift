package import Broker
package import PushModel

/// One message of the dead-letter queue, as an operator sees it. A message that cannot be read has no job.
package struct DeadLetter: Sendable {
    /// Of the message; nil where its publisher gave none.
    package let id: PushID?
    /// Why it is here: a reason that a dispatcher gave, `delivery_limit` if the broker gave it up, or `unknown`.
    package let reason: String
    /// If it could not be read: the fault in it.
    package let detail: String?
    /// The queue that it came from, if that is known.
    package let source: String?
    package let bytes: Int
    package let job: PushJob?
    /// The broker put it here by itself: no dispatcher has reported an outcome.
    package let isOrphan: Bool
    let receipt: Receipt

    package init(_ message: ReceivedMessage) {
        id = message.messageID
        receipt = message.receipt
        let stated = message.header(DeadLetterPublisher.reasonHeader)
        reason = stated ?? message.header("x-first-death-reason") ?? "unknown"
        isOrphan = stated == nil
        detail = message.header("push-detail")
        source = message.header(DeadLetterPublisher.sourceHeader) ?? message.header("x-first-death-queue")
        bytes = message.body.count
        do { job = try PushJob(decoding: message.body) } catch { job = nil }
    }

    /// When it was given up, UNIX milliseconds: taken from our own message ids.
    package var at: Int64? {
        guard let id, id.high >> 12 & 0xf == 7 else { return nil }
        return Int64(id.high >> 16)
    }
}

/// Which letters a call means. A nil field does not restrict them.
package struct DeadLetterFilter: Equatable, Sendable {
    package var ids: Set<PushID>?
    package var app: AppSlug?
    package var reason: String?
    package var lane: Lane?
    package var notification: PushID?

    package init(
        ids: Set<PushID>? = nil, app: AppSlug? = nil, reason: String? = nil, lane: Lane? = nil, notification: PushID? = nil
    ) {
        self.ids = ids
        self.app = app
        self.reason = reason
        self.lane = lane
        self.notification = notification
    }

    package var isEmpty: Bool { self == DeadLetterFilter() }

    package func matches(_ letter: DeadLetter) -> Bool {
        if let ids, letter.id.map(ids.contains) != true { return false }
        if let app, letter.job?.app != app { return false }
        if let reason, letter.reason != reason { return false }
        if let lane, letter.job?.lane != lane { return false }
        if let notification, letter.job?.notification != notification { return false }
        return true
    }
}
