import Broker
import PushModel

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
    ///   - attempt: tries so far, this one included, if the cause counts.
    ///   - waits: how often the job came back from a delayed queue without a try that counts.
    ///   - retryAfter: APNs' request; never shortened, except to the longest delay there is.
    ///   - now: UNIX milliseconds, as is `expiresAt`.
    func decide(
        _ cause: RetryCause, lane: Lane, attempt: Int, waits: Int, retryAfter: Duration? = nil, now: Int64, expiresAt: Int64,
        using random: inout some RandomNumberGenerator
    ) -> Decision {
        // The other environment is tried once, and always: without it, a healthy token would look bad.
        if cause.row.countsAsAttempt, cause != .otherEnvironment, attempt >= maximumAttempts { return .end(.attemptsUsedUp) }
        let delay = delay(for: cause, lane: lane, attempt: attempt, waits: waits, retryAfter: retryAfter, using: &random)
        if returns(after: delay, now: now, before: expiresAt) { return .again(delay) }
        // A wait for our own fault (a key, a connection) may always end early: coming back too soon costs one message.
        if !cause.row.countsAsAttempt, let shorter = RetryDelay.allCases.last(where: { returns(after: $0, now: now, before: expiresAt) }) {
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
        let ladder = cause.row.waits
        let step = cause.row.countsAsAttempt ? attempt - 1 : waits
        let wanted = ladder[min(max(step, 0), ladder.count - 1)]
        // Jitter must not shorten Apple's advice for repeated 5xx.
        if cause == .serverFault, step >= ladder.count - 1 { return .fifteenMinutes }
        // ±25 %, then a bucket by chance in proportion, so that deliveries that failed together do not come back together.
        let jittered = wanted * Double.random(in: 0.75..<1.25, using: &random)
        let drawn = Self.bucket(milliseconds: Int64(jittered * 1000), using: &random)
        // The queue behind 30 s is that of two minutes: for `now`, jitter may only make a wait shorter.
        let chosen = lane == .now ? min(drawn, .atMost(.seconds(wanted))) : drawn
        guard let retryAfter else { return chosen }
        let asked = RetryDelay.atLeast(retryAfter)
        return asked.milliseconds > chosen.milliseconds ? asked : chosen
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
