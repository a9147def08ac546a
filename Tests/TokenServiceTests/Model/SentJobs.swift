import Broker
import PushModel
import Synchronization
import TestSupport

/// The jobs that the service has published, by notification: what a notification to a user reached, and with which owner epochs. The
/// database keeps only the tokens. No notification of the model has more than one job.
final class SentJobs: Sendable {
    private let jobs = Mutex<[PushID: PushJob]>([:])

    func job(of notification: PushID) -> PushJob? { jobs.withLock { $0[notification] } }

    /// Of a job that is published twice, the first counts: the second one was resolved anew.
    func collect(_ messages: Signal<ReceivedMessage>) async throws {
        while true {
            let job = try PushJob(decoding: try await messages.next().body)
            jobs.withLock { jobs in
                if jobs[job.notification] == nil { jobs[job.notification] = job }
            }
        }
    }
}
