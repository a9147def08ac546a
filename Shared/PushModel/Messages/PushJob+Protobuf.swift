import FoundationEssentials
import SwiftProtobuf

/// The wire form: Protocol Buffers, `Generated/push_job.proto` (why: PushModel.docc, PD-0001). Fields are described in PushModel.docc, Contracts.
/// Reading it is in `PushJob+Decoding.swift`.
extension PushJob {
    package static let contentType = "application/x-protobuf"
    /// Longer bytes are not read at all. A full job with the longest tokens and payload is a tenth of it.
    package static let maximumBytes = 1 << 20

    package func encoded() -> [UInt8] { encoded(with: EncodedDeliveries(deliveries)) }

    /// The job with these deliveries instead of its own. They are its last field.
    package func encoded(with deliveries: EncodedDeliveries) -> [UInt8] {
        do {
            var bytes: [UInt8] = try WireJob(self).serializedBytes()
            bytes.append(contentsOf: deliveries.bytes)
            return bytes
        } catch {
            // Only a message of more than 2 GB, an Any or a missing proto2 field can fail (SwiftProtobuf, BinaryEncodingError).
            preconditionFailure("a job cannot be serialized: \(error)")
        }
    }
}

extension WireJob {
    /// All but the deliveries.
    fileprivate init(_ job: PushJob) {
        self.init()
        v = Int32(PushJob.currentVersion)
        notificationHigh = job.notification.high
        notificationLow = job.notification.low
        if let original = job.original { (originalHigh, originalLow) = (original.high, original.low) }
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
        broadcast = job.isBroadcast
    }
}
