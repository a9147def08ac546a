/// Consecutive requests of one batch that nobody has sent yet. It has one owner: the parking, or the connection that took it.
struct Share: Sendable {
    let ledger: BatchLedger
    /// Of the batch's requests.
    var requests: Range<Int>
    /// How often connections gave (part of) it back: certainly not processed, but not through either.
    var returns = 0
    let parkedAt: ContinuousClock.Instant

    var batch: APNsBatch { ledger.batch }

    /// Cuts off the first `count` requests.
    mutating func takeFirst(_ count: Int) -> Share {
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
