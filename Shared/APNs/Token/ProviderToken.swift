/// A provider token with the times that its age is counted from.
struct ProviderToken: Sendable {
    /// The value of the `authorization` header.
    let authorization: [UInt8]
    let mintedAt: ContinuousClock.Instant
    /// UNIX milliseconds.
    let wall: Int64

    /// How far the two clocks may drift apart before the wall clock counts as having been set.
    private static let toleratedDrift: Duration = .seconds(30)

    func age(now: ContinuousClock.Instant) -> Duration { now - mintedAt }

    /// Old by the clock that cannot be set. Or the wall clock was set since: back, so that `iat` lies in the future now, or so far ahead
    /// that APNs sees an old token (docs/apns.md, Provider tokens).
    func isStale(after limit: Duration, now: ContinuousClock.Instant, wall: Int64) -> Bool {
        let age = age(now: now)
        let ageByWall = Duration.milliseconds(wall - self.wall)
        return age >= limit || ageByWall >= limit || ageByWall < age - Self.toleratedDrift
    }
}
