/// The result of one non-blocking read or write.
package enum IOResult: Equatable, Sendable {
    /// This many bytes were moved: at least one, perhaps fewer than requested.
    case bytes(Int)
    /// No bytes now; the poller reports when.
    case wouldBlock
    /// Reads only: the peer will send no more.
    case endOfStream
}
