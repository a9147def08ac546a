import PushModel

/// Requests that wait for a free stream, lane by lane. A pure value: only this decides which connection takes how many when.
///
/// Within a lane it is first come, first served. Between lanes by weight: `now` first, yet each lane with waiting requests gets its share
/// of every round, so none starves and none waits for another lane's backlog (docs/promises.md, 9).
struct LaneQueue {
    struct Weights: Equatable, Sendable {
        var now = 16
        var soon = 4
        var bulk = 1

        subscript(_ lane: Lane) -> Int {
            switch lane {
            case .now: max(1, now)
            case .soon: max(1, soon)
            case .bulk: max(1, bulk)
            }
        }
        var sum: Int { self[.now] + self[.soon] + self[.bulk] }
    }

    private let weights: Weights
    private let maximumRequests: Int
    private var lines = Lanes(ShareLine())
    /// Of each lane, the shares that go before its line.
    private var returned = Lanes(ReturnedLine())
    /// Requests that each lane may still take in this round.
    private var credits = Lanes(0)

    /// - Parameter maximumRequests: in each lane; beyond it newcomers are refused.
    init(weights: Weights, maximumRequests: Int) {
        self.weights = weights
        self.maximumRequests = maximumRequests
    }

    var isEmpty: Bool { count(.now) + count(.soon) + count(.bulk) == 0 }
    func count(_ lane: Lane) -> Int { lines[lane].requests + returned[lane].requests }

    /// Whether there are waiting requests that this connection may have.
    func hasWork(for id: ConnectionID, _ lane: Lane) -> Bool { waiting(lane, for: id) > 0 }

    private func waiting(_ lane: Lane, for id: ConnectionID) -> Int { lines[lane].requests + returned[lane].requests(for: id) }

    /// - Returns: false when the lane is full, and then nothing was taken.
    mutating func append(_ share: Share) -> Bool {
        guard count(share.batch.lane) + share.requests.count <= maximumRequests else { return false }
        lines[share.batch.lane].append(share)
        return true
    }

    /// It goes first in its lane: it has waited already. Never refused, since a connection's stream limit bounds it.
    mutating func putBack(_ share: Share) {
        returned[share.batch.lane].append(share)
    }

    /// Moves up to `maximum` requests that this connection may have to `taken`.
    /// - Parameter reservedForNow: streams that only `now` may use, so that a backlog of another lane leaves a free stream for it.
    mutating func take(for id: ConnectionID, maximum: Int, reservedForNow: Int, into taken: inout [Share]) {
        let scale = max(1, maximum / weights.sum)
        // Portions for a thousand free streams would be a long wait if only one is left.
        for lane in Lane.allCases { credits[lane] = min(credits[lane], weights[lane] * scale) }
        var left = maximum
        while left > 0 {
            var progressed = false
            var waits = false
            for lane in Lane.allCases {
                let allowed = lane == .now ? left : left - reservedForNow
                let waiting = waiting(lane, for: id)
                guard allowed > 0, waiting > 0 else { continue }
                waits = true
                let count = min(allowed, credits[lane], waiting)
                guard count > 0 else { continue }
                let first = returned[lane].take(count, for: id, into: &taken)
                lines[lane].take(count - first, into: &taken)
                credits[lane] -= count
                left -= count
                progressed = true
            }
            guard waits else { return }
            if !progressed { newRound(scale) }
        }
    }

    /// Many free streams are shared out in larger portions: the same proportions with fewer pieces.
    private mutating func newRound(_ scale: Int) {
        for lane in Lane.allCases { credits[lane] = weights[lane] * scale }
    }

    /// Takes out all shares that match `condition`.
    mutating func remove(where condition: (Share) -> Bool) -> [Share] {
        var removed: [Share] = []
        for lane in Lane.allCases {
            returned[lane].remove(where: condition, into: &removed)
            lines[lane].remove(where: condition, into: &removed)
        }
        return removed
    }
}
