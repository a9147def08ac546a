/// How long a caller waits before the next attempt.
package enum Backoff {
    /// - Parameter attempt: How many attempts there were.
    /// - Returns: At least half a bound, which begins with half a second and doubles up to ten.
    package static func pause(attempt: Int) -> Duration {
        .milliseconds(min(10_000, 250 << min(attempt, 6))) * Double.random(in: 0.5...1)
    }

    package static func wait(attempt: Int) async throws { try await Task.sleep(for: pause(attempt: attempt)) }

    /// - Returns: Nil if the call is not to be repeated.
    static func pause(after error: PushAPIError, of call: PushAPI.Call, attempt: Int) -> Duration? {
        guard case .refused(let problem) = error else { return error.isTemporary && call.isRepeatable ? pause(attempt: attempt) : nil }
        // 429 comes before the service does anything. After another refusal a commit may be in doubt.
        guard problem.status == 429 || problem.isTemporary && call.isRepeatable else { return nil }
        return (problem.retryAfter ?? .zero) + pause(attempt: attempt)
    }
}

/// The time of a call; a test has its own.
struct CallClock: Sendable {
    let now: @Sendable () -> ContinuousClock.Instant
    let sleep: @Sendable (Duration) async throws -> Void

    static let continuous = CallClock(now: { .now }, sleep: { try await Task.sleep(for: $0) })
}
