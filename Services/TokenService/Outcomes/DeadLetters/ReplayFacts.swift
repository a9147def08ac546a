import PushModel

/// The database's facts about a delivery that dead letters name: read under locks, for one ``ReplayDecision``. Times are UNIX milliseconds.
struct ReplayFacts: Sendable {
    var delivery: DeadDelivery
    let now: Int64

    // Its job.
    var token: Int64
    var locale = ""
    /// Its bit.
    var isSettled = false

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
    /// Of the present owner; nil where the installation was deregistered.
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
