/// When a line whose messages the broker refuses tries another channel: after the first refusal at once, then after 1, 2, 4 s and
/// so on up to 30 s, because a full queue refuses over every channel. After a minute without a refusal it begins anew.
struct RenewalDelay {
    private static let shortest = Duration.seconds(1)
    private static let longest = Duration.seconds(30)
    private var pause = Duration.zero
    private var last: ContinuousClock.Instant?
    private(set) var isDue = false

    mutating func refused(now: ContinuousClock.Instant = .now) {
        if let last, last.duration(to: now) > Self.longest * 2 { self = RenewalDelay() }
        isDue = isDue || last.map { $0.duration(to: now) >= pause } ?? true
    }

    mutating func renewed(now: ContinuousClock.Instant = .now) {
        isDue = false
        last = now
        pause = min(max(pause * 2, Self.shortest), Self.longest)
    }
}
