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
        /// The delivery's request got no answer, and the job's new copy has to decide.
        case unanswered
    }

    /// Each message about a delivery has a greater one than the message before it.
    struct Version: Comparable {
        /// Tries before the replay that made the message.
        let life: Int
        var attempts: Int
        var waits: Int

        /// The version of a retry.
        func next(countsAsAttempt: Bool) -> Version {
            countsAsAttempt
                ? Version(life: life, attempts: attempts + 1, waits: 0) : Version(life: life, attempts: attempts, waits: waits + 1)
        }

        static func < (one: Version, other: Version) -> Bool {
            (one.life, one.attempts, one.waits) < (other.life, other.attempts, other.waits)
        }
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
        /// When it was last noted. A connection that is lost soon after that counts as well: the acknowledgement may have been lost with
        /// it.
        var notedAt: Int64
        /// When a connection was lost that had brought one of the jobs, which was not settled.
        var keptSince: Int64?
    }

    /// The broker delivers a job anew at once, or after its `consumer_timeout`, which is half an hour.
    private static let memory: Int64 = 3_600_000
    /// The broker may hear of an acknowledgement so much later that it delivers the job anew: a queue that stands still ends its channel
    /// after a minute.
    private static let acknowledgementMemory: Int64 = 120_000
    /// The most entries beside those that are kept: beyond them, settled deliveries are forgotten at once.
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
        if !known.jobs.contains(job) { entries[delivery]?.jobs.append(job) }
    }

    /// The job publishes a retry or a second copy, which has a greater version, and decides.
    mutating func copied(_ delivery: PushID, by job: UInt64, as version: Version, at now: Int64) {
        // It was passed on to this copy.
        if let known = entries[delivery], known.version == version, known.carrier == job { return }
        note(.notLeft, of: delivery, version, job: job, at: now)
        if entries[delivery]?.teller == job { entries[delivery]?.carrier = job }
    }

    /// The job's retry has to learn what becomes of the request that an earlier copy of the job has sent.
    mutating func pass(_ delivery: PushID, toRetryOf job: UInt64, as version: Version, at now: Int64) {
        entries[delivery]?.version = version
        entries[delivery]?.carrier = job
        entries[delivery]?.notedAt = now
        entries[delivery]?.jobs.append(job)
    }

    /// - Returns: nil: this message decides.
    func fate(of delivery: PushID, _ version: Version) -> Fate? {
        guard let entry = entries[delivery], entry.version == version, entry.fate != .notLeft else { return nil }
        return entry.fate
    }

    /// The job that published a later message about the delivery, which decides.
    func carrier(of delivery: PushID, after version: Version) -> UInt64? {
        entries[delivery].flatMap { $0.version > version ? $0.carrier : nil }
    }

    /// The broker delivers the unsettled jobs anew that `isForgotten` names, and settled ones of which it has not heard yet.
    mutating func keep(at now: Int64, _ isForgotten: (UInt64) -> Bool) {
        for (id, entry) in entries {
            if entry.jobs.contains(where: isForgotten) {
                entries[id]?.keptSince = now
            } else if now - entry.notedAt < Self.acknowledgementMemory {
                entries[id]?.notedAt = now
            }
        }
    }

    /// Forgets the deliveries of settled jobs: every ten seconds, because it looks at each of up to 100,000, and pushes wait meanwhile.
    mutating func forget(at now: Int64, _ isOpen: (UInt64) -> Bool) {
        guard !entries.isEmpty, now - forgottenAt >= 10_000 else { return }
        forgottenAt = now
        // Those that are kept are bounded by what was in progress, and must not cost the others their time.
        let acknowledgementMemory = entries.values.count(where: { $0.keptSince == nil }) > Self.most ? 0 : Self.acknowledgementMemory
        entries = entries.filter { _, entry in
            if let keptSince = entry.keptSince, now - keptSince < Self.memory { return true }
            return entry.jobs.contains(where: isOpen) || now - entry.notedAt < acknowledgementMemory
        }
    }
}

extension CarefulDeliveries.Fate {
    /// The fate after an answer of a pool, and the step that follows from it. Who publishes a copy notes that.
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
