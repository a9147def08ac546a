/// One lane's shares: a line for each app, and the apps take turns. Whoever brings much waits behind itself, not in front of the others
/// (docs/promises.md, 10).
struct TenantLines {
    /// Requests that an app may take in one turn while others wait: small beside a lane's prefetch, large beside the cost of a turn.
    static let turn = 16

    private var lines: [UInt32: ShareLine] = [:]
    /// Apps for which something waits; the first one has its turn.
    private var ring: [UInt32] = []
    /// What is left of that turn.
    private var credit = Self.turn
    /// Requests in all lines together.
    private(set) var requests = 0

    mutating func append(_ share: Share) {
        let tenant = share.batch.tenant
        if lines[tenant, default: ShareLine()].requests == 0 { ring.append(tenant) }
        lines[tenant, default: ShareLine()].append(share)
        requests += share.requests.count
    }

    /// Moves exactly `count` requests, which must be there.
    mutating func take(_ count: Int, into taken: inout [Share]) {
        var left = min(count, requests)
        while left > 0, let tenant = ring.first {
            let waiting = lines[tenant]?.requests ?? 0
            let portion = ring.count == 1 ? min(left, waiting) : min(left, waiting, credit)
            lines[tenant]?.take(portion, into: &taken)
            left -= portion
            requests -= portion
            credit -= min(credit, portion)
            if portion == waiting {
                ring.removeFirst()
                credit = Self.turn
            } else if credit == 0 {
                ring.removeFirst()
                ring.append(tenant)
                credit = Self.turn
            }
        }
    }

    mutating func remove(where condition: (Share) -> Bool, into removed: inout [Share]) {
        guard requests > 0 else { return }
        for tenant in ring { lines[tenant]?.remove(where: condition, into: &removed) }
        ring.removeAll { lines[$0]?.requests ?? 0 == 0 }
        requests = ring.reduce(0) { $0 + (lines[$1]?.requests ?? 0) }
    }
}
