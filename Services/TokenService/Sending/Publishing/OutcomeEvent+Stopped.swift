package import PushModel

extension OutcomeEvent {
    /// The final outcome of deliveries that are not published any more. It is published until the broker has it. Its id is made of the
    /// outcome and the deliveries, so that each process gives it the same one.
    /// - Parameters:
    ///   - deliveries: At most ``maximumDeliveries``.
    ///   - time: UNIX milliseconds.
    package static func stopped(_ deliveries: [Delivery], as outcome: OutcomeClass, of app: AppSlug, at time: Int64) -> OutcomeEvent {
        var digested = Array(outcome.rawValue.utf8)
        for delivery in deliveries { digested += delivery.id.bytes + Array("/\(delivery.attempt)".utf8) }
        return OutcomeEvent(
            id: PushID(digestOf: digested), source: "/push/token-service", time: time, app: app, outcome: outcome, isFinal: true,
            deliveries: deliveries)
    }
}
