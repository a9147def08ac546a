import FoundationEssentials
import PushModel

/// Codable with Foundation's JSON coders, the simplest solution. It cannot embed the payload verbatim, so the payload is a string.
struct FoundationCodec: JobCodec {
    let name = "Foundation JSON"
    private let encoder = JSONEncoder()
    private let decoder = JSONDecoder()

    private struct Job: Codable {
        var version: Int
        var notification, app, lane, pushType, topic: String
        var priority: Int
        var collapseID: String?
        var apnsExpiration: Int64?
        var expiresAt, acceptedAt: Int64
        var attempt: Int
        var onUnknown, payload: String
        var deliveries: [Delivery]

        enum CodingKeys: String, CodingKey {
            case version = "v"
            case notification, app, lane, topic, priority, attempt, payload, deliveries
            case pushType = "push_type"
            case collapseID = "collapse_id"
            case apnsExpiration = "apns_expiration"
            case expiresAt = "expires_at_ms"
            case acceptedAt = "accepted_at_ms"
            case onUnknown = "on_unknown"
        }
    }

    private struct Delivery: Codable {
        var id, token, environment, installation: String
        var ownerEpoch: Int64

        enum CodingKeys: String, CodingKey {
            case id, token, environment, installation
            case ownerEpoch = "owner_epoch"
        }
    }

    func encode(_ job: PushJob) throws -> [UInt8] {
        Array(
            try encoder.encode(
                Job(
                    version: PushJob.currentVersion, notification: job.notification.description, app: job.app.text, lane: job.lane.rawValue,
                    pushType: job.pushType.rawValue, topic: job.topic, priority: job.priority, collapseID: job.collapseID,
                    apnsExpiration: job.apnsExpiration, expiresAt: job.expiresAt, acceptedAt: job.acceptedAt, attempt: job.attempt,
                    onUnknown: job.onUnknown.rawValue, payload: String(decoding: job.payload, as: UTF8.self),
                    deliveries: job.deliveries.map {
                        Delivery(
                            id: $0.id.description, token: $0.token.hex, environment: $0.environment.rawValue,
                            installation: $0.installation.description, ownerEpoch: $0.ownerEpoch)
                    })))
    }

    func decode(_ bytes: [UInt8]) throws -> PushJob {
        let job = try decoder.decode(Job.self, from: Data(bytes))
        return PushJob(
            notification: try InvalidJob.require(PushID(job.notification), "notification"),
            app: try InvalidJob.require(AppSlug(job.app), "app"), lane: try InvalidJob.require(Lane(rawValue: job.lane), "lane"),
            pushType: try InvalidJob.require(PushType(rawValue: job.pushType), "push_type"), topic: job.topic, priority: job.priority,
            collapseID: job.collapseID, apnsExpiration: job.apnsExpiration, expiresAt: job.expiresAt, acceptedAt: job.acceptedAt,
            attempt: job.attempt, onUnknown: try InvalidJob.require(PushJob.OnUnknown(rawValue: job.onUnknown), "on_unknown"),
            payload: Array(job.payload.utf8),
            deliveries: try job.deliveries.map { delivery throws(InvalidJob) in
                PushJob.Delivery(
                    id: try InvalidJob.require(PushID(delivery.id), "id"),
                    token: try InvalidJob.require(DeviceToken(hex: delivery.token), "token"),
                    environment: try InvalidJob.require(APNsEnvironment(rawValue: delivery.environment), "environment"),
                    installation: try InvalidJob.require(PushID(delivery.installation), "installation"), ownerEpoch: delivery.ownerEpoch)
            })
    }
}
