/// What one non-blocking read or write did.
package enum IOResult: Equatable, Sendable {
    /// So many bytes were moved: at least one, perhaps fewer than asked for.
    case bytes(Int)
    /// Nothing now; the poller will say when.
    case wouldBlock
    /// Reads only: the peer will send no more.
    case endOfStream
}
