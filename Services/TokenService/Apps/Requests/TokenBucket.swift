package import TokenServiceKit

/// A limit of requests per second, of which one second's worth may come at once. A value, without a clock of its own.
///
/// Holds a single number: the moment at which the bucket is full again (the generic cell rate algorithm). Times are nanoseconds of any
/// clock that never goes back.
package struct TokenBucket: Equatable, Sendable {
    /// A caller waits at most this long for its next request, however much the last one cost.
    static let longestDebt: Int64 = 60_000_000_000
    private static let second: Int64 = 1_000_000_000

    let rate: Int
    private var fullAt: Int64 = .min

    /// - Parameter rate: The rate a second, from 1 to 1,000,000.
    init(rate: Int) { self.rate = rate }

    /// The limit as the answer reports it.
    package struct Quota: Equatable, Sendable {
        package let isWithin: Bool
        let limit: Int
        let remaining: Int
        /// Whole seconds until ``remaining`` is ``limit`` again.
        let resetSeconds: Int
        /// Whole seconds until a request would be admitted; 0 if it was.
        let retryAfterSeconds: Int
    }

    /// Takes one request's share, if it is there.
    mutating func take(at now: Int64) -> Quota {
        let ahead = max(fullAt, now) - now
        let isWithin = ahead + interval <= capacity
        if isWithin { fullAt = now + ahead + interval }
        let taken = isWithin ? ahead + interval : ahead
        return Quota(
            isWithin: isWithin, limit: rate, remaining: Int(max(0, capacity - taken) / interval), resetSeconds: Self.seconds(taken),
            retryAfterSeconds: isWithin ? 0 : max(1, Self.seconds(ahead + interval - capacity)))
    }

    /// Takes the share of that many requests, even if the bucket is empty: later ones wait for it.
    mutating func charge(_ requests: Int, at now: Int64) {
        let cost = Int64(requests).multipliedReportingOverflow(by: interval)
        let ahead = max(fullAt, now) - now
        fullAt = now + max(ahead, min(ahead + min(cost.overflow ? .max : cost.partialValue, Self.longestDebt), Self.longestDebt))
    }

    /// Whether forgetting it changes nothing.
    func isFull(at now: Int64) -> Bool { fullAt <= now }

    private var interval: Int64 { Self.second / Int64(rate) }
    private var capacity: Int64 { interval * Int64(rate) }

    private static func seconds(_ nanoseconds: Int64) -> Int { Int((nanoseconds + second - 1) / second) }
}

extension APIError {
    package static func rateLimited(_ quota: TokenBucket.Quota) -> APIError {
        APIError(
            .rateLimited, "this key may make \(quota.limit) requests per second of each instance of the service",
            retryAfterSeconds: quota.retryAfterSeconds)
    }
}
