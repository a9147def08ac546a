/// Runs the parts of a task on a thread that is somebody else's: an event loop that takes closures. Whoever reads from a socket and answers
/// there needs no other thread in between, and none has to be woken.
///
/// The event loop must run every closure that it is given, in order, until nothing uses this any more.
package final class EventLoopExecutor: TaskExecutor {
    private let submit: @Sendable (_ part: @escaping @Sendable () -> Void) -> Void

    package init(submit: @escaping @Sendable (_ part: @escaping @Sendable () -> Void) -> Void) { self.submit = submit }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        submit { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
