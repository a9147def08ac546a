import Synchronization

/// Collects the answers of one batch, whichever connections they come through, and tells when it is whole.
final class BatchLedger: Sendable {
    private struct Entries {
        var answers: [APNsAnswer] = []
        var missing: Int
    }

    let batch: APNsBatch
    private let entries: Mutex<Entries>

    init(_ batch: APNsBatch) {
        self.batch = batch
        entries = Mutex(Entries(missing: batch.requests.count))
    }

    /// Takes answers over from `answers`, which is empty afterwards.
    /// - Returns: the batch, once, with the call that completes it. The caller passes it on, outside any lock.
    func settle(_ answers: inout [APNsAnswer]) -> APNsFinishedBatch? {
        entries.withLock { entries in
            entries.missing -= answers.count
            if entries.answers.isEmpty {
                swap(&entries.answers, &answers)
            } else {
                entries.answers.append(contentsOf: answers)
                answers.removeAll(keepingCapacity: true)
            }
            guard entries.missing == 0 else { return nil }
            var all: [APNsAnswer] = []
            swap(&all, &entries.answers)
            return APNsFinishedBatch(batch: batch, answers: all)
        }
    }
}
