import FoundationEssentials
import SwiftProtobuf

/// The wire form: Protocol Buffers, `Generated/push_job.proto` (why: PushModel.docc, PD-0001). Fields are described in PushModel.docc, Contracts.
extension PushJob {
    package static let contentType = "application/x-protobuf"
    /// Longer bytes are not read at all. A full job with the longest tokens and payload is a tenth of it.
    package static let maximumBytes = 1 << 20

    package func encoded() -> [UInt8] {
        do {
            return try WireJob(self).serializedBytes()
        } catch {
            // Only a message of more than 2 GB, an Any or a missing proto2 field can fail (SwiftProtobuf, BinaryEncodingError).
            preconditionFailure("a job cannot be serialized: \(error)")
        }
    }

    /// Unknown fields are passed over.
    /// - Throws: ``MessageError``, for any bytes whatever that are not a job of a version up to ``currentVersion``.
    package init(decoding bytes: [UInt8]) throws(MessageError) {
        guard bytes.count <= Self.maximumBytes else { throw MessageError(.malformed, "longer than \(Self.maximumBytes) bytes") }
        let message: WireJob
        do {
            var options = BinaryDecodingOptions()
            options.discardUnknownFields = true
            message = try WireJob(serializedBytes: bytes, options: options)
        } catch {
            throw MessageError(.malformed, "not a Protocol Buffers message of a job")
        }
        try MessageVersion.check(Int(message.v), atMost: Self.currentVersion)
        try self.init(message)
    }

    private init(_ message: WireJob) throws(MessageError) {
        guard message.deliveries.count <= Self.maximumDeliveries else {
            throw MessageError(.invalidField("deliveries"), "more than \(Self.maximumDeliveries)")
        }
        guard (1...10).contains(message.priority) else { throw MessageError(.invalidField("priority"), "from 1 to 10") }
        guard message.attempt >= 0 else { throw MessageError(.invalidField("attempt"), "not negative") }
        guard !message.topic.isEmpty else { throw MessageError(.invalidField("topic"), "missing") }
        guard !message.payload.isEmpty else { throw MessageError(.invalidField("payload"), "missing") }
        self.init(
            notification: try Wire.id(message.notificationHigh, message.notificationLow, "notification"),
            app: try Wire.known(AppSlug(message.app), "app"), lane: try Wire.known(Lane(message.lane), "lane"),
            pushType: try Wire.known(PushType(rawValue: message.pushType), "push_type"), topic: message.topic,
            priority: Int(message.priority), collapseID: message.hasCollapseID ? message.collapseID : nil,
            apnsExpiration: message.hasApnsExpiration ? message.apnsExpiration : nil, expiresAt: message.expiresAtMs,
            acceptedAt: message.acceptedAtMs, attempt: Int(message.attempt),
            onUnknown: try Wire.known(OnUnknown(message.onUnknown), "on_unknown"), payload: Array(message.payload),
            deliveries: try message.deliveries.map(Delivery.init))
    }
}

extension PushJob.Delivery {
    fileprivate init(_ message: WireDelivery) throws(MessageError) {
        self.init(
            id: try Wire.id(message.idHigh, message.idLow, "deliveries.id"),
            token: try Wire.known(DeviceToken(bytes: Array(message.token)), "deliveries.token"),
            environment: try Wire.known(APNsEnvironment(message.environment), "deliveries.environment"),
            installation: try Wire.id(message.installationHigh, message.installationLow, "deliveries.installation"),
            ownerEpoch: message.ownerEpoch, environmentTrial: PushJob.EnvironmentTrial(message.environmentTrial))
    }
}

extension WireJob {
    fileprivate init(_ job: PushJob) {
        self.init()
        v = Int32(PushJob.currentVersion)
        notificationHigh = job.notification.high
        notificationLow = job.notification.low
        app = job.app.text
        lane = WireLane(job.lane)
        pushType = job.pushType.rawValue
        topic = job.topic
        priority = Int32(clamping: job.priority)
        if let collapseID = job.collapseID { self.collapseID = collapseID }
        if let apnsExpiration = job.apnsExpiration { self.apnsExpiration = apnsExpiration }
        expiresAtMs = job.expiresAt
        acceptedAtMs = job.acceptedAt
        attempt = Int32(clamping: job.attempt)
        onUnknown = WireOnUnknown(job.onUnknown)
        payload = Data(job.payload)
        deliveries = job.deliveries.map(WireDelivery.init)
    }
}

extension WireDelivery {
    fileprivate init(_ delivery: PushJob.Delivery) {
        self.init()
        idHigh = delivery.id.high
        idLow = delivery.id.low
        token = Data(delivery.token.bytes)
        environment = WireEnvironment(delivery.environment)
        installationHigh = delivery.installation.high
        installationLow = delivery.installation.low
        ownerEpoch = delivery.ownerEpoch
        environmentTrial = WireEnvironmentTrial(delivery.environmentTrial)
    }
}

/// proto3 knows no required fields: what is missing arrives as zero or empty, and is refused here.
private enum Wire {
    static func id(_ high: UInt64, _ low: UInt64, _ field: String) throws(MessageError) -> PushID {
        guard high | low != 0 else { throw MessageError(.invalidField(field), "missing") }
        return PushID(high: high, low: low)
    }

    static func known<Value>(_ value: Value?, _ field: String) throws(MessageError) -> Value {
        guard let value else { throw MessageError(.invalidField(field), "missing, or not one that this program knows") }
        return value
    }
}
