/// When the next attempt to connect is due, and the log entries about failed ones.
///
/// The pause has full jitter: from 0.1 s up to a ceiling that doubles to 2 s, so that many clients do not return to a restarted broker in
/// step, and each is back soon. Sending waits for this pause, too, when the control stream has moved to another node. A connection that
/// was given up soon after it was made counts as a failure: each one declares dozens of objects.
struct ReconnectDelay {
    private static let shortest = Duration.milliseconds(100)
    private static let longest = Duration.seconds(2)
    private static let usefulAge = Duration.seconds(10)
    private static let firstCeiling = Duration.milliseconds(200)
    private var ceiling = firstCeiling
    private var connectedAt: ContinuousClock.Instant?
    /// Since the last connection.
    private(set) var failures = 0
    private var firstFailure: ContinuousClock.Instant?

    mutating func next(now: ContinuousClock.Instant = .now) -> Duration {
        if let connectedAt, connectedAt.duration(to: now) >= Self.usefulAge { ceiling = Self.firstCeiling }
        connectedAt = nil
        defer { ceiling = min(ceiling * 2, Self.longest) }
        failures += 1
        firstFailure = firstFailure ?? now
        return Self.shortest + (ceiling - Self.shortest) * Double.random(in: 0...1)
    }

    /// - Returns: the failures before, and how long there was no connection; nil when none failed.
    mutating func connected(now: ContinuousClock.Instant = .now) -> (failures: Int, outage: Duration)? {
        defer { (failures, firstFailure, connectedAt) = (0, nil, now) }
        return firstFailure.map { (failures, now - $0) }
    }
}
