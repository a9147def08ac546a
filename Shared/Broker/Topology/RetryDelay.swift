/// How long a retried job waits. Each lane has one queue per delay, because messages expire only at a queue's head: with mixed delays a short
/// one would wait behind a long one (RabbitMQ: Time-To-Live and Expiration).
package enum RetryDelay: String, CaseIterable, Sendable, Hashable, Comparable {
    case oneSecond = "1s"
    case fiveSeconds = "5s"
    case thirtySeconds = "30s"
    case twoMinutes = "2m"
    case tenMinutes = "10m"
    case fifteenMinutes = "15m"

    package var milliseconds: Int64 {
        switch self {
        case .oneSecond: 1_000
        case .fiveSeconds: 5_000
        case .thirtySeconds: 30_000
        case .twoMinutes: 120_000
        case .tenMinutes: 600_000
        case .fifteenMinutes: 900_000
        }
    }

    package var duration: Duration { .milliseconds(milliseconds) }

    /// The shortest delay that is not shorter than `wanted`; the longest if there is none: the job comes back early then and may be delayed
    /// again.
    package static func atLeast(_ wanted: Duration) -> RetryDelay {
        allCases.first { $0.duration >= wanted } ?? .fifteenMinutes
    }

    /// The longest delay that is not longer than `wanted`; the shortest if there is none.
    package static func atMost(_ wanted: Duration) -> RetryDelay {
        allCases.last { $0.duration <= wanted } ?? .oneSecond
    }

    package static func < (left: RetryDelay, right: RetryDelay) -> Bool { left.milliseconds < right.milliseconds }
}
