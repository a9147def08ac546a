import APNs
import PushModel

/// What became of deliveries of which APNs must not get many copies (`on_unknown` other than `resend`), while the broker may deliver their
/// jobs anew to this process. What another process knew is lost with it. Pure: time comes in, of a steady clock, in milliseconds.
struct CarefulDeliveries {
    enum Fate: Equatable {
        /// Nothing of it has left since its last copy was made.
        case notLeft
        /// A pool has its request.
        case left
        case ended(OutcomeClass, reason: String?)
        /// Its request got no answer, and the job's new copy has to decide.
        case unanswered
        /// A retry or a second copy goes on with it.
        case copied
    }

    /// Each message about a delivery has a greater one than the message before it.
    struct Version: Comparable {
        /// Tries that count, those before a replay included.
        let attempts: Int
        var waits: Int

        static func < (one: Version, other: Version) -> Bool { (one.attempts, one.waits) < (other.attempts, other.waits) }
    }

    private struct Entry {
        var fate: Fate
        var version: Version
        /// The job whose request it is about.
        var teller: UInt64
        /// The job that published the newest copy.
        var carrier: UInt64
        /// Jobs with the delivery. The broker may deliver those that are not settled anew.
        var jobs: [UInt64]
        /// When it was last noted, and when a connection was lost that had brought one of the jobs.
        var notedAt: Int64
        var keptSince: Int64?
    }

    /// The broker delivers a job anew at once, or after its `consumer_timeout`, which is half an hour.
    private static let memory: Int64 = 3_600_000
    /// The broker may hear of an acknowledgement so much later that it delivers the job anew: a queue that stands still ends its channel after
    /// a minute.
    private static let acknowledgementMemory: Int64 = 120_000
    private static let most = 100_000
    private var entries: [PushID: Entry] = [:]
    private var forgottenAt: Int64 = 0

    var isEmpty: Bool { entries.isEmpty }
    var count: Int { entries.count }

    mutating func note(_ fate: Fate, of delivery: PushID, _ version: Version, job: UInt64, at now: Int64) {
        guard let known = entries[delivery] else {
            entries[delivery] = Entry(fate: fate, version: version, teller: job, carrier: job, jobs: [job], notedAt: now)
            return
        }
        // An older job's late answer says nothing about a newer try.
        if known.version > version, known.teller != job { return }
        entries[delivery]?.fate = fate
        entries[delivery]?.version = max(version, known.version)
        entries[delivery]?.teller = job
        entries[delivery]?.notedAt = now
        if fate == .copied { entries[delivery]?.carrier = job }
        if !known.jobs.contains(job) { entries[delivery]?.jobs.append(job) }
    }

    /// The job's retry has to learn what becomes of the request that an earlier copy of the job has sent.
    mutating func pass(_ delivery: PushID, toRetryOf job: UInt64, _ version: Version, at now: Int64) {
        entries[delivery]?.version = Version(attempts: version.attempts, waits: version.waits + 1)
        entries[delivery]?.carrier = job
        entries[delivery]?.notedAt = now
        entries[delivery]?.jobs.append(job)
    }

    /// - Returns: nil: this copy decides. Else also the job that published the newest copy.
    func fate(of delivery: PushID, _ version: Version) -> (Fate, carrier: UInt64)? {
        guard let entry = entries[delivery], entry.version >= version else { return nil }
        if entry.version == version, entry.fate == .notLeft { return nil }
        // A later try is a copy of its own.
        return (entry.version == version ? entry.fate : .copied, entry.carrier)
    }

    /// The broker delivers the unsettled jobs anew that `isForgotten` names.
    mutating func keep(at now: Int64, _ isForgotten: (UInt64) -> Bool) {
        for (id, entry) in entries where entry.jobs.contains(where: isForgotten) { entries[id]?.keptSince = now }
    }

    /// Once a second: forgets the deliveries of settled jobs.
    mutating func forget(at now: Int64, _ isOpen: (UInt64) -> Bool) {
        guard !entries.isEmpty, now - forgottenAt >= 1_000 else { return }
        forgottenAt = now
        let memory = entries.count > Self.most ? 0 : Self.memory
        entries = entries.filter { _, entry in
            if let keptSince = entry.keptSince, now - keptSince < memory { return true }
            return entry.jobs.contains(where: isOpen) || now - entry.notedAt < min(memory, Self.acknowledgementMemory)
        }
    }
}

extension CarefulDeliveries.Fate {
    /// After an answer of a pool, and the step that follows from it. Who publishes a copy notes that.
    init(_ step: Planner.Step, _ result: APNsAnswer.Result) {
        switch (step, result) {
        case (.end(let outcome), _), (.giveUp(let outcome, _, _), _): self = .ended(outcome, reason: result.reason)
        case (.leaveToOtherCopy, .unknown): self = .unanswered
        case (.leaveToOtherCopy, _), (.sendSecondCopy, _), (.retry, _), (.wait, _): self = .notLeft
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
