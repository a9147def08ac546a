import APNs
import PushModel

/// What became of deliveries of which APNs must not get many copies (`on_unknown` other than `resend`), while the broker may deliver their
/// jobs anew to this process. What another process knew is lost with it. Pure: time comes in.
struct CarefulDeliveries {
    enum Fate: Equatable {
        /// A pool has its request.
        case left
        case ended(OutcomeClass, reason: String?)
        /// Its request got no answer, and the job's new copy has to decide.
        case unanswered
        /// A second copy is on its way.
        case copied
    }

    private struct Entry {
        let fate: Fate
        let attempt: Int
        let job: UInt64
        /// The connection that brought the job is lost: since when, in UNIX milliseconds.
        var keptSince: Int64?
    }

    /// The broker delivers a job anew at once, or after its `consumer_timeout`, which is half an hour.
    private static let memory: Int64 = 3_600_000
    private static let most = 100_000
    private var entries: [PushID: Entry] = [:]
    private var forgottenAt: Int64 = 0

    var isEmpty: Bool { entries.isEmpty }
    var count: Int { entries.count }

    /// - Parameter fate: nil: nothing of it has left, or its retry has another number.
    mutating func note(_ fate: Fate?, of delivery: PushID, attempt: Int, job: UInt64, at now: Int64) {
        let known = entries[delivery]
        // An older job's late answer says nothing about a newer try.
        if let known, known.attempt > attempt { return }
        entries[delivery] = fate.map { Entry(fate: $0, attempt: attempt, job: job, keptSince: known?.job == job ? known?.keptSince : nil) }
    }

    /// - Parameter isOpen: whether the job is not settled yet.
    func fate(of delivery: PushID, attempt: Int, _ isOpen: (UInt64) -> Bool) -> Fate? {
        guard let entry = entries[delivery], entry.attempt >= attempt, entry.keptSince != nil || isOpen(entry.job) else { return nil }
        // A later try is a copy of its own.
        return entry.attempt == attempt ? entry.fate : .copied
    }

    /// The broker delivers the unsettled jobs anew that `isForgotten` names.
    mutating func keep(at now: Int64, _ isForgotten: (UInt64) -> Bool) {
        for (id, entry) in entries where isForgotten(entry.job) { entries[id]?.keptSince = now }
    }

    /// Once a second: forgets the deliveries of settled jobs.
    mutating func forget(at now: Int64, _ isOpen: (UInt64) -> Bool) {
        guard !entries.isEmpty, now - forgottenAt >= 1_000 || now < forgottenAt else { return }
        forgottenAt = now
        let memory = entries.count > Self.most ? 0 : Self.memory
        entries = entries.filter { _, entry in entry.keptSince.map { (0..<memory).contains(now - $0) } ?? isOpen(entry.job) }
    }
}

extension CarefulDeliveries.Fate {
    /// After an answer of a pool, and the step that follows from it.
    init?(_ step: Planner.Step, _ result: APNsAnswer.Result) {
        switch step {
        case .end(let outcome), .giveUp(let outcome, _, _): self = .ended(outcome, reason: result.reason)
        case .sendSecondCopy: self = .copied
        case .leaveToOtherCopy:
            guard case .unknown = result else { return nil }
            self = .unanswered
        case .retry, .wait: return nil
        }
    }
}

extension APNsAnswer.Result {
    fileprivate var reason: String? {
        switch self {
        case .response(_, let reason, _, _): reason
        case .unknown(let why): why.rawValue
        case .notSent(let why): why.rawValue
        case .stopped(let why): why.rawValue
        }
    }
}
