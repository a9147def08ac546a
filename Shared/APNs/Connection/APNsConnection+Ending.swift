import HTTP2
import SystemIO

extension APNsConnection {
    /// The connection is over: every request in flight gets the answer that is certain, or goes back to the pool.
    mutating func end() {
        let cause = ending ?? .drained
        if cause == .drained || cause == .cutOff { sayGoodbye() }
        link.close { mayHaveLeft = session.outputPosition }
        // Only now is it certain which requests have left.
        settleInFlight(cause)
        if cause.blamesAddress { totals.connectionsLost += 1 }
    }

    /// Completes no request.
    private mutating func sayGoodbye() {
        do {
            for stream in inFlight.keys where session.progress(of: stream).isCertainlyNotProcessed { session.reset(stream) }
            try session.goAway()
            var frames: [UInt8] = []
            _ = try session.gatherOutput(into: &frames)
            try link.write(frames)
        } catch { /* The peer needs no reasons from a connection that fails while it is closed. */  }
    }

    private mutating func settleInFlight(_ cause: CloseCause) {
        for (stream, entry) in inFlight.sorted(by: { $0.key < $1.key }) {
            if entry.status != 0 {
                answer(
                    entry.share, entry.index, sentAt: entry.sentAt,
                    .response(status: entry.status, reason: nil, timestamp: nil, retryAfter: nil))
            } else if mayBeProcessed(stream) {
                totals.unknown += 1
                answer(entry.share, entry.index, sentAt: entry.sentAt, .unknown(cause == .cutOff ? .shutdown : .connectionLost))
            } else {
                giveBack(entry.share, entry.request..<entry.request + 1, isRefused: true)
            }
        }
        inFlight = [:]
    }

    private func mayBeProcessed(_ stream: Int32) -> Bool {
        guard case .complete(let position) = session.progress(of: stream) else { return false }
        return position <= mayHaveLeft
    }
}
