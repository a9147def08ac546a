/// The findings, and the figures of the run.
package struct Verdict: Sendable {
    /// The number of findings of each kind that are kept with their evidence. All are counted.
    static let maximumExamples = 20

    package private(set) var counts: [Promise: Int] = [:]
    package private(set) var examples: [Promise: [String]] = [:]
    /// Promises that this run cannot show.
    package internal(set) var notJudged: Set<Promise> = []
    package internal(set) var figures = Figures()

    package func count(_ promise: Promise) -> Int { counts[promise] ?? 0 }
    package var isKept: Bool { counts.isEmpty }

    /// - Parameter evidence: Ids, moments, faults; never a whole token.
    mutating func find(_ promise: Promise, _ evidence: String) {
        counts[promise, default: 0] += 1
        if counts[promise, default: 0] <= Self.maximumExamples { examples[promise, default: []].append(evidence) }
    }
}

/// The figures of overload, each for one second.
package struct Overload: Sendable, Equatable {
    /// The number of 202s at saturation.
    package var capacity: Double
    /// Requests that were sent under overload.
    package var sent: Double
    /// Of them, 202.
    package var goodput: Double
    /// Of them, 429 and 503.
    package var shed: Double
    /// Requests that were due and found no connection free.
    package var unsent: Double

    var due: Double { sent + unsent }

    package init(capacity: Double, sent: Double, goodput: Double, shed: Double, unsent: Double) {
        self.capacity = capacity
        self.sent = sent
        self.goodput = goodput
        self.shed = shed
        self.unsent = unsent
    }
}

/// How much there was.
package struct Figures: Sendable, Equatable {
    /// Notifications that clients meant to send, by marker.
    package var attempted = 0
    /// Of them, answered 202.
    package var acknowledged = 0
    /// Of them, not acknowledged, and pushed all the same.
    package var recovered = 0
    package var requests = 0
    package var answered = 0
    /// 5xx, or no answer.
    package var refused = 0
    /// 429, 503.
    package var shed = 0
    package var pushes = 0
    package var deliveries = 0
    /// Deliveries that APNs accepted at least once.
    package var delivered = 0
    /// Every push after the first that may have arrived.
    package var duplicated = 0
    /// The explanations of them.
    package var explainedByKill = 0
    package var explainedByConnection = 0
    package var explainedByAPNs = 0
    package var explainedByPublisher = 0
    /// Late pushes that were decided before the end of their notification, because a process was frozen or the link to APNs was slow.
    package var excusedByFreeze = 0
    /// The explained duplicates of the worst kill of a dispatcher.
    package var worstKill = 0
    package var kills = 0
    package var faults = 0
    /// Live Activities that a backend started.
    package var activities = 0
    /// Lock screens whose newest state is certain.
    package var lockScreens = 0
    /// Activities that the platform removed from a lock screen although their end has a state to show.
    package var removed = 0
    /// Pushes by which the platform ended an activity of its own accord.
    package var clearings = 0
    package var outcomes: [String: Int] = [:]
    package var connections = 0
    package var connectionsPeak = 0
    /// Largest resident size of each process, in bytes.
    package var memory: [String: Int64] = [:]
    package var descriptors: [String: Int] = [:]
    package var threads: [String: Int] = [:]
    package var longestAnswer: Int64 = 0
    /// The longest time without a push although a notification waited, in microseconds.
    package var longestStandstill: Int64 = 0
    /// The longest wait of a notification while a queue or a replica stood still that it does not need, in microseconds.
    package var longestDelay: Int64 = 0
    /// From one 202 for a notification to the next; in microseconds.
    package var longestWithoutAcceptance: Int64 = 0
    /// One for each overload.
    package var overloads: [Overload] = []
    package var seconds: Double = 0
}
