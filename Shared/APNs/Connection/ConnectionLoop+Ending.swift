import HTTP2
import SystemIO

extension ConnectionLoop {
    /// The connection is over: everything in flight gets the answer that is certain, and the pool is told.
    mutating func end() {
        let cause = ending ?? .drained
        context.parking.leave(id)
        if cause == .drained || cause == .cutOff { sayGoodbye() }
        settleInFlight(cause)
        handBack()
        tellFinished()
        if cause.blamesAddress { totals.connectionsLost += 1 }
        reportNow()
        context.ledger.remove(id)
        link.close()
        context.dialer.addresses.closed(link.address)
        _ = commands.close()
        tell(.closed(cause))
    }

    /// As far as the kernel takes it without waiting.
    private mutating func sayGoodbye() {
        do {
            try session.goAway()
            plaintext.removeAll(keepingCapacity: true)
            _ = try session.gatherOutput(into: &plaintext)
            if try link.flush() { try link.write(plaintext) }
        } catch { /* The peer needs no reasons from a connection that fails while it is closed. */  }
    }

    private mutating func settleInFlight(_ cause: CloseCause) {
        var left: [(stream: Int32, entry: InFlight)] = []
        inFlight.forEach { left.append(($0, $1)) }
        for (stream, entry) in left.sorted(by: { $0.stream < $1.stream }) {
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
        inFlight = InFlightTable()
    }

    private func mayBeProcessed(_ stream: Int32) -> Bool {
        guard case .complete(let position) = session.progress(of: stream) else { return false }
        return position <= mayHaveLeft
    }
}
