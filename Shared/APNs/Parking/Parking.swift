import PushModel
import Synchronization
import SystemIO

/// Where a pool's batches wait, and the meeting place of those who bring them, the connections that send them and the pool's supervisor.
///
/// A connection takes only what it may send at once, so everything that waits, waits here: when a connection ends nothing is stuck behind it.
/// One lock, held for a few lines; wake-ups happen outside it.
final class Parking: Sendable {
    enum Admission: Equatable, Sendable {
        case open
        case refusing(NotSentReason)
    }

    private let room: Mutex<ParkingRoom>
    private let wakeSupervisor: @Sendable () -> Void

    /// - Parameter wakeSupervisor: called when something waits that no connection will take by itself; from any thread.
    init(weights: LaneQueue.Weights, maximumRequests: Int, now: ContinuousClock.Instant, wakeSupervisor: @escaping @Sendable () -> Void) {
        room = Mutex(ParkingRoom(queue: LaneQueue(weights: weights, maximumRequests: maximumRequests), lastArrival: now))
        self.wakeSupervisor = wakeSupervisor
    }

    // MARK: Those who bring

    /// Parks shares of many batches under one lock, so that a connection is woken once for all of them.
    /// - Returns: those that were not parked, and why.
    func submit(_ shares: [Share]) -> [(share: Share, reason: NotSentReason)] {
        let (refused, wakeUps, tellsSupervisor) = room.withLock { room -> ([(share: Share, reason: NotSentReason)], [WakeUp], Bool) in
            if case .refusing(let reason) = room.admission { return (shares.map { ($0, reason) }, [], false) }
            var refused: [(share: Share, reason: NotSentReason)] = []
            var parked = Lanes(0)
            for share in shares {
                guard room.queue.append(share) else {
                    refused.append((share, .parkingFull))
                    continue
                }
                parked[share.batch.lane] += share.requests.count
                room.lastArrival = share.parkedAt
            }
            let (wakeUps, coversAll) = room.feed(parked)
            return (refused, wakeUps, !coversAll && room.tellSupervisor())
        }
        for wakeUp in wakeUps { wakeUp.signal() }
        if tellsSupervisor { wakeSupervisor() }
        return refused
    }

    // MARK: Connections

    /// A connection takes requests from now on.
    func join(_ id: ConnectionID) {
        room.withLock { _ = $0.usable.insert(id) }
    }

    /// Takes up to `maximum` requests for a connection, and remembers it where it could have taken more.
    func take(
        for id: ConnectionID, _ wakeUp: WakeUp, maximum: Int, reservedForNow: Int, into taken: inout [Share]
    ) {
        let (other, tellsSupervisor) = room.withLock { room -> (WakeUp?, Bool) in
            room.hungry.removeAll { $0.id == id }
            room.queue.take(for: id, maximum: maximum, reservedForNow: reservedForNow, into: &taken)
            let left = maximum - taken.reduce(0) { $0 + $1.requests.count }
            let other = room.another()
            if left > 0 {
                room.hungry.append(ParkingRoom.Hungry(id: id, wakeUp: wakeUp, streams: left, otherStreams: max(0, left - reservedForNow)))
            }
            return (other, !room.queue.isEmpty && room.tellSupervisor())
        }
        other?.signal()
        if tellsSupervisor { wakeSupervisor() }
    }

    /// A connection gives back what is certainly not processed. It goes first, to another connection if that refused it.
    /// - Returns: what no connection may have at once.
    func putBack(_ shares: [Share], from id: ConnectionID) -> [Share] {
        let (refused, wakeUps, tellsSupervisor) = room.withLock { room -> ([Share], [WakeUp], Bool) in
            var refused: [Share] = []
            var wakeUps: [WakeUp] = []
            var coversAll = true
            room.hungry.removeAll { $0.id == id }
            for share in shares {
                guard share.mayBeResent(after: id, usable: room.usable) else {
                    refused.append(share)
                    continue
                }
                room.queue.putBack(share)
                let (more, covers) = room.feed(share.requests.count, share.batch.lane, notTo: share.refusedBy)
                wakeUps += more
                coversAll = coversAll && covers
            }
            return (refused, wakeUps, !coversAll && room.tellSupervisor())
        }
        for wakeUp in wakeUps { wakeUp.signal() }
        if tellsSupervisor { wakeSupervisor() }
        return refused
    }

    /// A connection takes nothing more. What it was woken for goes to another.
    func leave(_ id: ConnectionID) {
        let (other, tellsSupervisor) = room.withLock { room -> (WakeUp?, Bool) in
            room.usable.remove(id)
            room.hungry.removeAll { $0.id == id }
            return (room.another(), !room.queue.isEmpty && room.tellSupervisor())
        }
        other?.signal()
        if tellsSupervisor { wakeSupervisor() }
    }

    // MARK: The supervisor

    /// Sets what newcomers meet from now on. Where they are refused, everything that waits is handed out.
    /// - Parameter looksAway: while nothing waits, the supervisor wants to be woken for the next that has to.
    func update(
        admission: Admission, looksAway: Bool
    ) -> (removed: [Share], hasWork: Bool, lastArrival: ContinuousClock.Instant) {
        room.withLock { room in
            room.admission = admission
            var removed: [Share] = []
            if case .refusing = admission { removed = room.queue.remove { _ in true } }
            if looksAway { room.supervisorLooksAway() }
            return (removed, !room.queue.isEmpty, room.lastArrival)
        }
    }

    /// Newcomers wait again.
    func admit() { room.withLock { $0.admission = .open } }

    /// Hands out what must not wait any longer.
    func remove(where condition: (Share) -> Bool) -> [Share] {
        room.withLock { $0.queue.remove(where: condition) }
    }

    func counts() -> Lanes<Int> {
        room.withLock { room in
            var counts = Lanes(0)
            for lane in Lane.allCases { counts[lane] = room.queue.count(lane) }
            return counts
        }
    }
}
