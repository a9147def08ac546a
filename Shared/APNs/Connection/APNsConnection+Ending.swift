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
            var hasLeft = false
            if case .complete(let position) = session.progress(of: stream) { hasLeft = position <= mayHaveLeft }
            if !settle(entry, partial[stream], mayBeProcessed: hasLeft, cause == .cutOff ? .shutdown : .connectionLost) {
                giveBack(entry.share, entry.request..<entry.request + 1, isRefused: true)
            }
        }
        inFlight = [:]
    }
}
