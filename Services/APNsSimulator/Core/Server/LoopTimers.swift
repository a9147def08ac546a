/// One loop's later tasks. Tasks of connections that are gone are dropped before they outnumber the rest, so that memory follows the live
/// connections only.
struct LoopTimers {
    enum Task {
        case act(connection: UInt32, stream: Int32)
        case handshakeDeadline(connection: UInt32)
        case resumeHandshake(connection: UInt32)
        case endOfLingering(connection: UInt32)
        /// Bytes that a scenario's network has held back may leave.
        case release(connection: UInt32)
        /// Checks every connection: one task for all of them.
        case idleSweep
        case resumeAccepting
        case scenarioEvent(ScenarioRun, Int)
        case endOfPatience

        /// nil: for the loop itself.
        var connection: UInt32? {
            switch self {
            case .act(let connection, _), .handshakeDeadline(let connection), .resumeHandshake(let connection),
                .endOfLingering(let connection), .release(let connection):
                connection
            case .idleSweep, .resumeAccepting, .scenarioEvent, .endOfPatience: nil
            }
        }
    }

    private static let fewest = 64

    private var heap = TimerHeap<Task>()
    /// The number of tasks at which those of closed connections are dropped.
    private var limit = fewest

    var isEmpty: Bool { heap.isEmpty }
    var count: Int { heap.count }
    var earliest: ContinuousClock.Instant? { heap.earliest }

    /// - Parameter isOpen: Whether there still is such a connection.
    mutating func schedule(_ task: Task, at due: ContinuousClock.Instant, isOpen: (UInt32) -> Bool) {
        if heap.count >= limit {
            heap.removeAll { $0.connection.map { !isOpen($0) } ?? false }
            limit = max(Self.fewest, 2 * heap.count)
        }
        heap.schedule(task, at: due)
    }

    mutating func popDue(at now: ContinuousClock.Instant) -> Task? { heap.popDue(at: now) }

    /// The scenario is over: drops its events.
    mutating func dropEvents(of run: ScenarioRun?) {
        heap.removeAll { task in
            if case .scenarioEvent(let other, _) = task { other === run } else { false }
        }
    }
}
