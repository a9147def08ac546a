package import Postgres
package import PushModel
import TokenServiceRegistry

/// The common properties of one notification's jobs. Times are UNIX milliseconds.
package struct JobTemplate: Equatable, Sendable {
    package var notification: PushID
    /// See ``PushJob/original``.
    package var original: PushID?
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
    /// Whether each payload names its job.
    package var deviceReceipts: Bool = false
    /// The job is a request to a broadcast channel.
    package private(set) var isBroadcast = false

    /// The payload's key that names its job.
    static let jobNameKey = "push-receipt"
    /// What ``payload(ofJob:)`` adds at most.
    static let maximumJobNameBytes = jobName(.lowest, Int(Int32.max)).count

    /// The APNs body. If devices report receipts, it names the notification and the job: iOS shows an app no `apns-id`. The device
    /// reports both with its receipt, and the service finds the delivery among the job's members.
    func payload(ofJob number: Int) -> [UInt8] {
        guard deviceReceipts, let end = payload.lastIndex(of: UInt8(ascii: "}")) else { return payload }
        return payload[..<end] + Self.jobName(notification, number) + payload[end...]
    }

    /// A member of the payload's object, behind others: an alert has `aps`.
    private static func jobName(_ notification: PushID, _ number: Int) -> [UInt8] {
        Array(#","\#(jobNameKey)":{"notification":"\#(notification)","job":\#(number)}"#.utf8)
    }

    /// Gives some of its deliveries an earlier end of their own, in UNIX milliseconds. APNs keeps them no longer either, unless the request
    /// set an expiration.
    package mutating func end(_ end: Int64) {
        guard end < expiresAt else { return }
        if apnsExpiration == expiresAt / 1000 { apnsExpiration = end / 1000 }
        expiresAt = end
    }

    /// Makes the template of a request to a channel. APNs keeps none, or the newest for eight hours at most (docs/apns.md, Broadcasts).
    package func broadcast(to channel: BroadcastMember, now: Int64) -> JobTemplate {
        var template = self
        template.isBroadcast = true
        template.topic = channel.bundleID
        switch channel.storage {
        case .none: template.apnsExpiration = 0
        case .latest: template.apnsExpiration = min(apnsExpiration, now / 1000 + BroadcastMember.longestStorage)
        }
        return template
    }

    /// The job's message, without its deliveries' place in the database.
    /// - Parameter number: The job's.
    package func encodedJob(_ number: Int, _ deliveries: EncodedDeliveries) -> [UInt8] {
        PushJob(
            notification: notification, original: original, app: app, lane: lane, pushType: pushType, topic: topic, priority: priority,
            collapseID: collapseID, apnsExpiration: apnsExpiration, expiresAt: expiresAt, acceptedAt: acceptedAt, onUnknown: onUnknown,
            payload: payload(ofJob: number), deliveries: [], isBroadcast: isBroadcast
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
            onUnknown: request.onUnknown, payload: request.content.payload, traceparent: traceparent,
            deviceReceipts: request.deviceReceipts)
    }
}

extension JobTemplate {
    /// Reads the templates of the notifications that still exist, in ascending order of id.
    /// - Parameter ids: Each once.
    package static func load(_ ids: [PushID], in session: PostgresSession) throws -> [JobTemplate] {
        try session.execute(
            """
            SELECT n.id, a.slug, n.lane, n.push_type, n.priority, n.collapse_id, n.apns_expiration, n.on_unknown, n.expires_at, n.payload,
                n.topic, n.accepted_at, n.traceparent, n.device_receipts, n.copy_of
            FROM unnest(\(ids)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id JOIN apps a ON a.id = n.app_id ORDER BY n.id
            """
        ).map { row in try JobTemplate(row) }
    }

    private init(_ row: PostgresRow) throws {
        let priority: Int32 = try row["priority"]
        self.init(
            notification: try row["id"], original: try row["copy_of"], app: try row["slug"], lane: try row["lane"],
            pushType: try row["push_type"], topic: try row["topic"], priority: Int(priority), collapseID: try row["collapse_id"],
            apnsExpiration: try row["apns_expiration"], expiresAt: try row.milliseconds("expires_at"),
            acceptedAt: try row.milliseconds("accepted_at"), onUnknown: try row["on_unknown"],
            payload: try row["payload"], traceparent: try row["traceparent"], deviceReceipts: try row["device_receipts"])
    }
}
