import Synchronization

/// The result of publishing one job, fan-out or fence.
enum Settlement: Sendable {
    /// - reply: Of the caller that waits for it; nil if no caller does.
    case job(PublishedJob, reply: JobsReply?)
    case fence(Int64)
}

/// The broker's answer for one job.
struct PublishedJob: Sendable {
    let id: JobID
    let isPublished: Bool
    /// It is the first job of a notification that its acceptance made, and which waits no longer.
    let isFirst: Bool
}

extension PublishedJob {
    init(_ job: PublishableJob, isPublished: Bool) { self.init(id: job.id, isPublished: isPublished, isFirst: job.isFirst) }
}

/// A caller that waits until the last of its jobs is recorded, or given up.
final class JobsReply: Sendable {
    private let unsettled: Mutex<Int>
    private let continuation: CheckedContinuation<Void, Never>

    init(jobs: Int, _ continuation: CheckedContinuation<Void, Never>) {
        unsettled = Mutex(jobs)
        self.continuation = continuation
        if jobs == 0 { continuation.resume() }
    }

    func settled() {
        let isLast = unsettled.withLock { unsettled in
            unsettled -= 1
            return unsettled == 0
        }
        if isLast { continuation.resume() }
    }
}
