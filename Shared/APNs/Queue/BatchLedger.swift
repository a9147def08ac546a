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
