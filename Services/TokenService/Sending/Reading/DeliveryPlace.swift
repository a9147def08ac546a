import PushModel

/// The place of a delivery among the jobs of its notification. It never changes, so lists go in this order.
package struct DeliveryPlace: Hashable, Sendable {
    /// From 0.
    package var job: Int
    /// Of the member in its job, from 0.
    package var position: Int

    package init(job: Int, position: Int) {
        self.job = job
        self.position = position
    }

    /// Before the first.
    package static let start = DeliveryPlace(job: 0, position: -1)

    /// The last that a job may have.
    static func end(ofJob job: Int) -> DeliveryPlace { DeliveryPlace(job: job, position: PushJob.maximumDeliveries - 1) }
}
