/// Stops retiring tokens that APNs rejects when too many are rejected at once: then the fault is our own, a wrong environment or topic, and
/// not the devices'.
package struct RejectionBrake: Equatable, Sendable {
    package static let windowMinutes = 10
    /// Never engaged by fewer rejections than this.
    package static let allowance: Int64 = 20
    /// In per cent of the app's finished deliveries in the window.
    package static let maximumShare: Int64 = 20

    package let finished: Int64
    package let rejected: Int64

    package init(finished: Int64, rejected: Int64) {
        self.finished = finished
        self.rejected = rejected
    }

    package var isEngaged: Bool {
        rejected > Self.allowance && rejected * 100 > finished * Self.maximumShare
    }
}
