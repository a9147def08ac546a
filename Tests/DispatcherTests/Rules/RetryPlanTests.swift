import Broker
import Testing

@testable import Dispatcher

@Suite("When a delivery is tried again")
struct RetryPlanTests {
    private let plan = RetryPlan(maximumAttempts: 10)
    private let day: Int64 = 86_400_000

    private func delays(_ cause: RetryCause, attempt: Int = 1, waits: Int = 0, retryAfter: Duration? = nil) -> Set<RetryDelay> {
        var random = SplitMix64(seed: 5)
        return Set(
            (0..<500).compactMap { _ in
                let decision = plan.decide(
                    cause, attempt: attempt, waits: waits, retryAfter: retryAfter, now: 0, expiresAt: day, using: &random)
                return if case .again(let delay) = decision { delay } else { nil }
            })
    }

    @Test(
        "The wait grows with the attempts",
        arguments: [
            (RetryCause.throttled, 1, [RetryDelay.oneSecond, .fiveSeconds, .thirtySeconds]),
            (.throttled, 5, [.tenMinutes, .fifteenMinutes]),
            (.serverFault, 1, [.fiveSeconds, .thirtySeconds, .twoMinutes]), (.serverFault, 3, [.fifteenMinutes]),
            (.serverFault, 9, [.fifteenMinutes]), (.connectionFault, 1, [.oneSecond, .fiveSeconds]),
            (.noAnswer, 1, [.oneSecond, .fiveSeconds]), (.noAnswer, 9, [.tenMinutes, .fifteenMinutes]),
        ] as [(RetryCause, Int, [RetryDelay])])
    func grows(cause: RetryCause, attempt: Int, expected: [RetryDelay]) {
        #expect(delays(cause, attempt: attempt).isSubset(of: expected))
    }

    @Test("What failed together does not come back together")
    func spreads() {
        #expect(delays(.serverFault, attempt: 2).count > 1)
        #expect(delays(.throttled, attempt: 2).count > 1)
    }

    @Test("On average the wait is what the ladder says")
    func keepsTheMean() {
        var random = SplitMix64(seed: 9)
        let waits = (0..<4000).compactMap { _ -> Int64? in
            let decision = plan.decide(.serverFault, attempt: 2, waits: 0, now: 0, expiresAt: day, using: &random)
            return if case .again(let delay) = decision { delay.milliseconds } else { nil }
        }
        let mean = Double(waits.reduce(0, +)) / Double(waits.count)
        #expect((280_000...320_000).contains(mean), "five minutes")
    }

    @Test("Attempts end; waits of our own making do not")
    func ends() {
        var random = SplitMix64(seed: 1)
        for cause in RetryCause.allCases {
            let decision = plan.decide(cause, attempt: 10, waits: 1000, now: 0, expiresAt: day, using: &random)
            #expect((decision == .end(.attemptsUsedUp)) == cause.countsAsAttempt)
        }
    }

    @Test("No retry comes back at or after the expiry")
    func respectsExpiry() {
        var random = SplitMix64(seed: 2)
        for _ in 0..<5000 {
            let cause = RetryCause.allCases.randomElement(using: &random) ?? .throttled
            let now = Int64.random(in: 0..<1_000_000, using: &random)
            let expiresAt = now + Int64.random(in: -1000..<2_000_000, using: &random)
            let attempt = Int.random(in: 1..<9, using: &random)
            switch plan.decide(cause, attempt: attempt, waits: attempt, now: now, expiresAt: expiresAt, using: &random) {
            case .again(let delay): #expect(now + delay.milliseconds < expiresAt)
            case .end(let reason):
                #expect(reason == .expiresBeforeRetry)
                // Waiting for ourselves ends only where not even the shortest delay fits.
                if !cause.countsAsAttempt { #expect(now + 1000 >= expiresAt) }
            }
        }
    }

    @Test("APNs' own wish is never shortened")
    func honoursRetryAfter() {
        #expect(delays(.throttled, retryAfter: .seconds(31)) == [.twoMinutes])
        #expect(delays(.throttled, retryAfter: .seconds(7200)) == [.fifteenMinutes], "the longest there is")
    }
}
