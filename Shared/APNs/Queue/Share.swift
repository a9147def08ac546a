/// Consecutive requests of one batch that are not sent yet. It has one owner: the pool's queue, or the connection that took it.
struct Share {
    let ledger: BatchLedger
    /// The share's requests among the batch's.
    var requests: Range<Int>
    /// Connections that could not process it: none of them gets it again.
    var refusedBy: [ConnectionID] = []
    let queuedAt: ContinuousClock.Instant

    /// How many other connections may have a refused request at once.
    static let maximumResends = 3

    var batch: APNsBatch { ledger.batch }

    /// Whether another connection may have it at once. If not, it has to wait, or the pool would send it as fast as APNs refuses it.
    /// - Parameter usable: connections that take requests. If `id` takes none any more, another one is on its way.
    func mayBeResent(after id: ConnectionID, usable: Set<ConnectionID>) -> Bool {
        guard refusedBy.count <= Self.maximumResends else { return false }
        return !usable.contains(id) || !usable.isSubset(of: refusedBy)
    }

    /// Cuts off its first requests, at most `count`, and no more than fit into `bytes`, which it lowers.
    mutating func takeFirst(_ count: Int, _ bytes: inout Int) -> Share? {
        let size = batch.payload.count
        let count = min(count, requests.count, bytes / max(1, size))
        guard count > 0 else { return nil }
        bytes -= count * size
        var first = self
        first.requests = requests.lowerBound..<(requests.lowerBound + count)
        requests = first.requests.upperBound..<requests.upperBound
        return first
    }

    /// Answers every request of it alike.
    func settle(_ result: APNsAnswer.Result) -> APNsFinishedBatch? {
        var answers = requests.map { APNsAnswer(index: batch.requests[$0].index, sentAt: nil, result: result) }
        return ledger.settle(&answers)
    }
}

extension Share {
    /// Neighbours of one batch as one share: a GOAWAY gives requests back one by one, highest first.
    static func joined(_ shares: [Share]) -> [Share] {
        var order: [ObjectIdentifier: Int] = [:]
        for share in shares where order[ObjectIdentifier(share.ledger)] == nil { order[ObjectIdentifier(share.ledger)] = order.count }
        let sorted = shares.sorted { left, right in
            let (a, b) = (order[ObjectIdentifier(left.ledger)] ?? 0, order[ObjectIdentifier(right.ledger)] ?? 0)
            return a == b ? left.requests.lowerBound < right.requests.lowerBound : a < b
        }
        var joined: [Share] = []
        for share in sorted {
            if let last = joined.last, last.ledger === share.ledger, last.refusedBy == share.refusedBy,
                last.requests.upperBound == share.requests.lowerBound
            {
                joined[joined.count - 1].requests = last.requests.lowerBound..<share.requests.upperBound
            } else {
                joined.append(share)
            }
        }
        return joined
    }
}

/// Collects the answers of one batch, through any connections, until it is whole. Belongs to the pool's event loop.
final class BatchLedger {
    let batch: APNsBatch
    private var answers: [APNsAnswer] = []
    private var missing: Int

    init(_ batch: APNsBatch) {
        self.batch = batch
        missing = batch.requests.count
    }

    /// Takes answers over from `answers`, which is empty afterwards.
    /// - Returns: the batch, once, with the call that completes it.
    func settle(_ more: inout [APNsAnswer]) -> APNsFinishedBatch? {
        missing -= more.count
        if answers.isEmpty {
            swap(&answers, &more)
        } else {
            answers.append(contentsOf: more)
            more.removeAll(keepingCapacity: true)
        }
        guard missing == 0 else { return nil }
        var all: [APNsAnswer] = []
        swap(&all, &answers)
        return APNsFinishedBatch(batch: batch, answers: all)
    }
}
