package import PushModel

/// One request that APNs saw.
package struct Push: Sendable {
    /// What APNs did with it.
    package enum Fate: Sendable, Equatable {
        /// 200.
        case accepted
        /// Any other status.
        case refused(Int)
        /// The sender was told that it was not looked at.
        case unprocessed
        /// Received, and no answer: nobody but APNs knows.
        case unanswered

        /// The device may have got it.
        var mayHaveArrived: Bool {
            switch self {
            case .accepted, .unanswered: true
            case .refused, .unprocessed: false
            }
        }
    }

    /// Microseconds, rounded down to the millisecond: the real moment is never earlier.
    package var time: Int64
    package var connection: Int
    package var token: DeviceToken?
    /// Of the delivery.
    package var id: PushID
    package var topic: String
    package var marker: Int64?
    package var fate: Fate
    /// Of a 410, in microseconds.
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
