import APNs
import Broker
import PushModel

/// Decides the next step of a delivery: from an answer, or from the reason that stopped it before it was sent. Pure: facts and time come
/// in, a step comes out, and the core performs it.
struct Planner {
    enum Step: Equatable {
        /// The delivery is done.
        case end(OutcomeClass)
        /// It is done because there is no next try.
        case giveUp(OutcomeClass, RetryPlan.EndReason, after: PushJob.EarlierOutcome)
        case retry(RetryCause, after: RetryDelay)
        /// Once more at once (calls, `on_unknown: resend_once`).
        case sendSecondCopy
        /// It waits here until the gate opens, or no hold keeps it any more.
        case wait
        /// The broker delivers the job again, and that copy decides about the rest.
        case leaveToOtherCopy
    }

    /// The facts of a job that decide.
    struct JobFacts {
        let lane: Lane
        let isBroadcast: Bool
        let policy: PushJob.OnUnknown
        /// UNIX milliseconds, as are the others.
        let acceptedAt: Int64
        let expiresAt: Int64
        /// The number of the try that is being made.
        let attempt: Int
        /// How often the job came back from a delayed queue without a try that counts.
        let waits: Int
        /// The connection that brought it is gone, so the broker delivers it again.
        let isStale: Bool
        let isStopping: Bool
        let now: Int64
    }

    /// One draw for each cause and job at a time: its deliveries come back in one message.
    struct Draws {
        fileprivate var decisions: [(cause: RetryCause, decision: RetryPlan.Decision)] = []
    }

    let retries: RetryPlan
    /// A call that was accepted longer ago is not tried again: the caller has given up, or the call arrived. Milliseconds.
    let secondCopyAge: Int64
    private var random: SplitMix64

    init(retries: RetryPlan, secondCopyAge: Int64, seed: UInt64) {
        self.retries = retries
        self.secondCopyAge = secondCopyAge
        random = SplitMix64(seed: seed)
    }

    /// Decides the delivery's next step after an answer of a pool.
    /// - Parameters:
    ///   - earlier: the results of the delivery's attempts before this one.
    ///   - mayTryOtherEnvironment: it has not been accepted yet, and a credential serves the other one.
    mutating func step(
        after result: APNsAnswer.Result, earlier: PushJob.EarlierOutcome, mayTryOtherEnvironment: Bool, job facts: JobFacts,
        draws: inout Draws
    ) -> Step {
        switch Consequence(result, facts.policy) {
        // A token that APNs has never accepted may have been registered for the wrong environment (docs/apns.md, Environments).
        case .ends(.tokenRejected) where mayTryOtherEnvironment && result.isBadDeviceToken:
            if facts.isStale { return .leaveToOtherCopy }
            // If no time is left, it ends as failed: a token of the other environment is healthy.
            return retry(because: .otherEnvironment, earlier: earlier, job: facts, draws: &draws)
        // A channel is no token, whatever APNs says.
        case .ends(.tokenGone) where facts.isBroadcast, .ends(.tokenRejected) where facts.isBroadcast: return .end(.rejected)
        case .ends(let outcome): return .end(outcome)
        // Also if it was stopped: the other copy may have been sent, and ends by itself.
        case _ where facts.isStale: return .leaveToOtherCopy
        case .stops(let outcome): return stop(as: outcome, earlier: earlier)
        case .retries(let cause):
            return retry(because: cause, after: result.retryAfter, earlier: earlier, job: facts, draws: &draws)
        case .sendsSecondCopy:
            let isYoung = facts.now < min(facts.acceptedAt + secondCopyAge, facts.expiresAt)
            return isYoung && facts.attempt < retries.maximumAttempts ? .sendSecondCopy : .end(.unknown)
        case .waits: return facts.isStopping ? retry(because: .notSent, earlier: earlier, job: facts, draws: &draws) : .wait
        }
    }

    /// Stops it on purpose. If an attempt had left before, the end must not hide that.
    func stop(as outcome: OutcomeClass, earlier: PushJob.EarlierOutcome) -> Step {
        let last = outcome.after(earlier)
        // The same end as if the plan finds the next try too late.
        let isTooLate = last != outcome && outcome == .expired
        return isTooLate ? .giveUp(last, .expiresBeforeRetry, after: earlier) : .end(last)
    }

    /// It waits in a delayed queue, or is given up.
    /// - Parameter asked: the wait that APNs, a hold or a throttled device asks for.
    mutating func retry(
        because cause: RetryCause, after asked: Duration? = nil, earlier: PushJob.EarlierOutcome, job facts: JobFacts,
        draws: inout Draws
    ) -> Step {
        switch decide(cause, after: asked, facts, &draws) {
        case .again(let delay): return .retry(cause, after: delay)
        case .end(let reason):
            let attempts = max(earlier, cause.leaves)
            let outcome = (reason == .attemptsUsedUp ? OutcomeClass.failed : .expired).after(attempts)
            // No attempt of it ever left: its time is over, and a person could do nothing with a dead letter.
            return outcome == .expired ? .end(.expired) : .giveUp(outcome, reason, after: attempts)
        }
    }

    private mutating func decide(
        _ cause: RetryCause, after asked: Duration?, _ facts: JobFacts, _ draws: inout Draws
    ) -> RetryPlan.Decision {
        if asked == nil, let known = draws.decisions.first(where: { $0.cause == cause }) { return known.decision }
        let decision = retries.decide(
            cause, lane: facts.lane, attempt: facts.attempt, waits: facts.waits, retryAfter: asked, now: facts.now,
            expiresAt: facts.expiresAt, using: &random)
        if asked == nil { draws.decisions.append((cause, decision)) }
        return decision
    }
}

extension APNsAnswer.Result {
    fileprivate var isBadDeviceToken: Bool {
        if case .response(_, APNsReason.badDeviceToken.rawValue, _, _) = self { true } else { false }
    }

    fileprivate var retryAfter: Duration? {
        if case .response(_, _, _, let retryAfter) = self { retryAfter } else { nil }
    }
}

/// A small generator, seeded, so that a simulation can be repeated. Its numbers decide about jitter only.
struct SplitMix64: RandomNumberGenerator, Sendable {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
