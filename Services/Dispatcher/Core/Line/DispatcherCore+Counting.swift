import APNs
import PushModel

/// What is counted on the way, in labels of closed sets only.
extension DispatcherCore {
    /// How long the job waited in the broker, where it has not been tried before.
    mutating func noteQueueAge(of job: PushJob, _ headers: [String: String], at now: Int64) {
        guard job.attempt == 0, headers[JobHeaders.waits] == nil else { return }
        tally.queued.append(CoreTally.Finished(lane: job.lane, milliseconds: max(0, now - job.acceptedAt)))
    }

    mutating func count(_ event: OutcomeGatherer.Gathered) {
        let app = directory.serves(event.app) ? event.app : nil
        func kind(_ reason: String) -> CoreTally.Outcome {
            CoreTally.Outcome(app: app, outcome: event.outcome, isFinal: event.isFinal, reason: reason)
        }
        // The most frequent one by far has no reason.
        guard event.outcome != .accepted else {
            tally.outcomes[kind(OutcomeReason.none), default: 0] += event.deliveries.count
            return
        }
        for delivery in event.deliveries { tally.outcomes[kind(OutcomeReason.label(delivery.reason)), default: 0] += 1 }
    }
}

/// Reasons as labels: APNs' and our own; whatever else somebody wrote is one.
enum OutcomeReason {
    static let none = "none"
    static let other = "other"

    private static let known: Set<String> = Set(
        APNsReason.allCases.map(\.rawValue) + NotSentReason.allCases.map(\.rawValue) + UnknownReason.allCases.map(\.rawValue)
            + OwnReason.all)

    static func label(_ reason: String?) -> String {
        guard let reason else { return none }
        return known.contains(reason) ? reason : other
    }
}
