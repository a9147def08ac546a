import Broker
import PushModel
import Testing

@testable import Dispatcher

@Suite("When a delivery is tried again")
struct RetryPlanTests {
    private let plan = RetryPlan(maximumAttempts: 10)
    private let day: Int64 = 86_400_000

    private func delays(
        _ cause: RetryCause, lane: Lane = .bulk, attempt: Int = 1, waits: Int = 0, retryAfter: Duration? = nil
    ) -> Set<RetryDelay> {
        var random = SplitMix64(seed: 5)
        return Set(
            (0..<500).compactMap { _ in
                let decision = plan.decide(
                    cause, lane: lane, attempt: attempt, waits: waits, retryAfter: retryAfter, now: 0, expiresAt: day, using: &random)
                return if case .again(let delay) = decision { delay } else { nil }
            })
    }

    @Test(
        "The wait grows with the attempts",
        arguments: [
            (RetryCause.throttled, 1, [RetryDelay.oneSecond, .fiveSeconds, .thirtySeconds]),
            (.throttled, 5, [.tenMinutes, .fifteenMinutes]),
            (.serverFault, 1, [.oneSecond, .fiveSeconds, .thirtySeconds]), (.serverFault, 4, [.fifteenMinutes]),
            (.serverFault, 9, [.fifteenMinutes]), (.connectionFault, 1, [.oneSecond, .fiveSeconds]),
            (.noAnswer, 1, [.oneSecond, .fiveSeconds]), (.noAnswer, 9, [.tenMinutes, .fifteenMinutes]),
        ] as [(RetryCause, Int, [RetryDelay])])
    func grows(cause: RetryCause, attempt: Int, expected: [RetryDelay]) {
        #expect(delays(cause, attempt: attempt).isSubset(of: expected))
    }

    @Test("Deliveries that failed together do not come back together")
    func spreads() {
        #expect(delays(.serverFault, attempt: 2).count > 1)
        #expect(delays(.throttled, attempt: 2).count > 1)
    }

    /// The wanted wait after a number of attempts, in seconds, and the longest delayed queue within it.
    @Test(
        "Chance never moves a wait of `now` to a longer queue",
        arguments: [
            (RetryCause.throttled, 2, RetryDelay.thirtySeconds), (.serverFault, 1, .fiveSeconds), (.serverFault, 2, .thirtySeconds),
            (.connectionFault, 1, .oneSecond), (.connectionFault, 3, .thirtySeconds), (.noAnswer, 1, .oneSecond),
            (.noAnswer, 2, .fiveSeconds), (.noAnswer, 3, .thirtySeconds), (.misconfigured, 1, .twoMinutes),
        ] as [(RetryCause, Int, RetryDelay)])
    func neverLongerForNow(cause: RetryCause, attempt: Int, longest: RetryDelay) {
        let now = delays(cause, lane: .now, attempt: attempt, waits: attempt - 1)
        #expect(now.max() == longest)
        guard cause == .serverFault, attempt == 2 else { return }
        #expect(delays(cause, attempt: attempt).contains(.twoMinutes), "bulk is spread both ways")
    }

    @Test(
        "After an outage `now` is late by about as long as the outage lasted, and no more",
        arguments: [RetryCause.notSent, .unavailable], [Int64(1_000), 6_000, 12_000, 18_000, 25_000, 60_000])
    func outage(cause: RetryCause, length: Int64) {
        var random = SplitMix64(seed: 11)
        for _ in 0..<300 {
            var (now, waits) = (Int64(0), 0)
            while now < length {
                guard
                    case .again(let delay) = plan.decide(
                        cause, lane: .now, attempt: 1, waits: waits, now: now, expiresAt: day, using: &random)
                else {
                    Issue.record("no other try after \(now) ms")
                    return
                }
                now += delay.milliseconds
                waits += 1
            }
            #expect(now - length <= max(5_000, length) + 5_000)
        }
    }

    /// The waits, in seconds. They stand here a second time on purpose: a figure that changes in the table changes here too.
    private static let ladders: [(RetryCause, [Double])] = [
        (.throttled, [5, 30, 120, 600, 900]), (.serverFault, [5, 30, 300, 900]), (.connectionFault, [1, 5, 30, 120, 600, 900]),
        (.noAnswer, [2, 15, 60, 300, 900]), (.otherEnvironment, [1]), (.misconfigured, [120, 600]), (.deviceThrottled, [5]), (.held, [1]),
        (.notSent, [1, 1, 1, 1, 1, 5, 5, 5, 5, 5, 5, 5, 5, 30]),
        (.unavailable, [5, 5, 5, 5, 5, 5, 5, 5, 5, 30, 30, 30, 30, 120, 120, 120, 120, 600]),
    ]

    @Test("On average the wait is what the ladder says, and the last one repeats", arguments: ladders)
    func keepsTheMean(cause: RetryCause, ladder: [Double]) {
        for (step, wanted) in (ladder + ladder.suffix(1)).enumerated() {
            var random = SplitMix64(seed: 9)
            let waits = (0..<10_000).compactMap { _ -> Int64? in
                let decision = plan.decide(
                    cause, lane: .bulk, attempt: step + 1, waits: step, now: 0, expiresAt: day, using: &random)
                return if case .again(let delay) = decision { delay.milliseconds } else { nil }
            }
            let mean = Double(waits.reduce(0, +)) / Double(waits.count) / 1000
            // No queue is shorter than a second or longer than fifteen minutes, so chance moves these two in one direction alone. Apple's
            // fifteen minutes for repeated 5xx it does not move at all.
            let expected =
                switch wanted {
                case 1: 17.0 / 16
                case 900 where cause != .serverFault: 900 * 15.0 / 16
                default: wanted
                }
            #expect(abs(mean / expected - 1) < 0.03, "wait \(step + 1)")
        }
    }

    @Test("Every cause has its ladder here")
    func coversEveryCause() { #expect(Set(Self.ladders.map(\.0)) == Set(RetryCause.allCases)) }

    @Test("Attempts end; waits of our own making do not")
    func ends() {
        var random = SplitMix64(seed: 1)
        for cause in RetryCause.allCases {
            let decision = plan.decide(cause, lane: .now, attempt: 10, waits: 1000, now: 0, expiresAt: day, using: &random)
            #expect((decision == .end(.attemptsUsedUp)) == (cause.row.countsAsAttempt && cause != .otherEnvironment))
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
            let lane = Lane.allCases.randomElement(using: &random) ?? .now
            switch plan.decide(cause, lane: lane, attempt: attempt, waits: attempt, now: now, expiresAt: expiresAt, using: &random) {
            case .again(let delay): #expect(now + delay.milliseconds < expiresAt)
            case .end(let reason):
                #expect(reason == .expiresBeforeRetry)
                // A wait of our own making ends only if not even the shortest delay fits.
                if !cause.row.countsAsAttempt { #expect(now + 1000 >= expiresAt) }
            }
        }
    }

    @Test("APNs' own wish is never shortened")
    func honoursRetryAfter() {
        #expect(delays(.throttled, retryAfter: .seconds(31)) == [.twoMinutes])
        #expect(delays(.throttled, retryAfter: .seconds(7200)) == [.fifteenMinutes], "the longest there is")
    }
}
