/// One lane's shares in order. An array with a moving head: appending and taking cost no shifting.
struct ShareLine {
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
