import PushModel
import TokenServiceSending

/// The decision of a replay about one delivery.
struct ReplayDecision {
    enum Target: Equatable {
        /// The delivery itself is reopened.
        case itself
        /// A replay that was broken off opened this delivery to another token. It is sent again, and is counted already.
        case opened(PushID)
        /// A delivery to another token is made.
        case new
    }

    let disposition: DeadLetterReplay.Disposition
    private(set) var target: Target?
    /// The target's attempts: outcomes are numbered on from here, so that a repeated event from before the replay is recognised by its
    /// number.
    private(set) var attempts = 0
    /// The target's end, if it differs from the notification's. UNIX milliseconds.
    private(set) var end: Int64?
    /// The end of a delivery that had no outcome and is not sent itself.
    private(set) var stop: Stop?

    init(_ facts: ReplayFacts, extending seconds: Int64?) {
        let delivery = facts.delivery
        disposition = Self.disposition(facts, isExtended: seconds != nil)
        // The letter of an orphan may count attempts whose events are still on their way.
        let reported = max(facts.attempts, delivery.attempts)
        if disposition == .sent {
            if facts.liveToken == facts.token {
                // With any other outcome, an event with the next number may have ended it without an attempt.
                let isTried = facts.isOpen || facts.outcome == .failed || facts.outcome == .unknown
                target = .itself
                attempts = isTried ? reported : reported + 1
            } else if let other = facts.other {
                target = .opened(other.delivery)
                attempts = other.attempts
            } else {
                target = .new
            }
            if facts.hasOwnEnds { end = max(delivery.expiresAt, facts.now + (seconds ?? 0) * 1000) }
        }
        let isOwed = facts.outcome == nil && !Self.isOver(facts) && (facts.isOpen || delivery.isOrphan)
        if isOwed, target != .itself { stop = Stop(delivery, attempts: reported, because: disposition) }
    }

    private static func disposition(_ facts: ReplayFacts, isExtended: Bool) -> DeadLetterReplay.Disposition {
        let delivery = facts.delivery
        if isOver(facts) { return .hasOutcome }
        if facts.isCancelled { return .cancelled }
        switch facts.outcome {
        case nil where !facts.isOpen && !delivery.isOrphan: return .undecided
        case nil, .failed, .unknown, .expired: break
        default: return .hasOutcome
        }
        if facts.ownerEpoch != delivery.ownerEpoch { return .fenced }
        if facts.liveToken == nil { return .tokenGone }
        if let other = facts.other, !other.isOpen { return .hasOutcome }
        let end = facts.hasOwnEnds ? min(facts.expiresAt, delivery.expiresAt) : facts.expiresAt
        return end <= facts.now && !isExtended ? .expired : .sent
    }

    /// It has its outcome and no receipt of that: APNs accepted it and only failures get receipts, or its token was erased. The bit of a
    /// reopened delivery is set as well, but there the receipt decides.
    private static func isOver(_ facts: ReplayFacts) -> Bool { facts.hasEnded && facts.outcome == nil && !facts.isReplayed }

    struct Stop: Equatable {
        let outcome: OutcomeClass
        let delivery: OutcomeEvent.Delivery

        /// - Parameter attempts: The reported attempts. The end gets the next number, so that it also ends a reopened delivery.
        fileprivate init(_ delivery: DeadDelivery, attempts: Int, because disposition: DeadLetterReplay.Disposition) {
            let stopped: OutcomeClass = disposition == .cancelled ? .cancelled : disposition == .expired ? .expired : .fenced
            outcome = stopped.after(delivery.earlier)
            // Like a dispatcher, it gives no reason if the class is the reason. A substitute, if there is one, goes to another token.
            let isOwn = [.cancelled, .expired, .fenced].contains(disposition)
            let reason = isOwn ? (outcome == stopped ? nil : stopped.rawValue) : "token_retired"
            self.delivery = OutcomeEvent.Delivery(
                id: delivery.id, notification: delivery.notification, installation: delivery.installation, attempt: attempts + 1,
                ownerEpoch: delivery.ownerEpoch, reason: reason)
        }
    }
}

/// A delivery that dead letters name.
struct DeadDelivery: Sendable {
    let id: PushID
    let notification: PushID
    let installation: PushID
    /// The epoch of the owner that the delivery's job was for.
    var ownerEpoch: Int64
    /// No dispatcher has reported an outcome: the broker gave the job up by itself.
    var isOrphan: Bool
    /// The attempts that the job had behind it.
    var attempts: Int
    /// The earlier outcome of those attempts.
    var earlier = PushJob.EarlierOutcome.none
    /// The job's end, UNIX milliseconds. With a local time, that of the notification is the last zone's.
    var expiresAt: Int64

    var job: JobID { JobID(notification: notification, number: DeliveryNames.place(of: id).job) }
    var position: Int { DeliveryNames.place(of: id).position }

    /// Each delivery of the letters once, in ascending order of id; without ids that match no place among the notification's jobs.
    static func all(of letters: [DeadLetter]) -> [DeadDelivery] {
        var all: [PushID: DeadDelivery] = [:]
        for letter in letters {
            guard let job = letter.job else { continue }
            let names = DeliveryNames(job.notification)
            for delivery in job.deliveries {
                let place = DeliveryNames.place(of: delivery.id)
                guard place.position < PushJob.maximumDeliveries, names.id(job: place.job, position: place.position) == delivery.id else {
                    continue
                }
                let other = all[delivery.id]
                all[delivery.id] = DeadDelivery(
                    id: delivery.id, notification: job.notification, installation: delivery.installation,
                    ownerEpoch: min(delivery.ownerEpoch, other?.ownerEpoch ?? .max), isOrphan: letter.isOrphan && other?.isOrphan ?? true,
                    attempts: max(job.attempt, other?.attempts ?? 0), earlier: max(delivery.earlierOutcome, other?.earlier ?? .none),
                    expiresAt: max(job.expiresAt, other?.expiresAt ?? 0))
            }
        }
        return all.values.sorted { $0.id < $1.id }
    }
}

/// The database's facts about a delivery that dead letters name: read under locks, for one ``ReplayDecision``. Times are UNIX milliseconds.
struct ReplayFacts: Sendable {
    var delivery: DeadDelivery
    let now: Int64

    // Its job.
    var token: Int64
    var locale = ""
    /// Whether the delivery's bit in the job is set.
    var hasEnded = false

    // Its receipt.
    /// Nil until it is final.
    var outcome: OutcomeClass?
    var attempts = 0
    var isReplayed = false
    /// A replay reopened it, and no attempt has been reported since.
    var isOpen = false

    // Its notification.
    var isCancelled = false
    var expiresAt: Int64
    /// The lifetime counts from the moment at which each delivery is due.
    var hasOwnEnds = false
    /// How many it has.
    var jobs = 0

    // Its installation.
    /// The present owner's epoch; nil where the installation was deregistered.
    var ownerEpoch: Int64?
    /// The live token for the delivery's purpose and environment; nil also if that one was erased.
    var liveToken: Int64?
    /// The delivery to that token.
    var live: PushJob.Delivery?
    /// If that is another token, its receipt of this notification.
    var other: Receipt?

    struct Receipt: Sendable {
        let delivery: PushID
        let attempts: Int
        let isOpen: Bool
    }
}
