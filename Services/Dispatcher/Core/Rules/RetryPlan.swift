import Broker
import PushModel

/// Why a delivery is tried again. Each has its own ladder of waits in ``RetryPlan``.
enum RetryCause: Equatable, Sendable, CaseIterable {
    /// APNs: too many for this device.
    case throttled
    /// APNs: 5xx. Apple asks for 15 minutes, which 5xx that repeat get; the first tries come sooner, because most such outages are short.
    case serverFault
    /// The connection's fault, not the delivery's: another connection will do.
    case connectionFault
    /// The request left and no answer came.
    case noAnswer
    /// The request certainly did not leave.
    case notSent
    /// Topic, key or environment: somebody has to mend something first.
    case misconfigured
    /// The pool's breaker is open: APNs answers 5xx whatever it is sent.
    case unavailable
    /// Another delivery to the device was throttled, and its wait is not over.
    case deviceThrottled
    /// An operator's hold; ``HoldPace`` says for how long.
    case held
    /// The token looked like garbage where it was sent to; the other environment may know it.
    case otherEnvironment

    /// Whether the try is one of APNs' and uses up an attempt.
    var countsAsAttempt: Bool {
        switch self {
        case .notSent, .misconfigured, .unavailable, .deviceThrottled, .held: false
        case .throttled, .serverFault, .connectionFault, .noAnswer, .otherEnvironment: true
        }
    }

    /// What the attempt came to that made it necessary.
    var leaves: PushJob.EarlierOutcome {
        guard countsAsAttempt else { return .none }
        return self == .noAnswer ? .unknown : .failed
    }
}

/// When a delivery is tried again, or why not. Pure: time and chance come in.
struct RetryPlan: Equatable, Sendable {
    enum Decision: Equatable, Sendable {
        case again(RetryDelay)
        case end(EndReason)
    }

    /// Why there is no next try. The raw value is the dead letter's reason.
    enum EndReason: String, Sendable, CaseIterable {
        case attemptsUsedUp = "attempts_used_up"
        case expiresBeforeRetry = "expires_before_retry"
    }

    /// Tries that APNs answered, or left unanswered, before a delivery is given up.
    var maximumAttempts: Int

    /// - Parameters:
    ///   - attempt: tries so far, this one included, where the cause counts.
    ///   - waits: how often the job came back from a delayed queue without a try that counts.
    ///   - retryAfter: what APNs asked for; never shortened, except to the longest delay there is.
    ///   - now: UNIX milliseconds, as is `expiresAt`.
    func decide(
        _ cause: RetryCause, lane: Lane, attempt: Int, waits: Int, retryAfter: Duration? = nil, now: Int64, expiresAt: Int64,
        using random: inout some RandomNumberGenerator
    ) -> Decision {
        if cause.countsAsAttempt && attempt >= maximumAttempts { return .end(.attemptsUsedUp) }
        let delay = delay(for: cause, lane: lane, attempt: attempt, waits: waits, retryAfter: retryAfter, using: &random)
        if returns(after: delay, now: now, before: expiresAt) { return .again(delay) }
        // Waiting for ourselves (a key, a connection) may always end early: what is lost by coming back soon is one message.
        if !cause.countsAsAttempt, let shorter = RetryDelay.allCases.last(where: { returns(after: $0, now: now, before: expiresAt) }) {
            return .again(shorter)
        }
        return .end(.expiresBeforeRetry)
    }

    private func returns(after delay: RetryDelay, now: Int64, before expiresAt: Int64) -> Bool {
        now + delay.milliseconds < expiresAt
    }

    private func delay(
        for cause: RetryCause, lane: Lane, attempt: Int, waits: Int, retryAfter: Duration?, using random: inout some RandomNumberGenerator
    ) -> RetryDelay {
        let ladder = Self.ladder(cause)
        let step = cause.countsAsAttempt ? attempt - 1 : waits
        let wanted = ladder[min(max(step, 0), ladder.count - 1)]
        // Apple's advice for 5xx that repeat is not to be jittered down.
        if cause == .serverFault, step >= ladder.count - 1 { return .fifteenMinutes }
        // ±25 %, then a bucket by chance in proportion: what failed together does not come back together.
        let jittered = wanted * Double.random(in: 0.75..<1.25, using: &random)
        let drawn = Self.bucket(milliseconds: Int64(jittered * 1000), using: &random)
        // The queue behind 30 s is that of two minutes: for `now`, chance only ever makes a wait shorter.
        let chosen = lane == .now ? min(drawn, .atMost(.seconds(wanted))) : drawn
        guard let retryAfter else { return chosen }
        let asked = RetryDelay.atLeast(retryAfter)
        return asked.milliseconds > chosen.milliseconds ? asked : chosen
    }

    /// Seconds, by how often it happened before. While nothing can be sent, a wait is no longer than the trouble has lasted so far, so that
    /// after a short outage a delivery is late by about as much again.
    private static func ladder(_ cause: RetryCause) -> [Double] {
        switch cause {
        case .throttled: [5, 30, 120, 600, 900]
        case .serverFault: [5, 30, 300, 900]
        case .connectionFault: [1, 5, 30, 120, 600, 900]
        case .noAnswer: [2, 15, 60, 300, 900]
        case .notSent: [1, 1, 1, 1, 1, 5, 5, 5, 5, 5, 5, 5, 5, 30]
        case .misconfigured: [120, 600]
        case .unavailable: [5, 5, 5, 5, 5, 5, 5, 5, 5, 30, 30, 30, 30, 120, 120, 120, 120, 600]
        case .deviceThrottled: [5]
        case .otherEnvironment, .held: [1]
        }
    }

    /// One of the two neighbouring delays, so that the mean over many is `milliseconds`.
    private static func bucket(milliseconds: Int64, using random: inout some RandomNumberGenerator) -> RetryDelay {
        let all = RetryDelay.allCases
        guard let upper = all.firstIndex(where: { $0.milliseconds >= milliseconds }) else { return all[all.count - 1] }
        guard upper > 0 else { return all[0] }
        let low = all[upper - 1].milliseconds
        let share = Double(milliseconds - low) / Double(all[upper].milliseconds - low)
        return Double.random(in: 0..<1, using: &random) < share ? all[upper] : all[upper - 1]
    }
}
