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

    /// How much a connection may take at once. The bytes are those of payloads.
    struct Room: Equatable {
        var requests = 0
        var bytes = 0

        /// It does not hold one of the largest payloads.
        var isFull: Bool { bytes < PushType.voip.maximumPayloadBytes }

        fileprivate static func -= (room: inout Room, taken: Room) {
            room.requests -= taken.requests
            room.bytes -= taken.bytes
        }
    }

    private let weights: Weights
    private let maximumRequests: Int
    private var queues = Lanes(ShareQueue())
    /// The shares that go before each lane's line.
    private var returned = Lanes(ReturnedShares())
    /// Requests that each lane may still take in this round.
    private var credits = Lanes(0)

    /// - Parameter maximumRequests: The limit in each lane; beyond it newcomers are refused.
    init(weights: Weights = Weights(), maximumRequests: Int) {
        self.weights = weights
        self.maximumRequests = maximumRequests
    }

    var isEmpty: Bool { count(.now) + count(.soon) + count(.bulk) == 0 }
    func count(_ lane: Lane) -> Int { queues[lane].requests + returned[lane].requests }

    private func waiting(_ lane: Lane, for id: ConnectionID) -> Int { queues[lane].requests + returned[lane].requests(for: id) }

    /// - Returns: false when the lane is full, and then nothing was taken.
    mutating func append(_ share: Share) -> Bool {
        guard count(share.batch.lane) + share.requests.count <= maximumRequests else { return false }
        queues[share.batch.lane].append(share)
        return true
    }

    /// It goes first in its lane: it has waited already. Never refused, since a connection's stream limit bounds it.
    mutating func putBack(_ share: Share) { returned[share.batch.lane].append(share) }

    /// Moves requests that this connection may have to `taken`. A batch is cut only where the room ends, or where lanes take turns.
    /// - Parameters:
    ///   - room: the room for all of them.
    ///   - others: the room for those of other lanes than `now`, so that a backlog of them leaves room for it. While `now` itself has a
    ///     backlog, the weights share all of the room.
    mutating func take(for id: ConnectionID, _ room: Room, others: Room, into taken: inout [Share]) {
        let scale = max(1, room.requests / weights.sum)
        // Portions for hundreds of requests would be a long wait if there is room for only one.
        for lane in Lane.allCases { credits[lane] = min(credits[lane], weights[lane] * scale) }
        var (room, others) = (room, others)
        while room.requests > 0 {
            var (waiting, lanes) = (Lanes(0), 0)
            for lane in Lane.allCases where lane == .now || waiting[.now] > 0 || others.requests > 0 {
                waiting[lane] = self.waiting(lane, for: id)
                if waiting[lane] > 0 { lanes += 1 }
            }
            guard lanes > 0 else { return }
            // The next one has its turn at once.
            if waiting[.now] == 0 { credits[.now] = weights[.now] * scale }
            var progressed = false
            for lane in Lane.allCases {
                // `now` has had its turn, and waits for the others'.
                let sharesAll = waiting[.now] > 0 && credits[.now] == 0
                let space = lane == .now || sharesAll ? room : others
                let count = min(waiting[lane], space.requests, lanes == 1 ? .max : credits[lane])
                guard count > 0 else { continue }
                progressed = true
                let portion = take(count, space.bytes, of: lane, for: id, into: &taken)
                waiting[lane] -= portion.requests
                if lanes > 1 { credits[lane] -= portion.requests }
                room -= portion
                others -= portion
                if portion.requests < count {
                    // The bytes have ended. The lane keeps its turn: smaller requests of others would take the place of its large ones.
                    guard lane != .now, !sharesAll else { return }
                    others = Room()
                }
            }
            // Much room is shared out in larger portions: the same proportions with fewer pieces.
            if !progressed { for lane in Lane.allCases { credits[lane] = weights[lane] * scale } }
        }
    }

    /// Takes fewer than `count` requests, which must wait, if the next one does not fit into `bytes`.
    private mutating func take(
        _ count: Int, _ bytes: Int, of lane: Lane, for id: ConnectionID, into taken: inout [Share]
    ) -> Room {
        var left = bytes
        let returned = min(count, returned[lane].requests(for: id))
        var requests = self.returned[lane].take(returned, &left, for: id, into: &taken)
        if requests == returned { requests += queues[lane].take(count - requests, &left, into: &taken) }
        return Room(requests: requests, bytes: bytes - left)
    }

    /// Takes out all shares that match `condition`.
    mutating func remove(where condition: (Share) -> Bool) -> [Share] {
        var removed: [Share] = []
        for lane in Lane.allCases {
            returned[lane].remove(where: condition, into: &removed)
            queues[lane].remove(where: condition, into: &removed)
        }
        return removed
    }
}

/// One lane's shares that connections gave back as certainly not processed. They go out before untried ones, and never to a connection that
/// refused them. Short: a connection gives back no more than it has streams.
struct ReturnedShares {
    private var shares: [Share] = []
    private(set) var requests = 0

    mutating func append(_ share: Share) {
        shares.append(share)
        requests += share.requests.count
    }

    /// How many of them this connection may have.
    func requests(for id: ConnectionID) -> Int {
        shares.isEmpty ? 0 : shares.reduce(0) { $0 + ($1.refusedBy.contains(id) ? 0 : $1.requests.count) }
    }

    /// Moves up to `count` requests, as far as they fit into `bytes`, which it lowers.
    /// - Returns: how many it were.
    mutating func take(_ count: Int, _ bytes: inout Int, for id: ConnectionID, into taken: inout [Share]) -> Int {
        guard count > 0 else { return 0 }
        var left = count
        var kept: [Share] = []
        for var share in shares {
            if left == 0 || share.refusedBy.contains(id) {
                kept.append(share)
                continue
            }
            if let first = share.takeFirst(left, &bytes) {
                left -= first.requests.count
                taken.append(first)
            }
            if !share.requests.isEmpty { kept.append(share) }
        }
        shares = kept
        requests -= count - left
        return count - left
    }

    mutating func remove(where condition: (Share) -> Bool, into removed: inout [Share]) {
        guard !shares.isEmpty else { return }
        removed += shares.filter(condition)
        shares.removeAll(where: condition)
        requests = shares.reduce(0) { $0 + $1.requests.count }
    }
}

/// One lane's shares in order. An array with a moving head: appending and taking cost no shifting.
struct ShareQueue {
    private var shares: [Share?] = []
    private var head = 0
    /// Requests in all shares together.
    private(set) var requests = 0

    mutating func append(_ share: Share) {
        shares.append(share)
        requests += share.requests.count
    }

    /// Moves up to `count` requests, as far as they fit into `bytes`, which it lowers.
    /// - Returns: how many it were.
    mutating func take(_ count: Int, _ bytes: inout Int, into taken: inout [Share]) -> Int {
        var left = count
        while left > 0, head < shares.count, var share = shares[head].take() {
            let first = share.takeFirst(left, &bytes)
            if share.requests.isEmpty { head += 1 } else { shares[head] = share }
            guard let first else { break }
            taken.append(first)
            left -= first.requests.count
        }
        requests -= count - left
        compact()
        return count - left
    }

    mutating func remove(where condition: (Share) -> Bool, into removed: inout [Share]) {
        guard requests > 0 else { return }
        let all = shares[head...].compactMap { $0 }
        let picked = all.filter(condition)
        guard !picked.isEmpty else { return }
        removed.append(contentsOf: picked)
        shares = all.filter { !condition($0) }
        head = 0
        requests = shares.reduce(0) { $0 + ($1?.requests.count ?? 0) }
    }

    private mutating func compact() {
        if head == shares.count {
            shares.removeAll(keepingCapacity: true)
            head = 0
        } else if head >= 64, head * 2 >= shares.count {
            shares.removeFirst(head)
            head = 0
        }
    }
}
