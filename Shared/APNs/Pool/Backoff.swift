/// Exponential delays with full jitter: between zero and a bound that doubles, so that many clients do not come back together.
struct Backoff {
    let base: Duration
    let cap: Duration
    private(set) var failures = 0

    init(base: Duration, cap: Duration) {
        self.base = base
        self.cap = cap
    }

    /// - Parameter random: in 0..<1.
    mutating func next(random: Double) -> Duration {
        let bound = Self.bound(base, cap, failures)
        failures += 1
        return bound * random
    }

    mutating func reset() {
        failures = 0
    }

    static func bound(_ base: Duration, _ cap: Duration, _ failures: Int) -> Duration {
        min(cap, base * Double(sign: .plus, exponent: min(failures, 30), significand: 1))
    }
}
