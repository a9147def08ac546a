import Broker

/// How long a held job stays in a delayed queue before it is checked again. Few jobs come back soon, so that little time is lost once the
/// hold is lifted. Many come back rarely, so that a hold over a million jobs costs only a few messages a second. Pure: time comes in.
struct HoldPace: Equatable, Sendable {
    struct Step: Equatable, Sendable {
        let delay: RetryDelay
        /// How many jobs of each window get this delay.
        let jobs: Int
    }

    static let window: Int64 = 10_000
    /// Beyond them all: ten minutes.
    static let steps = [
        Step(delay: .fiveSeconds, jobs: 50), Step(delay: .thirtySeconds, jobs: 500), Step(delay: .twoMinutes, jobs: 1000),
    ]

    private var windowBegan: Int64 = .min
    private var jobsInWindow = 0

    /// Finds the delay for the next job that is held.
    /// - Parameters:
    ///   - endsAt: when the hold ends by itself; the job is back at the latest then, to a second or so.
    ///   - now: UNIX milliseconds, as is `endsAt`.
    mutating func delay(until endsAt: Int64?, at now: Int64) -> RetryDelay {
        if windowBegan > now || windowBegan <= now - Self.window {
            windowBegan = now
            jobsInWindow = 0
        }
        var rest = jobsInWindow
        jobsInWindow += 1
        var chosen = RetryDelay.tenMinutes
        for step in Self.steps {
            if rest < step.jobs {
                chosen = step.delay
                break
            }
            rest -= step.jobs
        }
        guard let endsAt else { return chosen }
        let remaining = RetryDelay.allCases.last { $0.milliseconds <= endsAt - now } ?? .oneSecond
        return min(chosen, remaining)
    }
}
