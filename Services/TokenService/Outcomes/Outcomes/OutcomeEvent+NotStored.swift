import PushModel
import TokenServiceSending

extension OutcomeEvent {
    /// The reason of a delivery whose original outcome PostgreSQL refused.
    static let notStored = "outcome_not_stored"

    /// The substitutes for a refused outcome; the delivery gets the first one that the database takes: the same outcome without its text
    /// and Apple's timestamp; then `unknown`, which changes only the receipt. The event has one delivery. An attempt that is not the end
    /// has only the first, because its end follows.
    var substitutes: [OutcomeEvent] {
        var plain = self
        plain.id = PushID(digestOf: id.bytes + Array(Self.notStored.utf8) + deliveries.flatMap { $0.id.bytes })
        plain.deliveries = deliveries.map { delivery in
            OutcomeEvent.Delivery(
                id: delivery.id, notification: delivery.notification, installation: delivery.installation, attempt: delivery.attempt,
                ownerEpoch: delivery.ownerEpoch, status: delivery.status, reason: Self.notStored, sentAt: delivery.sentAt)
        }
        var bare = plain
        bare.outcome = .unknown
        bare.deliveries = deliveries.map { delivery in
            OutcomeEvent.Delivery(
                id: delivery.id, notification: delivery.notification, installation: delivery.installation, attempt: delivery.attempt,
                ownerEpoch: delivery.ownerEpoch, reason: Self.notStored)
        }
        return isFinal ? [plain, bare] : [plain]
    }
}
