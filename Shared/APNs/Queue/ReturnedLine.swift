/// One lane's shares that connections gave back as certainly not processed. They go out before untried ones, and never to a connection that
/// refused them. Short: a connection gives back no more than it has streams.
struct ReturnedLine {
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
