import StrictJSON

/// The answer to a request: a status, and for any but 200 a reason, as APNs writes them (Apple: Handling notification responses from APNs).
package struct Answer: Sendable, Equatable {
    package var status: Int
    /// Verbatim; nil sends an answer without a body, which APNs has been seen to do.
    package var reason: String?
    /// UNIX milliseconds: when the token stopped being valid. APNs sends it with 410 only.
    package var timestamp: Int64?
    /// The most bytes of body in one DATA frame; nil is as many as fit.
    package var frameBytes: Int?

    package static let accepted = Answer(status: 200)

    package init(status: Int, reason: String? = nil, timestamp: Int64? = nil, frameBytes: Int? = nil) {
        self.status = status
        self.reason = reason
        self.timestamp = timestamp
        self.frameBytes = frameBytes
    }

    package init(_ reason: RejectionReason, timestamp: Int64? = nil) {
        self.init(status: reason.status, reason: reason.rawValue, timestamp: timestamp)
    }

    /// Any success: requests about channels have more than 200, and so may scripts and scenarios.
    package var isAccepted: Bool { (200..<300).contains(status) }

    /// The answer's body; nil if there is none. A GOAWAY carries the same text.
    var body: [UInt8]? {
        guard reason != nil || timestamp != nil else { return nil }
        var writer = JSONWriter(reservingCapacity: 64)
        writer.object { object in
            object.field("reason", reason)
            object.field("timestamp", timestamp)
        }
        return writer.bytes
    }
}
