package import PushModel

/// One request that APNs saw.
package struct Push: Sendable {
    /// APNs' answer.
    package enum Fate: Sendable, Equatable {
        /// 200.
        case accepted
        /// Any other status.
        case refused(Int)
        /// The sender learned that APNs did not process it.
        case unprocessed
        /// APNs received it and did not answer, so only APNs knows its fate.
        case unanswered

        /// The device may have got it.
        var mayHaveArrived: Bool {
            switch self {
            case .accepted, .unanswered: true
            case .refused, .unprocessed: false
            }
        }
    }

    /// Microseconds, rounded down to the millisecond, so the real moment is never earlier.
    package var time: Int64
    package var connection: Int
    package var token: DeviceToken?
    /// The id of the delivery.
    package var id: PushID
    package var topic: String
    package var marker: Int64?
    package var fate: Fate
    /// The timestamp of a 410, in microseconds.
    package var timestamp: Int64?

    package init(
        time: Int64, connection: Int = 1, token: DeviceToken?, id: PushID, topic: String, marker: Int64?, fate: Fate,
        timestamp: Int64? = nil
    ) {
        self.time = time
        self.connection = connection
        self.token = token
        self.id = id
        self.topic = topic
        self.marker = marker
        self.fate = fate
        self.timestamp = timestamp
    }
}
