import SystemIO

/// Time as the pool reads it; a test puts its own in place.
package struct APNsClock: Sendable {
    /// For ages, deadlines and timers: never set back.
    package let now: @Sendable () -> ContinuousClock.Instant
    /// UNIX milliseconds: for expiry, `iat` and what others will read.
    package let wall: @Sendable () -> Int64

    package init(now: @escaping @Sendable () -> ContinuousClock.Instant, wall: @escaping @Sendable () -> Int64) {
        self.now = now
        self.wall = wall
    }

    package static let system = APNsClock(now: { ContinuousClock.now }, wall: { WallClock.milliseconds() })
}
