/// Exponential delays with full jitter: between zero and a bound that doubles, so that many devices do not come back together.
struct RetryBackoff: Hashable, Sendable {
    static let base = Duration.seconds(1)
    static let cap = Duration.seconds(15 * 60)

    private(set) var failures = 0

    /// - Parameters:
    ///   - random: In 0..<1.
    ///   - retryAfter: What the server asks for; the delay is never shorter, and at most a day.
    mutating func next(random: Double, retryAfter: Duration?) -> Duration {
        let bound = min(Self.cap, Self.base * Double(sign: .plus, exponent: min(failures, 30), significand: 1))
        failures += 1
        let delay = bound * random
        guard let retryAfter else { return delay }
        // The jitter comes on top: the devices that one outage turned away must not return in one second.
        return min(max(retryAfter, .zero), .seconds(86_400)) + delay
    }

    mutating func reset() {
        failures = 0
    }
}
