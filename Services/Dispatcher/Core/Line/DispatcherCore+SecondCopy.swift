import Broker
import PushModel

/// Calls (`on_unknown: resend_once`): where no answer came, one more try at once, and none later, because a late ring is worse than none.
extension DispatcherCore {
    mutating func sendSecondCopy(
        _ index: Int, _ said: Answered, of job: inout JobInProgress, next: inout NextSteps, at now: Int64
    ) {
        job.note(RetryCause.noAnswer.leaves, index)
        let isYoung = now < min(secondCopyEnd(of: job.job), job.job.expiresAt)
        guard isYoung, job.attempt < rules.retries.maximumAttempts else { return report(.unknown, index, said, of: &job) }
        next.secondCopies.append(index)
        report(.unknown, index, said, retryAt: now, of: &job)
    }

    /// Through the broker, as every retry: it outlives this process. What is left of the decision travels with it: it is sent before its
    /// time is up or not at all, and not a third time.
    mutating func publishSecondCopies(_ indices: [Int], of progress: inout JobInProgress, at now: Int64) {
        var copy = progress.copy(of: indices, attempt: progress.attempt)
        copy.onUnknown = .drop
        copy.expiresAt = min(copy.expiresAt, secondCopyEnd(of: copy))
        let topology = rules.topology
        let message = OutgoingMessage(
            exchange: topology.jobsExchange, routingKey: topology.jobRoutingKey(copy.lane),
            messageID: PushID.timeOrdered(milliseconds: now), contentType: PushJob.contentType,
            headers: progress.headers.forRetry(waits: 0, heldBy: progress.heldBy), body: copy.encoded())
        ledger.owe(progress.number)
        outbox.append(OutboundMessage(message: message, covers: [progress.number], kind: .retry))
    }

    private func secondCopyEnd(of job: PushJob) -> Int64 { job.acceptedAt + rules.secondCopyAge }
}
