import SwiftProtobuf

@testable import PushModel

/// The job decoder, beside SwiftProtobuf, which reads the same bytes by the same description.
enum FuzzJob {
    static func run(_ bytes: [UInt8]) {
        let wire = theirs(bytes)
        do throws(MessageError) {
            let job = try PushJob(decoding: bytes)
            precondition(job.deliveries.count <= PushJob.maximumDeliveries, "bounded")
            if let wire { precondition(agrees(job, wire), "two readers read the same job") }
            precondition(again(job) == job, "a job that was read is written as it was")
        } catch {
            if case .malformed = error.code, wire != nil { preconditionFailure("SwiftProtobuf can read what we call malformed") }
            _ = error.description
        }
    }

    /// Nil where SwiftProtobuf cannot read it: it is the stricter one about numbers of more than 64 bits.
    private static func theirs(_ bytes: [UInt8]) -> WireJob? {
        do { return try WireJob(serializedBytes: bytes) } catch { return nil }
    }

    private static func again(_ job: PushJob) -> PushJob? {
        do { return try PushJob(decoding: job.encoded()) } catch { return nil }
    }

    private static func agrees(_ job: PushJob, _ wire: WireJob) -> Bool {
        guard (job.original ?? .zero) == PushID(high: wire.originalHigh, low: wire.originalLow) else { return false }
        return job.notification == PushID(high: wire.notificationHigh, low: wire.notificationLow) && job.app.text == wire.app
            && job.lane == Lane(wire.lane) && job.pushType.rawValue == wire.pushType && job.topic == wire.topic
            && job.priority == Int(wire.priority) && job.collapseID == (wire.hasCollapseID ? wire.collapseID : nil)
            && job.apnsExpiration == (wire.hasApnsExpiration ? wire.apnsExpiration : nil) && job.expiresAt == wire.expiresAtMs
            && job.acceptedAt == wire.acceptedAtMs && job.attempt == Int(wire.attempt)
            && job.onUnknown == PushJob.OnUnknown(wire.onUnknown) && job.payload == Array(wire.payload)
            && job.deliveries.count == wire.deliveries.count && zip(job.deliveries, wire.deliveries).allSatisfy(agrees)
    }

    private static func agrees(_ delivery: PushJob.Delivery, _ wire: WireDelivery) -> Bool {
        delivery.id == PushID(high: wire.idHigh, low: wire.idLow) && delivery.token.bytes.elementsEqual(wire.token)
            && delivery.environment == APNsEnvironment(wire.environment)
            && delivery.installation == PushID(high: wire.installationHigh, low: wire.installationLow)
            && delivery.ownerEpoch == wire.ownerEpoch && delivery.environmentTrial == PushJob.EnvironmentTrial(wire.environmentTrial)
            && delivery.earlierOutcome == PushJob.EarlierOutcome(wire.earlierOutcome)
    }
}
