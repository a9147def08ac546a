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
        /// APNs' limit, if it is not above our own.
        package var streamLimit: Int
        package var isAuthenticated: Bool
        package var requests: Int
        /// When the provider token in use was made; nil before the first request, and with a certificate.
        package var tokenMintedAt: ContinuousClock.Instant?
    }

    /// The labels that count answers: a closed set, for any text of the peer and the caller.
    package struct Answer: Hashable, Sendable {
        /// The topic; at most ``topicLimit`` of a pool are named, and the others are `other`.
        package let topic: String
        /// `200`, or `<status> <reason>`; unknown reasons are `other`.
        package let answer: String
    }

    package struct Totals: Equatable, Sendable {
        package init() {}

        package var submitted = 0
        package var answers: [Answer: Int] = [:]
        package var unknown = 0
        package var timedOut = 0
        /// Stopped by the gate or expiry.
        package var stopped = 0
        /// Streams that APNs refused (REFUSED_STREAM), also those above a GOAWAY's last one.
        package var refused = 0
        /// Certainly not processed, and handed to another connection.
        package var handedOver = 0
        package var connectionsOpened = 0
        /// Connections on which APNs has accepted the credential.
        package var connectionsProven = 0
        package var connectionsFailed = 0
        package var connectionsLost = 0
        /// The GOAWAYs by reason: APNs', `none`, or `other`. A connection may get more than one.
        package var goAways: [String: Int] = [:]
        /// The retirements by reason.
        package var retirements: [String: Int] = [:]
        /// Answers by how long they took: one count per bound of ``latencyBounds``, and one beyond.
        package var latency = [Int](repeating: 0, count: latencyBounds.count + 1)
        package var latencySumMilliseconds: Int64 = 0
    }

    package static let topicLimit = 100

    /// Keeps reasons a closed set, for any text of the peer.
    static func label(_ reason: String?) -> String {
        reason.map { APNsReason(rawValue: $0) == nil ? "other" : $0 } ?? "none"
    }

    /// Upper bounds in milliseconds.
    package static let latencyBounds: [Int64] = [5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000]
}

extension APNsPoolSnapshot.Totals {
    /// - Parameter milliseconds: How long the answer took by the wall clock; negative if that was set back meanwhile.
    mutating func countAnswer(after milliseconds: Int64) {
        let milliseconds = max(0, milliseconds)
        let bucket = APNsPoolSnapshot.latencyBounds.firstIndex { milliseconds <= $0 } ?? APNsPoolSnapshot.latencyBounds.count
        latency[bucket] += 1
        latencySumMilliseconds += milliseconds
    }

    mutating func countAnswers(of finished: APNsFinishedBatch) {
        let known = answers.keys.contains { $0.topic == finished.batch.topic }
        let topic = known || Set(answers.keys.lazy.map(\.topic)).count < APNsPoolSnapshot.topicLimit ? finished.batch.topic : "other"
        var accepted = 0
        for answer in finished.answers {
            guard case .response(let status, let reason, _, _) = answer.result else { continue }
            if status == 200 {
                accepted += 1
            } else {
                answers[APNsPoolSnapshot.Answer(topic: topic, answer: "\(status) \(APNsPoolSnapshot.label(reason))"), default: 0] += 1
            }
        }
        if accepted > 0 { answers[APNsPoolSnapshot.Answer(topic: topic, answer: "200"), default: 0] += accepted }
    }

    mutating func countGoAway(reason: String?) {
        goAways[APNsPoolSnapshot.label(reason), default: 0] += 1
    }

    package mutating func add(_ other: Self) {
        submitted += other.submitted
        answers.merge(other.answers, uniquingKeysWith: +)
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
