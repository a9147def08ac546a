/// One message in `push.outcomes`: deliveries of one app that ended in one class. A CloudEvents 1.0 event.
///
/// Deliveries of many jobs may share an event: its size is bounded by ``maximumDeliveries``, not by the job.
package struct OutcomeEvent: Equatable, Sendable {
    package static let currentVersion = 1
    package static let maximumDeliveries = 500
    package static let type = "push.delivery.outcome.v1"

    /// CloudEvents `id`: unique for this event.
    package var id: PushID
    /// CloudEvents `source`: `/push/dispatcher/<instance>`, or `/push/token-service` for deliveries that ended before they were published.
    package var source: String
    /// CloudEvents `time`, UNIX milliseconds.
    package var time: Int64
    package var app: AppSlug
    package var outcome: OutcomeClass
    /// False: the delivery will be tried again, and another event follows.
    package var isFinal: Bool
    package var deliveries: [Delivery]

    package struct Delivery: Equatable, Sendable {
        package var id: PushID
        package var notification: PushID
        package var installation: PushID
        /// 1 for the first attempt.
        package var attempt: Int
        /// The epoch of the owner that the delivery was for; nil if the event is not a dispatcher's.
        package var ownerEpoch: Int64?
        /// APNs' status; nil where it said nothing.
        package var status: Int?
        /// APNs' reason, verbatim, or our own in `snake_case` if APNs was not asked.
        package var reason: String?
        /// APNs' `timestamp` of a 410, UNIX milliseconds.
        package var timestamp: Int64?
        /// When the request left, UNIX milliseconds; nil if it did not.
        package var sentAt: Int64?
        /// If `isFinal` is false: the earliest time of the next attempt, UNIX milliseconds.
        package var retryAt: Int64?
        /// The environment that answered, if the token was registered for the other one.
        package var environment: APNsEnvironment?
        /// APNs' `apns-unique-id`, which only the sandbox sends.
        package var apnsUniqueID: String?
        /// The trace of the attempt (W3C Trace Context), if it is sampled.
        package var traceparent: String?

        package init(
            id: PushID, notification: PushID, installation: PushID, attempt: Int, ownerEpoch: Int64? = nil, status: Int? = nil,
            reason: String? = nil, timestamp: Int64? = nil, sentAt: Int64? = nil, retryAt: Int64? = nil,
            environment: APNsEnvironment? = nil,
            apnsUniqueID: String? = nil, traceparent: String? = nil
        ) {
            self.id = id
            self.notification = notification
            self.installation = installation
            self.attempt = attempt
            self.ownerEpoch = ownerEpoch
            self.status = status
            self.reason = reason
            self.timestamp = timestamp
            self.sentAt = sentAt
            self.retryAt = retryAt
            self.environment = environment
            self.apnsUniqueID = apnsUniqueID
            self.traceparent = traceparent
        }
    }

    package init(
        id: PushID, source: String, time: Int64, app: AppSlug, outcome: OutcomeClass, isFinal: Bool, deliveries: [Delivery]
    ) {
        self.id = id
        self.source = source
        self.time = time
        self.app = app
        self.outcome = outcome
        self.isFinal = isFinal
        self.deliveries = deliveries
    }

    /// `<app>.<class>`: subscribers bind to it.
    package var routingKey: String { "\(app.text).\(outcome.rawValue)" }
}
