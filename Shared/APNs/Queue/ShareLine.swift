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

    /// Moves exactly `count` requests, which must be there.
    mutating func take(_ count: Int, into taken: inout [Share]) {
        var left = count
        while left > 0, head < shares.count, var first = shares[head].take() {
            let portion = min(left, first.requests.count)
            left -= portion
            requests -= portion
            if portion == first.requests.count {
                taken.append(first)
                head += 1
            } else {
                taken.append(first.takeFirst(portion))
                shares[head] = first
            }
        }
        compact()
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
