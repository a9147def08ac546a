import Postgres
package import PushModel

/// A chunk of a walked notification: the deliveries of one job.
package struct ChunkID: Hashable, Sendable {
    package var notification: PushID
    /// From 0, in the order of the walk.
    package var number: Int

    static func columns(_ chunks: [ChunkID]) -> [PostgresValue] {
        [.ids(chunks.map(\.notification)), .int32Array(chunks.map { Int32(clamping: $0.number) })]
    }
}

/// Names the deliveries of one walked notification by their places: 74 bits of SHA-256 over its id, the chunk's number in 32 bits, the
/// position in 16; marked as a UUID of version 8 (RFC 9562 section 5.8). A place belongs to one token for ever, so an outcome finds its
/// delivery without an index, and a delivery has one id however often its chunk is published.
package struct DeliveryNames: Sendable {
    private let high: UInt64
    private let low: UInt64

    package init(_ notification: PushID) {
        let digest = PushID(digestOf: notification.bytes)
        high = digest.high
        low = digest.low & 0xffff_0000_0000_0000
    }

    package func id(chunk: Int, position: Int) -> PushID {
        PushID(high: high, low: low | UInt64(UInt32(truncatingIfNeeded: chunk)) << 16 | UInt64(UInt16(truncatingIfNeeded: position)))
    }

    /// Which place an id of a walked notification names.
    package static func place(of delivery: PushID) -> (chunk: Int, position: Int) {
        (Int(UInt32(truncatingIfNeeded: delivery.low >> 16)), Int(UInt16(truncatingIfNeeded: delivery.low)))
    }
}
