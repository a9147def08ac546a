import PushModel

/// A job between being taken and being settled. Its receipt and what it owes are in the ``SettlementLedger``.
struct JobInProgress {
    let number: UInt64
    let app: ControlState.AppIndex
    let job: PushJob
    let headers: JobHeaders
    /// UNIX milliseconds.
    let takenAt: Int64

    /// Deliveries that have neither an outcome nor a place in a retry message.
    var pending: DeliverySet
    /// Pending ones that wait for the gate to open, and since when (UNIX milliseconds).
    var parked = DeliverySet()
    var parkedSince: Int64 = 0
    /// Pending ones that a pool returned unsent because this process is stopping.
    var returned = DeliverySet()
    /// Those that are tried again in the other environment.
    var switched = DeliverySet()
    /// Those of which an attempt came to nothing here: that APNs could not take now, and that got no answer.
    var failed = DeliverySet()
    var unanswered = DeliverySet()
    /// Times that pools gave something back because their credential was replaced.
    var resubmissions = 0
    /// The hold because of which some of it was put aside here.
    var heldBy: PushID?
    /// Something of it was reported or will be retried, so it can no longer be given back whole.
    var hasResults = false
    /// The broker delivers it anew, because the connection that brought it is gone.
    var isStale = false

    /// The number of the try that is being made.
    var attempt: Int { job.attempt + 1 }
    /// The number of the try before it, which made a delivery end as failed or unknown although this one never left. After a replay there may
    /// be none yet, and an end must bear a number of the new life.
    var lastAttempt: Int { max(1, job.attempt) }
    /// An attempt that is to be tried again.
    mutating func note(_ outcome: PushJob.EarlierOutcome, _ index: Int) {
        switch outcome {
        case .none: break
        case .failed: failed.insert(index)
        case .unknown: unanswered.insert(index)
        }
    }

    /// What the attempts of a delivery came to, here and before.
    func attempts(of index: Int) -> PushJob.EarlierOutcome {
        let here: PushJob.EarlierOutcome = unanswered.contains(index) ? .unknown : failed.contains(index) ? .failed : .none
        return max(here, job.deliveries[index].earlierOutcome)
    }

    /// Nothing of it is in a pool.
    var isAtRest: Bool { pending.count == parked.count + returned.count }
}

/// The headers of a job's message: kept through retries, so that a trace goes on, except what the broker added.
struct JobHeaders: Equatable, Sendable {
    /// How often the job came back from a delayed queue without a try that counts.
    static let waits = "push-waits"

    /// The hold because of which it is there, so that this is reported once.
    static let heldBy = "push-held-by"

    let kept: [String: String]
    let waits: Int
    /// Tries of a life before this one, which a replay ended (``PushJob/earlierAttemptsHeader``).
    let earlierAttempts: Int
    let heldBy: PushID?

    init(_ headers: [String: String]) {
        kept = headers.filter { !$0.key.hasPrefix("x-") && $0.key != Self.waits && $0.key != Self.heldBy }
        waits = headers[Self.waits].flatMap { Int($0) } ?? 0
        earlierAttempts = headers[PushJob.earlierAttemptsHeader].flatMap { Int($0) }.map { min(max(0, $0), 1_000_000) } ?? 0
        heldBy = headers[Self.heldBy].flatMap { PushID($0) }
    }

    func forRetry(waits: Int, heldBy: PushID?) -> [String: String] {
        guard waits > 0 || heldBy != nil else { return kept }
        var headers = kept
        if waits > 0 { headers[Self.waits] = String(waits) }
        headers[Self.heldBy] = heldBy?.description
        return headers
    }
}
