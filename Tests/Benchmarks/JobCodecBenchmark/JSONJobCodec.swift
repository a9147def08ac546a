import PushModel
import StrictJSON

/// JSON with our own writer and scanner, the alternative to Protocol Buffers for jobs.
struct JSONJobCodec: JobCodec {
    let name = "StrictJSON"

    func encode(_ job: PushJob) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: job.payload.count + 512 + job.deliveries.count * 288)
        writer.object { writer in
            writer.field("v", PushJob.currentVersion)
            writer.plainField("notification", job.notification.append)
            writer.field("app", job.app.text)
            writer.field("lane", job.lane.rawValue)
            writer.field("push_type", job.pushType.rawValue)
            writer.field("topic", job.topic)
            writer.field("priority", job.priority)
            writer.field("collapse_id", job.collapseID)
            writer.field("apns_expiration", job.apnsExpiration)
            writer.field("expires_at_ms", job.expiresAt)
            writer.field("accepted_at_ms", job.acceptedAt)
            writer.field("attempt", job.attempt)
            writer.field("on_unknown", job.onUnknown.rawValue)
            writer.field("payload", raw: job.payload)
            writer.array("deliveries") { writer in
                for delivery in job.deliveries { Self.write(delivery, to: &writer) }
            }
        }
        return writer.bytes
    }

    private static func write(_ delivery: PushJob.Delivery, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.plainField("id", delivery.id.append)
            writer.plainField("token", delivery.token.appendHex)
            writer.field("environment", delivery.environment.rawValue)
            writer.plainField("installation", delivery.installation.append)
            writer.field("owner_epoch", delivery.ownerEpoch)
        }
    }

    func decode(_ bytes: [UInt8]) throws -> PushJob {
        var scanner = JSONScanner(bytes)
        let draft = try Draft(from: &scanner)
        try scanner.finish()
        return try draft.job()
    }
}

/// The fields of a message that were read so far; they may stand in any order.
private struct Draft {
    private static let names = JSONNames([
        "v", "notification", "app", "lane", "push_type", "topic", "priority", "collapse_id", "apns_expiration", "expires_at_ms",
        "accepted_at_ms", "attempt", "on_unknown", "payload", "deliveries",
    ])

    var version: Int64?
    var notification: PushID?
    var app: AppSlug?
    var lane: Lane?
    var pushType: PushType?
    var topic: String?
    var priority: Int64?
    var collapseID: String?
    var apnsExpiration: Int64?
    var expiresAt: Int64?
    var acceptedAt: Int64?
    var attempt: Int64?
    var onUnknown: PushJob.OnUnknown?
    var payload: [UInt8]?
    var deliveries: [PushJob.Delivery]?

    init(from scanner: inout JSONScanner) throws {
        var place = try scanner.fields(Self.names)
        while let field = try scanner.next(&place) {
            switch field {
            case 0: version = try scanner.integer()
            case 1: notification = PushID(ascii: try scanner.stringBytes())
            case 2: app = AppSlug(try scanner.string())
            case 3: lane = Lane(rawValue: try scanner.string())
            case 4: pushType = PushType(rawValue: try scanner.string())
            case 5: topic = try scanner.string()
            case 6: priority = try scanner.integer()
            case 7: collapseID = try scanner.string()
            case 8: apnsExpiration = try scanner.integer()
            case 9: expiresAt = try scanner.integer()
            case 10: acceptedAt = try scanner.integer()
            case 11: attempt = try scanner.integer()
            case 12: onUnknown = PushJob.OnUnknown(rawValue: try scanner.string())
            case 13: payload = Array(scanner.source[try scanner.skipValue()])
            default: deliveries = try Self.deliveries(from: &scanner)
            }
        }
    }

    func job() throws(InvalidJob) -> PushJob {
        guard version == Int64(PushJob.currentVersion) else { throw InvalidJob(field: "v") }
        return PushJob(
            notification: try InvalidJob.require(notification, "notification"), app: try InvalidJob.require(app, "app"),
            lane: try InvalidJob.require(lane, "lane"), pushType: try InvalidJob.require(pushType, "push_type"),
            topic: try InvalidJob.require(topic, "topic"), priority: Int(try InvalidJob.require(priority, "priority")),
            collapseID: collapseID,
            apnsExpiration: apnsExpiration, expiresAt: try InvalidJob.require(expiresAt, "expires_at_ms"),
            acceptedAt: try InvalidJob.require(acceptedAt, "accepted_at_ms"), attempt: Int(try InvalidJob.require(attempt, "attempt")),
            onUnknown: try InvalidJob.require(onUnknown, "on_unknown"), payload: try InvalidJob.require(payload, "payload"),
            deliveries: try InvalidJob.require(deliveries, "deliveries"))
    }

    private static func deliveries(from scanner: inout JSONScanner) throws -> [PushJob.Delivery] {
        var deliveries: [PushJob.Delivery] = []
        deliveries.reserveCapacity(PushJob.maximumDeliveries)
        try scanner.beginArray()
        while try scanner.nextElement() { deliveries.append(try delivery(from: &scanner)) }
        return deliveries
    }

    private static let deliveryNames = JSONNames(["id", "token", "environment", "installation", "owner_epoch"])

    private static func delivery(from scanner: inout JSONScanner) throws -> PushJob.Delivery {
        var id: PushID?
        var token: DeviceToken?
        var environment: APNsEnvironment?
        var installation: PushID?
        var ownerEpoch: Int64?
        var place = try scanner.fields(deliveryNames)
        while let field = try scanner.next(&place) {
            switch field {
            case 0: id = PushID(ascii: try scanner.stringBytes())
            case 1: token = DeviceToken(asciiHex: try scanner.stringBytes())
            case 2: environment = APNsEnvironment(rawValue: try scanner.string())
            case 3: installation = PushID(ascii: try scanner.stringBytes())
            default: ownerEpoch = try scanner.integer()
            }
        }
        return PushJob.Delivery(
            id: try InvalidJob.require(id, "id"), token: try InvalidJob.require(token, "token"),
            environment: try InvalidJob.require(environment, "environment"),
            installation: try InvalidJob.require(installation, "installation"),
            ownerEpoch: try InvalidJob.require(ownerEpoch, "owner_epoch"))
    }
}
