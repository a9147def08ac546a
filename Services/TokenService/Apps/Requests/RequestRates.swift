package import HTTPTypes
import Hummingbird
import Synchronization

/// How often each key may call this process. One short lock per request.
package final class RequestRates: Sendable {
    /// More than any deployment has in use; it bounds the memory.
    private static let maximumKeys = 10_000

    private let defaultRate: Int
    private let epoch = ContinuousClock.now
    private let buckets = Mutex<[String: TokenBucket]>([:])

    /// - Parameter defaultRate: The rate of keys without one of their own; 0 for none.
    package init(defaultRate: Int) { self.defaultRate = defaultRate }

    /// - Returns: nil for a key without a limit.
    package func take(_ caller: Caller) -> TokenBucket.Quota? {
        withBucket(of: caller) { bucket, now in bucket.take(at: now) }
    }

    /// One request did the work of this many more.
    func charge(_ requests: Int, to caller: Caller) {
        guard requests > 0 else { return }
        _ = withBucket(of: caller) { bucket, now in bucket.charge(requests, at: now) }
    }

    private func withBucket<Result: Sendable>(of caller: Caller, _ body: (inout TokenBucket, Int64) -> Result) -> Result? {
        let rate = caller.requestsPerSecond ?? defaultRate
        guard rate > 0 else { return nil }
        let now = nanoseconds()
        return buckets.withLock { buckets in
            if buckets.count >= Self.maximumKeys, buckets[caller.keyID] == nil { Self.tidy(&buckets, now) }
            return body(&buckets[caller.keyID, default: TokenBucket(rate: rate)], now)
        }
    }

    private static func tidy(_ buckets: inout [String: TokenBucket], _ now: Int64) {
        buckets = buckets.filter { !$0.value.isFull(at: now) }
        if buckets.count >= maximumKeys { buckets.removeAll(keepingCapacity: true) }
    }

    private func nanoseconds() -> Int64 {
        let (seconds, attoseconds) = (ContinuousClock.now - epoch).components
        return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }
}

extension TokenBucket.Quota {
    private static let names = ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"].compactMap { HTTPField.Name($0) }

    /// The fields on every answer to a limited key.
    package var fields: Zip2Sequence<[HTTPField.Name], [Int]> { zip(Self.names, [limit, remaining, resetSeconds]) }

    package func write(to headers: inout HTTPFields) {
        for (name, value) in fields { headers[name] = "\(value)" }
    }
}
