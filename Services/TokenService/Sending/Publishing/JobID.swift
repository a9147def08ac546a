package import PushModel

/// One job of a notification: one row and one message.
package struct JobID: Hashable, Sendable {
    package var notification: PushID
    /// From 0, in the order in which they were made.
    package var number: Int

    package init(notification: PushID, number: Int) {
        self.notification = notification
        self.number = number
    }
}

/// Names the deliveries of one notification by their places: 74 bits of SHA-256 over its id, the job's number in 32 bits, the
/// position in 16; marked as a UUID of version 8 (RFC 9562 section 5.8). A place belongs to one token for ever, so an outcome finds its
/// delivery without an index, and a delivery has one id however often its job is published. The function `delivery_id` does the same.
package struct DeliveryNames: Sendable {
    package let notification: PushID
    private let high: UInt64
    private let low: UInt64

    package init(_ notification: PushID) {
        self.notification = notification
        let digest = PushID(digestOf: notification.bytes)
        high = digest.high
        low = digest.low & 0xffff_0000_0000_0000
    }

    package func id(job: Int, position: Int) -> PushID {
        PushID(high: high, low: low | UInt64(UInt32(truncatingIfNeeded: job)) << 16 | UInt64(UInt16(truncatingIfNeeded: position)))
    }

    /// The place that a delivery's id names.
    package static func place(of delivery: PushID) -> (job: Int, position: Int) {
        (Int(UInt32(truncatingIfNeeded: delivery.low >> 16)), Int(UInt16(truncatingIfNeeded: delivery.low)))
    }
}
