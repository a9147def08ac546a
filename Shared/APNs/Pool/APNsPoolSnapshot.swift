/// A pool at one moment, for metrics. Counters only grow while the pool lives.
package struct APNsPoolSnapshot: Equatable, Sendable {
    package var state = APNsPoolState.idle
    /// Requests that wait for a stream.
    package var queuedNow = 0
    package var queuedSoon = 0
    package var queuedBulk = 0
    package var connections: [Connection] = []
    package var totals = Totals()

    /// One open connection, as of its last report (at most a quarter of a second old while it works).
    package struct Connection: Equatable, Sendable {
        package var id: Int
        package var address: String
        package var openStreams: Int
        /// What APNs allows.
        package var streamLimit: Int
        package var isAuthenticated: Bool
        package var requests: Int
        /// When the provider token in use was made; nil before the first request, and with a certificate.
        package var tokenMintedAt: ContinuousClock.Instant?
    }

    package struct Totals: Equatable, Sendable {
        package init() {}

        package var submitted = 0
        package var accepted = 0
        /// Answers other than 200, by `<status> <reason>`; reasons we do not know are `other`.
        package var refusals: [String: Int] = [:]
        package var unknown = 0
        package var timedOut = 0
        /// Stopped by the gate or expiry.
        package var stopped = 0
        /// Streams that APNs refused (REFUSED_STREAM), also those above a GOAWAY's last one.
        package var refused = 0
        /// Certainly not processed, and handed to another connection.
        package var handedOver = 0
        package var connectionsOpened = 0
        /// Connections on which APNs has shown that it knows us.
        package var connectionsProven = 0
        package var connectionsFailed = 0
        package var connectionsLost = 0
        /// By reason: APNs', `none`, or `other`. A connection may get more than one.
        package var goAways: [String: Int] = [:]
        /// By reason.
        package var retirements: [String: Int] = [:]
        /// Answers by how long they took: one count per bound of ``latencyBounds``, and one beyond.
        package var latency = [Int](repeating: 0, count: latencyBounds.count + 1)
        package var latencySumMilliseconds: Int64 = 0
    }

    /// Upper bounds in milliseconds.
    package static let latencyBounds: [Int64] = [5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000]
}

extension APNsPoolSnapshot.Totals {
    mutating func countAnswer(after milliseconds: Int64) {
        let bucket = APNsPoolSnapshot.latencyBounds.firstIndex { milliseconds <= $0 } ?? APNsPoolSnapshot.latencyBounds.count
        latency[bucket] += 1
        latencySumMilliseconds += milliseconds
    }

    /// Keeps the labels a closed set, whatever the peer writes.
    mutating func countRefusal(status: Int, reason: String?) {
        let label = reason.map { APNsReason(rawValue: $0) == nil ? "other" : $0 } ?? "none"
        refusals["\(status) \(label)", default: 0] += 1
    }

    mutating func countGoAway(reason: String?) {
        let label = reason.map { APNsReason(rawValue: $0) == nil ? "other" : $0 } ?? "none"
        goAways[label, default: 0] += 1
    }

    package mutating func add(_ other: Self) {
        submitted += other.submitted
        accepted += other.accepted
        refusals.merge(other.refusals, uniquingKeysWith: +)
        unknown += other.unknown
        timedOut += other.timedOut
        stopped += other.stopped
        refused += other.refused
        handedOver += other.handedOver
        connectionsOpened += other.connectionsOpened
        connectionsProven += other.connectionsProven
        connectionsFailed += other.connectionsFailed
        connectionsLost += other.connectionsLost
        goAways.merge(other.goAways, uniquingKeysWith: +)
        retirements.merge(other.retirements, uniquingKeysWith: +)
        for index in latency.indices { latency[index] += other.latency[index] }
        latencySumMilliseconds += other.latencySumMilliseconds
    }
}
