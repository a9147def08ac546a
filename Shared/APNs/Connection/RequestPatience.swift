/// The deadlines of a request in flight. The expiry decides whether it is sent. Once APNs may have all of it, only the ordinary deadline
/// counts, because a request that is given up at its expiry looks like a slow connection. Pure: the simulation uses it too.
struct RequestPatience: Sendable {
    enum Decision: Equatable {
        case wait
        /// Expired, and not all of it has left: it is taken back, and the connection is not at fault.
        case takeBack
        /// No answer for too long.
        case giveUp
    }

    /// From handing a request to HTTP/2 to its answer.
    let timeout: Duration

    func deadline(of batch: APNsBatch, sentAt now: ContinuousClock.Instant) -> ContinuousClock.Instant { now + timeout }

    /// - Parameters:
    ///   - wall: UNIX milliseconds.
    ///   - mayBeProcessed: whether APNs may have the whole request; called only if that decides.
    static func decision(
        on batch: APNsBatch, deadline: ContinuousClock.Instant, now: ContinuousClock.Instant, wall: Int64,
        mayBeProcessed: @autoclosure () -> Bool
    ) -> Decision {
        if now >= deadline { return .giveUp }
        return wall >= batch.expiresAt && !mayBeProcessed() ? .takeBack : .wait
    }
}
