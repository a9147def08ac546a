import OpenSSL
import PushModel

extension OutcomeEvent {
    /// The final outcome of deliveries that are not published any more. It is told until the broker has it, and what is told again bears the
    /// same id, whoever tells it: that is made of the outcome and the deliveries (RFC 9562 section 5.8).
    /// - Parameters:
    ///   - deliveries: At most ``maximumDeliveries``.
    ///   - time: UNIX milliseconds.
    static func stopped(_ deliveries: [Delivery], as outcome: OutcomeClass, of app: AppSlug, at time: Int64) -> OutcomeEvent {
        var told = Array(outcome.rawValue.utf8)
        for delivery in deliveries { told += delivery.id.bytes + Array("/\(delivery.attempt)".utf8) }
        let digest = Digest.sha256(told)
        let (high, low) = (word(digest[..<8]), word(digest[8..<16]))
        return OutcomeEvent(
            id: PushID(high: high & ~0xf000 | 0x8000, low: low & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000),
            source: "/push/token-service", time: time, app: app, outcome: outcome, isFinal: true, deliveries: deliveries)
    }

    private static func word(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
}
