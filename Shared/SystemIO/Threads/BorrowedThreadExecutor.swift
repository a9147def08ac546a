/// Runs tasks that prefer it where somebody else's loop runs what it is given: no hop between threads while they stay there.
///
/// What the tasks do between two suspensions delays everything else on that loop, so it must be short.
package final class BorrowedThreadExecutor: TaskExecutor {
    private let run: @Sendable (@escaping @Sendable () -> Void) -> Void

    /// - Parameter run: Runs one piece of work after the other, in the order in which they came, each exactly once.
    package init(run: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void) { self.run = run }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        run { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
