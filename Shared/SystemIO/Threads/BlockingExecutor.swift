internal import Dispatch

/// Runs one actor's jobs one at a time on Dispatch's threads, so that a blocking C call inside the actor
/// cannot starve Swift's cooperative pool. (A serial queue, not a pinned thread.)
package final class BlockingExecutor: SerialExecutor {
    private let queue: DispatchQueue

    package init(label: String) {
        queue = DispatchQueue(label: label)
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }
}
