/// How many requests of the lanes behind `now` may be in flight on one connection; or, with other rules, how many jobs of `bulk` in one process. A
/// pure value.
///
/// What a connection has taken it cannot overtake any more: `now` waits behind every request that waits at the peer, however many streams are
/// kept free for it. So the slower lanes get as many streams as are answered without waiting for one another: the response time with few in
/// flight is measured, and while it stays below about twice that, more may go. Where APNs takes its time but never lets requests wait for each
/// other, that is every stream there is; where the peer (or this machine) is busy, it is what keeps it busy and little more.
package struct BulkWindow: Sendable {
    package struct Rules: Sendable {
        /// So many may always be in flight: enough for a good rate where each answer takes tens of milliseconds on many connections, and
        /// a fraction of a millisecond's work for the peer.
        var least = 32
        /// How long a response may take: in percent of the response time with few in flight.
        var tolerance: Int64 = 200
        /// What is always tolerated above that: threads have to be woken. Microseconds.
        var slack: Int64 = 1_000
        /// Where requests seem to wait, the response time with few in flight is measured anew once in each such period. All connections
        /// of all dispatchers do that together, or each would measure the others' requests.
        var period: Int64 = 10_000_000

        package init() {}

        package init(least: Int, tolerance: Int64, slack: Int64) {
            self.least = least
            self.tolerance = tolerance
            self.slack = slack
        }
    }

    private let rules: Rules
    /// Only what was sent after the last change tells what came of it.
    private var changedAt: Int64 = 0
    private var answers = 0
    private var total: Int64 = 0
    /// Microseconds, with few in flight; nil until it was measured.
    private(set) var alone: Int64?
    private var isMeasuring = true
    /// What was sent before the measurement is still under way.
    private var isSettling = false
    private var isCrowded = false
    /// In which period the last look was.
    private var lastPeriod: Int64 = 0
    package private(set) var limit: Int
    private(set) var inFlight = 0
    /// The limit was reached since the last change: more might have gone.
    private var wasFull = false

    /// Answers that make up one look; at least half of what may be in flight, because the first ones after a change have not waited yet.
    private static let sample = 32
    /// As many do where they take so long to come: few in flight would be few for seconds. Microseconds.
    private static let smallSample = 8
    private static let longLook: Int64 = 100_000
    /// More streams than this no connection has.
    private static let most = 1 << 16

    package init(_ rules: Rules = Rules()) {
        self.rules = rules
        limit = rules.least
    }

    /// How many more of them may go now.
    package var room: Int { max(0, limit - inFlight) }

    package mutating func sent() {
        inFlight += 1
        if inFlight >= limit { wasFull = true }
    }

    package mutating func ended() {
        inFlight -= 1
    }

    /// A request of any lane was answered.
    /// - Parameter sentAt: and `now`: microseconds of the same time everywhere.
    package mutating func answered(sentAt: Int64, now: Int64) {
        guard sentAt >= changedAt else { return }
        answers += 1
        total += now - sentAt
        let sample = now - changedAt < Self.longLook ? Self.sample : Self.smallSample
        if answers >= max(sample, limit / 2) { look(now) }
    }

    private mutating func look(_ now: Int64) {
        let mean = max(1, total / Int64(answers))
        let period = now / rules.period
        if isSettling {
            isSettling = false
        } else {
            alone = isMeasuring ? mean : min(alone ?? mean, mean)
            isMeasuring = false
            adjust(mean, isNewPeriod: period != lastPeriod)
            lastPeriod = period
        }
        (answers, total, changedAt, wasFull) = (0, 0, now, inFlight >= limit)
    }

    private mutating func adjust(_ mean: Int64, isNewPeriod: Bool) {
        let tolerated = (alone ?? mean) * rules.tolerance / 100 + rules.slack
        if mean > tolerated { isCrowded = true }
        if isCrowded, isNewPeriod {
            limit = rules.least
            (isMeasuring, isSettling, isCrowded) = (true, true, false)
        } else if mean > tolerated {
            limit = max(rules.least, limit / 2, Int(Int64(limit) * tolerated / mean))
        } else if wasFull {
            limit = min(Self.most, mean * 3 < tolerated * 2 ? limit * 2 : limit + max(1, limit / 8))
        }
    }
}
