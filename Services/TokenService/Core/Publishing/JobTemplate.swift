package import PushModel

/// The common properties of one notification's jobs. Times are UNIX milliseconds.
package struct JobTemplate: Equatable, Sendable {
    package var notification: PushID
    package var app: AppSlug
    package var lane: Lane
    package var pushType: PushType
    package var topic: String
    package var priority: Int
    package var collapseID: String?
    package var apnsExpiration: Int64
    package var expiresAt: Int64
    package var acceptedAt: Int64
    package var onUnknown: PushJob.OnUnknown
    package var payload: [UInt8]
    package var traceparent: String

    /// Gives some of its deliveries an earlier end of their own, in UNIX milliseconds. APNs keeps them no longer either, unless the request
    /// set an expiration.
    package mutating func end(_ end: Int64) {
        guard end < expiresAt else { return }
        if apnsExpiration == expiresAt / 1000 { apnsExpiration = end / 1000 }
        expiresAt = end
    }

    /// The job's message, without its deliveries' place in the database.
    package func encodedJob(_ deliveries: EncodedDeliveries) -> [UInt8] {
        PushJob(
            notification: notification, app: app, lane: lane, pushType: pushType, topic: topic, priority: priority,
            collapseID: collapseID, apnsExpiration: apnsExpiration, expiresAt: expiresAt, acceptedAt: acceptedAt, onUnknown: onUnknown,
            payload: payload, deliveries: []
        ).encoded(with: deliveries)
    }

    /// The jobs that an acceptance made of these deliveries, which are in the order of their places.
    package func jobs(_ deliveries: [PushJob.Delivery]) -> [PublishableJob] {
        stride(from: 0, to: deliveries.count, by: PushJob.maximumDeliveries).enumerated().map { number, start in
            PublishableJob(
                id: JobID(notification: notification, number: number), template: self,
                deliveries: EncodedDeliveries(deliveries[start..<min(start + PushJob.maximumDeliveries, deliveries.count)]))
        }
    }
}

extension Notification {
    package var template: JobTemplate {
        JobTemplate(
            notification: id, app: app, lane: request.lane, pushType: request.pushType, topic: topic, priority: request.priority,
            collapseID: request.collapseID, apnsExpiration: request.apnsExpiration, expiresAt: request.expiresAt, acceptedAt: acceptedAt,
            onUnknown: request.onUnknown, payload: request.content.payload, traceparent: traceparent)
    }
}
