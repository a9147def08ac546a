/// Runs the parts of a task on an existing thread: an event loop that takes closures. A task that reads from a socket and answers there
/// needs no other thread in between, and none has to be woken.
///
/// The event loop must run every closure that it gets, in order, until no task uses this any more.
package final class EventLoopExecutor: TaskExecutor {
    private let submit: @Sendable (_ part: @escaping @Sendable () -> Void) -> Void

    package init(submit: @escaping @Sendable (_ part: @escaping @Sendable () -> Void) -> Void) { self.submit = submit }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        submit { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
