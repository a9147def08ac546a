import PushModel
import SystemIO

/// What the parking's lock guards: the queue, and the connections that could send more than there was.
struct ParkingRoom {
    struct Hungry {
        let id: ConnectionID
        let wakeUp: WakeUp
        /// For `now`, and for the other lanes (fewer: some streams are reserved).
        let streams: Int
        let otherStreams: Int
    }

    var queue: LaneQueue
    var admission = Parking.Admission.open
    /// Connections that take requests.
    var usable: Set<ConnectionID> = []
    /// The next to be woken first.
    var hungry: [Hungry] = []
    private var supervisorKnows = false
    var lastArrival: ContinuousClock.Instant

    init(queue: LaneQueue, lastArrival: ContinuousClock.Instant) {
        self.queue = queue
        self.lastArrival = lastArrival
    }

    /// Connections to wake for that many requests, and whether they can take them all.
    /// - Parameter refusers: connections that may not have them.
    mutating func feed(_ requests: Int, _ lane: Lane, notTo refusers: [ConnectionID] = []) -> (wakeUps: [WakeUp], coversAll: Bool) {
        var left = requests
        var wakeUps: [WakeUp] = []
        var index = 0
        while left > 0, index < hungry.count {
            let streams = lane == .now ? hungry[index].streams : hungry[index].otherStreams
            guard streams > 0, !refusers.contains(hungry[index].id) else {
                index += 1
                continue
            }
            // It will say again how hungry it is; until then the others come first, which spreads the load.
            wakeUps.append(hungry.remove(at: index).wakeUp)
            left -= streams
        }
        return (wakeUps, left <= 0)
    }

    /// The same for requests of several lanes.
    mutating func feed(_ requests: Lanes<Int>) -> (wakeUps: [WakeUp], coversAll: Bool) {
        var wakeUps: [WakeUp] = []
        var coversAll = true
        for lane in Lane.allCases where requests[lane] > 0 {
            let (more, covers) = feed(requests[lane], lane)
            wakeUps += more
            coversAll = coversAll && covers
        }
        return (wakeUps, coversAll)
    }

    /// Somebody to wake for what one connection could not take.
    mutating func another() -> WakeUp? {
        guard !queue.isEmpty, !hungry.isEmpty else { return nil }
        let index = hungry.firstIndex { hungry in
            Lane.allCases.contains { (($0 == .now ? hungry.streams : hungry.otherStreams) > 0) && queue.hasWork(for: hungry.id, $0) }
        }
        return index.map { hungry.remove(at: $0).wakeUp }
    }

    /// Whether the supervisor has yet to hear that something waits. It then looks after it until it looks away.
    mutating func tellSupervisor() -> Bool {
        guard !supervisorKnows else { return false }
        supervisorKnows = true
        return true
    }

    mutating func supervisorLooksAway() {
        if queue.isEmpty { supervisorKnows = false }
    }
}
