import APNs
import Broker
import PushModel
import Testing

@testable import Dispatcher

@Suite("The next step of a delivery")
struct PlannerTests {
    private static let now: Int64 = 1_800_000_000_000

    private func facts(
        policy: PushJob.OnUnknown = .resend, acceptedAgo: Int64 = 1_000, expiresIn: Int64 = 3_600_000, attempt: Int = 1,
        isStale: Bool = false, isStopping: Bool = false
    ) -> Planner.JobFacts {
        Planner.JobFacts(
            lane: .bulk, isBroadcast: false, policy: policy, acceptedAt: Self.now - acceptedAgo, expiresAt: Self.now + expiresIn,
            attempt: attempt, waits: 0,
            isStale: isStale, isStopping: isStopping, now: Self.now)
    }

    private func step(
        _ result: APNsAnswer.Result, earlier: PushJob.EarlierOutcome = .none, other: Bool = false, _ facts: Planner.JobFacts
    ) -> Planner.Step {
        var planner = Planner(retries: RetryPlan(maximumAttempts: 3), secondCopyAge: 5_000, seed: 1)
        var draws = Planner.Draws()
        return planner.step(after: result, earlier: earlier, mayTryOtherEnvironment: other, job: facts, draws: &draws)
    }

    private func answered(_ status: Int, _ reason: String?, retryAfter: Duration? = nil) -> APNsAnswer.Result {
        .response(status: status, reason: reason, timestamp: nil, retryAfter: retryAfter)
    }

    @Test("If the broker delivers the job again, this copy ends with an answer and leaves every retry to the other one") func stale() {
        let facts = facts(isStale: true)
        #expect(step(answered(200, nil), facts) == .end(.accepted))
        #expect(step(answered(410, "Unregistered"), facts) == .end(.tokenGone))
        let retried: [APNsAnswer.Result] = [
            answered(500, nil), answered(429, "TooManyRequests"), .notSent(.refused), .unknown(.connectionLost), .stopped(.held),
            // The other copy may have been sent in time.
            .stopped(.expired), .stopped(.cancelled), .stopped(.fenced),
        ]
        for result in retried { #expect(step(result, facts) == .leaveToOtherCopy, "\(result)") }
        #expect(step(answered(400, "BadDeviceToken"), other: true, facts) == .leaveToOtherCopy)
    }

    @Test("A rejected token that was never accepted is tried in the other environment, if a try and time are left")
    func otherEnvironment() {
        let rejected = answered(400, "BadDeviceToken")
        guard case .retry(.otherEnvironment, _) = step(rejected, other: true, facts()) else {
            Issue.record("it is not tried in the other environment")
            return
        }
        #expect(step(rejected, other: false, facts()) == .end(.tokenRejected))
        #expect(step(answered(400, "DeviceTokenNotForTopic"), other: true, facts()) == .end(.rejected))
        // Without the try nobody knows whether the token is bad.
        guard case .retry(.otherEnvironment, _) = step(rejected, other: true, facts(attempt: 3)) else {
            Issue.record("the attempts do not forbid it")
            return
        }
        #expect(step(rejected, other: true, facts(expiresIn: 500)) == .giveUp(.failed, .expiresBeforeRetry, after: .failed))
    }

    @Test("A call without an answer is sent once more while it is young; every other policy does as it says") func noAnswer() {
        let silence = APNsAnswer.Result.unknown(.connectionLost)
        #expect(step(silence, facts(policy: .resendOnce)) == .sendSecondCopy)
        #expect(step(silence, facts(policy: .resendOnce, acceptedAgo: 5_000)) == .end(.unknown))
        #expect(step(silence, facts(policy: .resendOnce, expiresIn: 0)) == .end(.unknown))
        #expect(step(silence, facts(policy: .resendOnce, attempt: 3)) == .end(.unknown))
        #expect(step(silence, facts(policy: .drop)) == .end(.unknown))
        guard case .retry(.noAnswer, _) = step(silence, facts()) else {
            Issue.record("it is not tried again")
            return
        }
        #expect(step(silence, facts(attempt: 3)) == .giveUp(.unknown, .attemptsUsedUp, after: .unknown))
    }

    @Test("The end does not hide an earlier attempt: unknown stays unknown, and a failure is no expiry") func earlierAttempts() {
        #expect(step(.stopped(.expired), facts()) == .end(.expired))
        #expect(step(.stopped(.expired), earlier: .failed, facts()) == .giveUp(.failed, .expiresBeforeRetry, after: .failed))
        #expect(step(.stopped(.expired), earlier: .unknown, facts()) == .giveUp(.unknown, .expiresBeforeRetry, after: .unknown))
        #expect(step(.stopped(.cancelled), earlier: .unknown, facts()) == .end(.unknown))
        #expect(step(.stopped(.fenced), earlier: .failed, facts()) == .end(.fenced))
        #expect(step(answered(500, nil), earlier: .unknown, facts(attempt: 3)) == .giveUp(.unknown, .attemptsUsedUp, after: .unknown))
        #expect(step(answered(500, nil), facts(attempt: 3)) == .giveUp(.failed, .attemptsUsedUp, after: .failed))
    }

    @Test("A held delivery waits here, or in the broker if the process stops") func held() {
        #expect(step(.stopped(.held), facts()) == .wait)
        #expect(step(.stopped(.held), facts(isStopping: true)) == .retry(.notSent, after: .oneSecond))
    }

    @Test("Deliveries of a job that fail for one cause come back together; a Retry-After of APNs counts for its delivery alone")
    func drawsOnce() {
        var planner = Planner(retries: RetryPlan(maximumAttempts: 9), secondCopyAge: 5_000, seed: 7)
        for _ in 0..<50 {
            var draws = Planner.Draws()
            let steps = (0..<20).map { _ in
                planner.step(
                    after: answered(429, "TooManyRequests"), earlier: .none, mayTryOtherEnvironment: false, job: facts(attempt: 3),
                    draws: &draws)
            }
            #expect(steps.allSatisfy { $0 == steps[0] })
            let asked = planner.step(
                after: answered(429, "TooManyRequests", retryAfter: .seconds(900)), earlier: .none, mayTryOtherEnvironment: false,
                job: facts(attempt: 3), draws: &draws)
            #expect(asked == .retry(.throttled, after: .fifteenMinutes))
        }
    }
}
