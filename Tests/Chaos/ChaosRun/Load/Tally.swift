import Synchronization

/// The sums of the answers to the clients so far.
final class Tally: Sendable {
    struct Counts: Sendable {
        /// Send requests, each counted once, however often it was repeated.
        var meant = 0
        var answered = 0
        var accepted = 0
        var refused = 0
        var unanswered = 0
        /// Send requests that a client gave up without an answer 202.
        var abandoned = 0
        /// Requests under way.
        var open = 0
    }

    private let state = Mutex(Counts())

    var counts: Counts { state.withLock { $0 } }

    func change(_ body: (inout Counts) -> Void) { state.withLock { body(&$0) } }
}
