import APNs
import Broker
import PushModel

/// A token that APNs has never accepted may have been registered for the wrong environment, where it looks like garbage (docs/apns.md,
/// Environments): it is tried once in the other one, through the retry path like everything that is tried again.
extension DispatcherCore {
    func mayTryOtherEnvironment(_ index: Int, _ said: Answered, of job: JobInProgress) -> Bool {
        let delivery = job.job.deliveries[index]
        return delivery.environmentTrial == .allowed && said.reason == APNsReason.badDeviceToken.rawValue
            && directory.pool(app: job.app, delivery.environment.other, topic: job.job.topic) != nil
    }

    /// Where no time or try is left, the rejection stands.
    mutating func tryOtherEnvironment(
        _ index: Int, _ said: Answered, of job: inout JobInProgress, next: inout NextSteps, at now: Int64
    ) {
        guard !job.isStale else {
            _ = job.pending.remove(index)
            return
        }
        let decision =
            next.decided(.otherEnvironment, said)
            ?? rules.retries.decide(
                .otherEnvironment, lane: job.job.lane, attempt: job.attempt, waits: job.headers.waits, now: now,
                expiresAt: job.job.expiresAt, using: &random)
        next.remember(decision, for: .otherEnvironment, said)
        guard case .again(let delay) = decision else { return report(.tokenRejected, index, said, of: &job) }
        job.switched.insert(index)
        job.note(RetryCause.otherEnvironment.leaves, index)
        next.add(index, to: NextSteps.Retry(delay: delay, countsAsAttempt: RetryCause.otherEnvironment.countsAsAttempt))
        report(.tokenRejected, index, said, retryAt: now + delay.milliseconds, of: &job)
    }
}
