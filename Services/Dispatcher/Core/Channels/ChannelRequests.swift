import APNs
import Synchronization

/// The requests of channel management that pools have, and the tasks that await their answers. Thread-safe.
final class ChannelRequests: Sendable {
    private struct Contents {
        var lastTag: UInt64 = 0
        var waiting: [UInt64: CheckedContinuation<APNsAnswer, Never>] = [:]
    }

    private let contents = Mutex(Contents())

    /// Awaits the answer to a batch of one request. A pool gives every batch back, also when it is shut down.
    /// - Parameter submit: gets the batch's tag, and hands the batch to a pool.
    func answer(_ submit: (_ tag: UInt64) -> Void) async -> APNsAnswer {
        await withCheckedContinuation { continuation in
            let tag = contents.withLock { contents in
                contents.lastTag += 1
                contents.waiting[contents.lastTag] = continuation
                return contents.lastTag
            }
            submit(tag)
        }
    }

    func finish(_ finished: [APNsFinishedBatch]) {
        for one in finished {
            let continuation = contents.withLock { $0.waiting.removeValue(forKey: one.batch.tag) }
            if let continuation, let answer = one.answers.first { continuation.resume(returning: answer) }
        }
    }
}
